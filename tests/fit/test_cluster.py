"""Where in a cluster a model fits: nodes and pods as the API server gives them."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gpufleet.advise.fit.cluster_file import read_cluster_file
from gpufleet.advise.fit.on_cluster import ClusterAnswer, answered
from gpufleet.cli.fit_cluster_output import lines
from gpufleet.cli.main import main
from gpufleet.fit.cluster import NodeGpus, read_cluster, rooms_of
from gpufleet.fit.options import Options
from gpufleet.kube.listing import Page
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS, Kind
from gpufleet.kube.status import NotFound, Status
from gpufleet.model.model_errors import InputError
from tests.conventions.project import ROOT

H100 = "NVIDIA-H100-80GB-HBM3"


def node(name: str, product: str, gpus: int, *, ready: bool = True, cordoned: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product} if product else {}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"cpu": "64", "nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "8"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(name: str, where: str, gpus: int, phase: str = "Running") -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [container], "nodeName": where},
        "status": {"phase": phase},
    }


def report(name: str, *devices: dict[str, Any], holders: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """What an agent says of its node, as `kubectl get nodedevices -o json` has it."""
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "NodeDevices",
        "metadata": {"name": name},
        "spec": {"bootID": "1", "devices": list(devices), "holders": list(holders)},
    }


def gpu(name: str, **more: Any) -> dict[str, Any]:
    return {"id": f"GPU-{name}", "model": "H100-80GB", "memoryMiB": 81559, "usableMemoryMiB": 81079} | more


class Shelf:
    """Answers lists as a client does."""

    def __init__(
        self,
        nodes: list[dict[str, Any]],
        pods: list[dict[str, Any]],
        reports: list[dict[str, Any]] | None = None,
    ) -> None:
        self.shelves = {NODES: nodes, PODS: pods, NODE_DEVICES: reports}

    async def list_pages(self, kind: Kind) -> AsyncIterator[Page]:
        """One page with all of them."""
        items = self.shelves[kind]
        if items is None:
            raise NotFound(Status(code=404, reason="NotFound", message="no such resource"))
        yield Page(items=[msgspec.Raw(json.dumps(one).encode()) for one in items])


def rooms(
    nodes: list[dict[str, Any]], *pods: dict[str, Any], reports: list[dict[str, Any]] | None = None
) -> list[NodeGpus]:
    return rooms_of(asyncio.run(read_cluster(Shelf(nodes, list(pods), reports))))


def ask(found: list[NodeGpus], **words: Any) -> ClusterAnswer:
    return answered(Options("llama-3.3-70b", context=32768, **words), found)


def test_free_gpus_are_those_that_no_running_pod_asks_for() -> None:
    found = rooms(
        [node("a", H100, 8), node("cpu", "", 0)],
        pod("one", "a", 3),
        pod("done", "a", 2, "Succeeded"),
        pod("waiting", "", 4, "Pending"),
    )
    assert found == [NodeGpus("a", "H100-80GB", 8, 5)]


def test_a_sidecar_holds_its_gpus_while_an_init_container_that_comes_after_it_runs() -> None:
    held = pod("one", "a", 1)
    asks = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    held["spec"]["initContainers"] = [
        {"name": "sidecar", "restartPolicy": "Always", **asks},
        {"name": "warm-up", **asks},
    ]
    # The containers hold 3 together; while the second one starts, 4 are held.
    assert rooms([node("a", H100, 8)], held) == [NodeGpus("a", "H100-80GB", 8, 4)]


def test_it_says_where_now_and_where_when_idle() -> None:
    """Llama 3.3 70B takes four H100: one copy beside three used GPUs, four on two idle nodes."""
    answer = ask(rooms([node("a", H100, 8), node("b", H100, 8)], pod("one", "a", 3), pod("two", "b", 6)))
    (place,) = answer.places
    assert (place.gpus, place.now, place.idle) == (4, 1, 4)
    assert (place.nodes_now, place.nodes_idle) == (("a",), ("a", "b"))
    assert any("copies now" in line for line in lines(answer))


def test_a_node_bounds_tensor_parallel() -> None:
    """Two nodes of two GPUs: two stages of two."""
    (place,) = ask(rooms([node("a", H100, 2), node("b", H100, 2)])).places
    assert (place.tensor_parallel, place.pipeline_parallel, place.now) == (2, 2, 1)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (node("b", H100 + "-SHARED", 8), "shared"),
        (node("b", H100 + "-MIG-1g.10gb", 7), "MIG"),
        (node("b", H100, 8, ready=False), "not ready"),
        (node("b", H100, 8, cordoned=True), "cordoned"),
        (node("b", "NVIDIA-Z9000", 8), "no known model"),
    ],
)
def test_what_is_no_room_is_left_out_and_said(bad: dict[str, Any], why: str) -> None:
    answer = ask(rooms([node("a", H100, 8), bad]))
    assert answer.places[0].nodes_idle == ("a",)
    assert any(line.startswith("Left out: b") and why in line for line in lines(answer))


def test_a_cluster_without_room_is_refused() -> None:
    with pytest.raises(InputError, match="no whole GPU of a known model"):
        ask(rooms([node("cpu", "", 0)]))
    with pytest.raises(InputError, match="that was named"):
        ask(rooms([node("a", H100, 8)]), gpus=("l4",))


def test_too_few_cards_are_said_to_be_too_few() -> None:
    answer = ask(rooms([node("a", "NVIDIA-L40S", 1)]))
    (place,) = answer.places
    assert (place.now, place.idle, place.nodes_idle) == (0, 0, ())
    assert any("too few L40S: one copy takes 4" in line for line in lines(answer))


def test_where_it_does_not_fit_the_answer_says_why_and_what_would_help() -> None:
    answer = ask(rooms([node("a", H100, 8)]), tensor_parallel=1)
    assert answer.places == ()
    text = list(lines(answer))
    assert any("does not fit" in line for line in text)
    assert any("it surely fits with" in line for line in text)


def test_the_document_shows_what_two_such_nodes_answer() -> None:
    answer = ask(rooms([node("a", H100, 8), node("b", H100, 8)], pod("one", "a", 3), pod("two", "b", 6)))
    document = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
    assert "\n".join(lines(answer)) in document


def test_where_an_agent_reports_its_devices_are_believed() -> None:
    """One of four is held by a pod, one by somebody foreign, one is ill; a program finds 80,000 MiB."""
    devices = [gpu(str(number), usableMemoryMiB=80_000) for number in range(3)]
    devices.append(gpu("3", health="unhealthy"))
    holders = ({"device": "GPU-0", "podUID": "a"}, {"device": "GPU-1", "foreign": "Xorg"})
    (room,) = rooms([node("a", H100, 4)], reports=[report("a", *devices, holders=holders)])
    assert room == NodeGpus("a", "H100-80GB", 3, 1, usable_mib=80_000)
    assert ask([room]).answer.cards[0].memory.usable_bytes == 80_000 << 20


def test_a_pod_that_is_bound_and_not_started_has_its_gpus_already() -> None:
    found = rooms(
        [node("a", H100, 4)], pod("soon", "a", 3), reports=[report("a", *(gpu(str(n)) for n in range(4)))]
    )
    assert [(room.gpus, room.free) for room in found] == [(4, 1)]


def test_parts_of_cards_are_no_whole_ones_but_their_holders_have_the_card() -> None:
    devices = [gpu("0"), gpu("1"), gpu("2", sharing="mig"), gpu("3", sharing="shares")]
    holders = ({"device": "GPU-0::1g.10gb@4", "podUID": "a"},)
    (room,) = rooms([node("a", H100 + "-MIG-1g.10gb", 4)], reports=[report("a", *devices, holders=holders)])
    assert (room.gpus, room.free, room.why_not) == (2, 1, "")


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ([gpu("0", sharing="mig")], "cut by MIG"),
        ([gpu("0", health="unknown")], "healthy"),
        ([gpu("0"), gpu("1", model="L4")], "several models"),
        ([gpu("0", model="Z9000")], "no known model"),
    ],
)
def test_a_report_says_why_a_node_is_no_room(devices: list[dict[str, Any]], why: str) -> None:
    (room,) = rooms([node("a", H100, 1)], reports=[report("a", *devices)])
    assert why in room.why_not


def items(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def kinds(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    named = [{"apiVersion": "v1", "kind": "Node"} | one for one in nodes]
    return named + [{"apiVersion": "v1", "kind": "Pod"} | one for one in pods]


def test_a_file_of_kubectl_is_read_like_the_cluster_itself(tmp_path: Path) -> None:
    nodes, pods = [node("a", H100, 8), node("b", H100, 8)], [pod("one", "a", 3)]
    file = tmp_path / "cluster.yaml"
    file.write_text(items(*kinds(nodes, pods), report("b", gpu("0"))))
    assert rooms_of(read_cluster_file(file)) == rooms(nodes, *pods, reports=[report("b", gpu("0"))])
    file.write_text(yaml.safe_dump(json.loads(file.read_text())))
    assert rooms_of(read_cluster_file(file)) == rooms(nodes, *pods, reports=[report("b", gpu("0"))])


def test_a_snapshot_is_read_like_the_cluster_itself(tmp_path: Path) -> None:
    nodes, pods = [node("a", H100, 8)], [pod("one", "a", 3)]
    lines = [json.dumps(one) for one in kinds(nodes, pods)]
    head = {"snapshot": "gpufleet.io/snapshot/v1", "objects": {"v1/Node": 1, "v1/Pod": 1}}
    file = tmp_path / "snapshot.gz"
    file.write_bytes(gzip.compress("\n".join([json.dumps(head), *lines]).encode()))
    assert rooms_of(read_cluster_file(file)) == rooms(nodes, *pods)


@pytest.mark.parametrize("text", ["", "a: [", "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n"])
def test_a_file_without_nodes_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(InputError):
        read_cluster_file(file)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="--cluster"):
        read_cluster_file(Path("nowhere.yaml"))


def test_the_option_takes_a_file_or_means_the_cluster_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(items(*kinds([node("a", H100, 8)], [])))
    assert main(["fit", "llama-3.1-8b", "--cluster", str(file)]) == 0
    assert "H100-80GB" in capsys.readouterr().out
    missing = ["--kubeconfig", str(tmp_path / "none")]
    # Without a file, and also where the model stands behind it, the cluster is asked.
    for words in (["llama-3.1-8b", "--cluster"], ["--cluster", "llama-3.1-8b"]):
        assert main(["fit", *words, *missing]) != 0
        assert "none" in capsys.readouterr().err
