"""What pods need: the corpus of quantities, and the sums of kube-scheduler."""

import string
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.arrays.layout import DEVICES_A_NODE_MAX
from gpufleet.model.gpu_share import GpuShare
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.requests import (
    GPUS_A_POD_MAX,
    ContainerAmounts,
    PodAmounts,
    gpu_request,
    pod_needs,
    total_requests,
)
from gpufleet.model.shape import GpuRequest

CORPUS = sorted((Path(__file__).parent.parent / "corpus" / "quantities").glob("*.json"))


class ExpectedError(msgspec.Struct, forbid_unknown_fields=True):
    """What the refusal has to name."""

    field: str
    value: str | int
    expected: str


class ExpectedNeeds(msgspec.Struct, forbid_unknown_fields=True):
    """What has to come out of a good input."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_count: int = 0
    gpu_milli: int = 0
    gpu_resource: str = ""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One file of the corpus."""

    id: int
    what: str
    input: PodAmounts
    verdict: Literal["refused", "normalised"]
    share: GpuShare | None = None
    result: ExpectedNeeds | None = None
    error: ExpectedError | None = None


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus(path: Path) -> None:
    entry = msgspec.json.decode(path.read_bytes(), type=Entry)
    assert path.name.startswith(f"{entry.id}-")
    if entry.verdict == "normalised":
        needs = pod_needs(entry.input, entry.share)
        found = ExpectedNeeds(
            needs.resources.cpu_milli,
            needs.resources.memory_bytes,
            needs.gpu.count,
            needs.gpu.gpu_milli,
            needs.gpu_resource,
        )
        assert found == entry.result
        return
    assert entry.error is not None
    with pytest.raises(InputError) as refusal:
        pod_needs(entry.input, entry.share)
    assert refusal.value.field == entry.error.field
    assert refusal.value.value == entry.error.value
    assert entry.error.expected in refusal.value.expected


def test_the_corpus_holds_every_kind_of_input() -> None:
    assert {int(path.name.split("-")[0]) for path in CORPUS} == set(range(17, 29))


def limited(**limits: str) -> PodAmounts:
    names = {name.replace("__", "/").replace("_", "."): text for name, text in limits.items()}
    return PodAmounts(containers=(ContainerAmounts("c", limits=names),))


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"])
def test_every_vendors_gpus_are_whole_devices(name: str) -> None:
    needs = pod_needs(PodAmounts((ContainerAmounts("c", limits={name: "2"}),)))
    assert needs.gpu == GpuRequest(2, 1000)
    assert needs.gpu_resource == name
    assert needs.resources.other == ()


def test_other_resources_are_sorted_and_zeros_left_out() -> None:
    limits = {"rdma/hca": "1", "nvidia.com/mig-1g.5gb": "2", "hugepages-2Mi": "4Mi", "example.com/fpga": "0"}
    needs = pod_needs(PodAmounts((ContainerAmounts("c", limits=limits),)))
    others = (("hugepages-2Mi", 4 * 2**20), ("nvidia.com/mig-1g.5gb", 2), ("rdma/hca", 1))
    assert needs.resources.other == others
    assert needs.gpu == GpuRequest()


def test_two_kinds_of_gpu_in_one_pod_are_refused() -> None:
    with pytest.raises(InputError, match="several kinds of GPU"):
        pod_needs(limited(nvidia_com__gpu="1", amd_com__gpu="1"))
    assert pod_needs(limited(nvidia_com__gpu="1", amd_com__gpu="0")).gpu.count == 1


def test_more_gpus_than_any_node_of_the_engine_has_are_refused() -> None:
    """Before, the engine turned such a pod away, and nothing told its owner why."""
    assert GPUS_A_POD_MAX == DEVICES_A_NODE_MAX
    assert pod_needs(limited(nvidia_com__gpu="256")).gpu.count == GPUS_A_POD_MAX
    with pytest.raises(InputError, match="too many GPUs, found 1000; expected at most 256 GPUs in one pod"):
        pod_needs(limited(nvidia_com__gpu="1k"))


@pytest.mark.parametrize(
    "name", ["gpu", "pods", "CPU", "requests.nvidia.com/gpu", "a/b/c", "nvidia.com/", "", "x\n"]
)
def test_names_that_no_container_may_use(name: str) -> None:
    with pytest.raises(InputError) as refusal:
        pod_needs(PodAmounts((ContainerAmounts("c", limits={name: "1"}),)))
    assert refusal.value.value == name
    assert "nvidia.com/gpu" in refusal.value.expected


def test_limits_of_cpu_may_exceed_requests_but_not_fall_below() -> None:
    def with_cpu(request: str, limit: str) -> PodAmounts:
        return PodAmounts((ContainerAmounts("c", {"cpu": request}, {"cpu": limit}),))

    assert pod_needs(with_cpu("1", "2")).resources.cpu_milli == 1000
    with pytest.raises(InputError, match="above its limit"):
        pod_needs(with_cpu("2", "1"))


def test_huge_pages_need_equal_limits() -> None:
    pages = ContainerAmounts("c", {"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "4Mi"})
    with pytest.raises(InputError, match="differs from its limit"):
        pod_needs(PodAmounts((pages,)))


def test_pod_level_requests_below_the_containers_are_refused() -> None:
    container = ContainerAmounts("c", {"cpu": "2"})
    with pytest.raises(InputError, match="less than its containers"):
        pod_needs(PodAmounts((container,), pod_requests={"cpu": "1"}))


def test_shares() -> None:
    assert gpu_request(0) == GpuRequest()
    assert gpu_request(2) == GpuRequest(2, 1000)
    assert gpu_request(2, GpuShare(500)) == GpuRequest(2, 500)
    assert gpu_request(1, GpuShare(memory_mib=4096)) == GpuRequest(1, 0, 4096)
    needs = pod_needs(limited(nvidia_com__gpu="1"), GpuShare(250, 1024))
    assert needs.gpu == GpuRequest(1, 250, 1024)


NAMES = st.sampled_from(["cpu", "memory", "example.com/x"])
AMOUNTS = st.integers(min_value=0, max_value=10**6).map(str)
CONTAINERS = st.builds(
    ContainerAmounts,
    name=st.text(string.ascii_lowercase, min_size=1, max_size=3),
    limits=st.dictionaries(NAMES, AMOUNTS),
    restartable=st.booleans(),
)
PODS = st.builds(
    PodAmounts,
    containers=st.lists(CONTAINERS, max_size=3).map(tuple),
    init_containers=st.lists(CONTAINERS, max_size=4).map(tuple),
    overhead=st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
)


@given(PODS, CONTAINERS)
def test_one_more_container_never_needs_less(pod: PodAmounts, more: ContainerAmounts) -> None:
    before = total_requests(pod)
    running = msgspec.structs.replace(pod, containers=(*pod.containers, more))
    starting = msgspec.structs.replace(pod, init_containers=(*pod.init_containers, more))
    for after in (total_requests(running), total_requests(starting)):
        assert all(not after[name] < amount for name, amount in before.items())


@given(PODS)
def test_the_total_covers_every_moment_of_the_pod(pod: PodAmounts) -> None:
    total = total_requests(pod)

    def needed(name: str, containers: list[ContainerAmounts]) -> int:
        texts = [container.limits.get(name, "0") for container in containers]
        return sum(parse_quantity(text).value() for text in [*texts, pod.overhead.get(name, "0")])

    sidecars: list[ContainerAmounts] = []
    moments: list[list[ContainerAmounts]] = []
    for container in pod.init_containers:
        moments.append([*sidecars, container])
        if container.restartable:
            sidecars.append(container)
    moments.append([*sidecars, *pod.containers])
    for name, amount in total.items():
        assert amount.value() == max(needed(name, moment) for moment in moments)
