"""Parts of a GPU as people write them: every dialect ends in one share, and contradictions are named."""

import pytest

from gpufleet.kube.codec.pod import read_placed_pod, read_pod
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model.shape import GpuRequest, Within
from tests.kube.wire_objects import NVIDIA, SLOT, a_pod, limited

ONE_SLOT = {SLOT: "1"}


def asked(limits: dict[str, str], **annotations: str) -> GpuRequest:
    return read_pod(a_pod(limited("train", limits), annotations=written(annotations))).shape.gpu


def written(annotations: dict[str, str]) -> dict[str, str]:
    """Keys by short names: ours_fraction, kai_fraction and so on."""
    names = {
        "ours_fraction": "gpufleet.io/gpu-fraction",
        "ours_memory": "gpufleet.io/gpu-memory",
        "kai_fraction": "gpu-fraction",
        "kai_memory": "gpu-memory",
        "kai_devices": "gpu-fraction-num-devices",
        "kai_container": "gpu-fraction-container-name",
    }
    return {names[name]: text for name, text in annotations.items()}


HAMI = {
    "memory": "nvidia.com/gpumem",
    "percent": "nvidia.com/gpumem-percentage",
    "cores": "nvidia.com/gpucores",
}
VOLCANO = {
    "number": "volcano.sh/vgpu-number",
    "memory": "volcano.sh/vgpu-memory",
    "percent": "volcano.sh/vgpu-memory-percentage",
    "cores": "volcano.sh/vgpu-cores",
}


def test_whole_gpus_are_no_shares() -> None:
    assert asked({NVIDIA: "2"}) == GpuRequest(2, 1000)


@pytest.mark.parametrize(
    ("annotations", "gpu"),
    [
        ({"ours_fraction": "0.5"}, GpuRequest(1, 500)),
        ({"ours_fraction": "25%"}, GpuRequest(1, 250)),
        ({"ours_memory": "4096"}, GpuRequest(1, 0, 4096)),
        ({"ours_memory": "4Gi"}, GpuRequest(1, 0, 4096)),
        ({"ours_fraction": "0.1", "ours_memory": "4096"}, GpuRequest(1, 100, 4096)),
        ({"kai_fraction": "0.5"}, GpuRequest(1, 500)),
        ({"kai_memory": "2000"}, GpuRequest(1, 0, 2000)),
        ({"kai_fraction": "0.5", "kai_devices": "1", "kai_container": "train"}, GpuRequest(1, 500)),
        ({"kai_fraction": "0.5", "ours_fraction": "50%"}, GpuRequest(1, 500)),
    ],
)
def test_annotations_speak_of_the_pod(annotations: dict[str, str], gpu: GpuRequest) -> None:
    assert asked(ONE_SLOT, **annotations) == gpu


def test_there_are_as_many_devices_as_slots() -> None:
    assert asked({SLOT: "3"}, kai_fraction="0.2", kai_devices="3") == GpuRequest(3, 200)


@pytest.mark.parametrize(
    ("limits", "gpu"),
    [
        ({HAMI["memory"]: "3000"}, GpuRequest(1, 0, 3000)),
        ({HAMI["memory"]: "3000", HAMI["cores"]: "30"}, GpuRequest(1, 300, 3000)),
        ({HAMI["percent"]: "50"}, GpuRequest(1, 500)),
        ({HAMI["percent"]: "50", HAMI["cores"]: "70"}, GpuRequest(1, 700)),
        ({HAMI["cores"]: "30"}, GpuRequest(1, 1000)),
        ({VOLCANO["number"]: "1", VOLCANO["memory"]: "1024"}, GpuRequest(1, 0, 1024)),
        ({VOLCANO["number"]: "1", VOLCANO["percent"]: "25", VOLCANO["cores"]: "10"}, GpuRequest(1, 250)),
        ({VOLCANO["number"]: "1"}, GpuRequest(1, 1000)),
    ],
)
def test_resources_speak_of_a_container(limits: dict[str, str], gpu: GpuRequest) -> None:
    pod = read_pod(a_pod(limited("train", {**ONE_SLOT, **limits})))
    assert pod.shape.gpu == gpu
    # No node offers them, so they must not be asked of one.
    assert pod.shape.resources.other == ((SLOT, 1),)


REFUSED = {
    "a share without its slot": ({}, {"ours_fraction": "0.5"}, "without its slot"),
    "a slot without a share": (ONE_SLOT, {}, "no share"),
    "two shares": (ONE_SLOT, {"ours_fraction": "0.5", "kai_fraction": "0.4"}, "another share"),
    "annotation and resource differ": (
        {**ONE_SLOT, HAMI["memory"]: "3000"},
        {"ours_memory": "2000"},
        "another share",
    ),
    "KAI in both ways": (ONE_SLOT, {"kai_fraction": "0.5", "kai_memory": "100"}, "at once"),
    "KAI's count alone": (ONE_SLOT, {"kai_devices": "2"}, "no share"),
    "another count than slots": (
        {SLOT: "2"},
        {"kai_fraction": "0.5", "kai_devices": "3"},
        "3 devices, but 2 slots",
    ),
    "a container without slot": (ONE_SLOT, {"kai_fraction": "0.5", "kai_container": "other"}, "has no slot"),
    "whole GPUs and shares": ({**ONE_SLOT, NVIDIA: "1"}, {"ours_fraction": "0.5"}, "whole GPUs"),
    "HAMi's memory in both ways": ({**ONE_SLOT, HAMI["memory"]: "1", HAMI["percent"]: "1"}, {}, "at once"),
    "101% of the cores": ({**ONE_SLOT, HAMI["memory"]: "1", HAMI["cores"]: "101"}, {}, "more than a card"),
    "101% of the memory": ({**ONE_SLOT, HAMI["percent"]: "101"}, {}, "more than a card"),
    "no memory": ({**ONE_SLOT, HAMI["memory"]: "0"}, {}, "without memory"),
    "a part of a MiB": ({**ONE_SLOT, HAMI["memory"]: "1500m"}, {}, "not a whole number"),
    "memory of no GPU": ({VOLCANO["memory"]: "100"}, {}, "a share of no GPU"),
    "memory beyond any card": ({**ONE_SLOT, HAMI["memory"]: "1e30"}, {}, "out of range"),
    "HAMi's count and slots": ({SLOT: "1", NVIDIA: "2", HAMI["memory"]: "5"}, {}, "2 devices, but 1 slots"),
}


@pytest.mark.parametrize(("limits", "annotations", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_a_contradiction_is_refused_by_name(
    limits: dict[str, str], annotations: dict[str, str], problem: str
) -> None:
    with pytest.raises(ObjectError, match=problem) as caught:
        asked(limits, **annotations)
    assert caught.value.field
    assert "pod team-a/train-0" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "abc", "-1", "0", "1e999", "NaN", "inf", "10,000", "1_000", " 0.5", "0.5\t", "\uff10.5", "1.5",
        "\ufeff0.5", "0.5\0", "\u202e0.5", "$(reboot)", "{{ 1 }}", "../../etc", "0.5\nlevel=error",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "dialect", ["ours_fraction", "ours_memory", "kai_fraction", "kai_memory", "kai_devices"]
)
def test_what_is_no_number_is_refused_and_never_printed_raw(dialect: str, text: str) -> None:
    others = {"kai_fraction": "0.5"} if dialect == "kai_devices" else {}
    with pytest.raises(ObjectError) as caught:
        asked(ONE_SLOT, **{dialect: text}, **others)
    assert str(caught.value).isprintable()
    assert str(caught.value).isascii()


def test_a_hostile_label_is_told_in_ascii() -> None:
    labels, annotations = {"gpufleet.io/gpu-fraction": "\u202e0.5"}, {"gpufleet.io/gpu-fraction": "0.5"}
    with pytest.raises(ObjectError) as refused:
        read_pod(a_pod(limited("train", {NVIDIA: "1"}), labels=labels, annotations=annotations))
    assert "label" in str(refused.value)
    assert str(refused.value).isascii()


def test_our_keys_are_read_from_labels_too_but_must_not_differ() -> None:
    labels = {"gpufleet.io/gpu-fraction": "0.5"}
    assert read_pod(a_pod(limited("train", ONE_SLOT), labels=labels)).shape.gpu == GpuRequest(1, 500)
    with pytest.raises(ObjectError, match="differ"):
        read_pod(
            a_pod(limited("train", ONE_SLOT), labels=labels, annotations=written({"ours_fraction": "0.4"}))
        )


def test_gpus_of_a_placed_pod_are_counted_whole_where_its_share_is_not_understood() -> None:
    foreign = a_pod(limited("train", {NVIDIA: "2", HAMI["memory"]: "3000"}), nodeName="node-1")
    assert read_placed_pod(foreign).shape.gpu == GpuRequest(2, 1000)


@pytest.mark.parametrize(
    ("annotations", "models"),
    [
        ({"nvidia.com/use-gputype": "T4"}, {"T4", "T4G"}),
        ({"nvidia.com/use-gputype": "Tesla-T4"}, {"T4"}),
        ({"nvidia.com/use-gputype": "A100"}, {"A100-40GB", "A100-80GB"}),
        (
            {"nvidia.com/use-gputype": "A100, a30", "nvidia.com/nouse-gputype": "A100-40GB"},
            {"A100-80GB", "A30"},
        ),
        ({"nvidia.com/use-gputype": "Next-9000"}, {"Next-9000"}),
    ],
)
def test_models_are_chosen_by_part_of_their_name(annotations: dict[str, str], models: set[str]) -> None:
    pod = read_pod(a_pod(limited("train", {NVIDIA: "1"}), annotations=annotations))
    assert set(pod.shape.gpu.models) == models


@pytest.mark.parametrize(
    ("annotations", "order"),
    [
        ({"gpufleet.io/gpu-models": "Tesla-T4,A30"}, (("T4",), ("A30",))),
        ({"gpufleet.io/gpu-models": "A100, T4"}, (("A100-40GB", "A100-80GB"), ("T4",))),
        ({"gpufleet.io/gpu-models": "L4"}, (("L4",),)),
        ({"gpufleet.io/gpu-models": "A100-80GB,A100"}, (("A100-80GB",), ("A100-40GB",))),
        (
            {"gpufleet.io/gpu-models": "A100,A30", "nvidia.com/nouse-gputype": "A100-40GB"},
            (("A100-80GB",), ("A30",)),
        ),
        ({"gpufleet.io/gpu-models": "A100,A30", "nvidia.com/use-gputype": "A30"}, (("A30",),)),
    ],
)
def test_models_are_tried_in_the_order_in_which_they_are_listed(
    annotations: dict[str, str], order: tuple[tuple[str, ...], ...]
) -> None:
    gpu = read_pod(a_pod(limited("train", {NVIDIA: "1"}), annotations=annotations)).shape.gpu
    assert gpu.model_order == order
    assert set(gpu.models) == {model for group in order for model in group}


OURS, VOLCANOS = "gpufleet.io/gpus-within", "volcano.sh/numa-topology-policy"


@pytest.mark.parametrize(
    ("annotations", "gpus", "within"),
    [
        ({}, 2, Within.NODE),
        ({OURS: "link-group"}, 2, Within.LINK_GROUP),
        ({OURS: "numa-node"}, 8, Within.NUMA_NODE),
        ({OURS: "link-group"}, 1, Within.NODE),
        ({VOLCANOS: "single-numa-node"}, 2, Within.NUMA_NODE),
        ({VOLCANOS: "single-numa-node"}, 0, Within.NODE),
        ({VOLCANOS: "restricted"}, 2, Within.NODE),
        ({OURS: "node", VOLCANOS: "single-numa-node"}, 2, Within.NODE),
    ],
)
def test_whole_gpus_may_have_to_be_near_each_other(
    annotations: dict[str, str], gpus: int, within: Within
) -> None:
    resources = {NVIDIA: str(gpus)} if gpus else {"cpu": "1"}
    assert read_pod(a_pod(limited("train", resources), annotations=annotations)).shape.gpu.within is within


@pytest.mark.parametrize(("key", "text"), [(OURS, "rack"), (OURS, ""), (VOLCANOS, "one")])
def test_a_nearness_that_nobody_knows_is_refused(key: str, text: str) -> None:
    with pytest.raises(ObjectError, match=key):
        read_pod(a_pod(limited("train", {NVIDIA: "2"}), annotations={key: text}))


def test_parts_of_gpus_have_no_nearness() -> None:
    annotations = {"gpufleet.io/gpu-fraction": "0.5", OURS: "link-group"}
    with pytest.raises(ObjectError, match="whole GPUs"):
        read_pod(a_pod(limited("train", {"gpufleet.io/gpu-share": "2"}), annotations=annotations))


@pytest.mark.parametrize("text", ["", "A100,,T4", "\u202eT4", ",".join(["A100"] * 65)])
def test_an_order_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ObjectError, match="gpu-models"):
        read_pod(a_pod(limited("train", {NVIDIA: "1"}), annotations={"gpufleet.io/gpu-models": text}))


def test_an_order_of_models_that_are_all_to_be_avoided_is_refused() -> None:
    annotations = {"gpufleet.io/gpu-models": "T4", "nvidia.com/nouse-gputype": "T4"}
    with pytest.raises(ObjectError, match="no model is left"):
        read_pod(a_pod(limited("train", {NVIDIA: "1"}), annotations=annotations))


def test_models_to_avoid_leave_all_others() -> None:
    pod = read_pod(a_pod(limited("train", {NVIDIA: "1"}), annotations={"nvidia.com/nouse-gputype": "H100"}))
    assert "A100-80GB" in pod.shape.gpu.models
    assert not any("H100" in model for model in pod.shape.gpu.models)


@pytest.mark.parametrize("text", ["", "A100,,T4", "A100\n", "\u202eT4", ",".join(["A100"] * 65), "x" * 5000])
def test_a_list_of_models_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_pod(a_pod(limited("train", {NVIDIA: "1"}), annotations={"nvidia.com/use-gputype": text}))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("limits", "image", "vendor"),
    [
        ({SLOT: "1", "nvidia.com/gpumem": "3000"}, "x", NVIDIA),
        ({SLOT: "1", "nvidia.com/gpucores": "30"}, "x", NVIDIA),
        (ONE_SLOT, "nvidia/cuda:12.3.2-base-ubuntu22.04", NVIDIA),
        (ONE_SLOT, "rocm/pytorch:latest", ""),
        (ONE_SLOT, "x", ""),
    ],
)
def test_a_share_is_one_of_nvidias_gpus_where_its_resources_or_its_image_say_so(
    limits: dict[str, str], image: str, vendor: str
) -> None:
    described = any(name.startswith("nvidia.com/gpu") for name in limits)
    annotations = {} if described else {"gpufleet.io/gpu-fraction": "0.5"}
    container = {**limited("train", limits), "image": image}
    assert read_pod(a_pod(container, annotations=annotations)).shape.gpu_resource == vendor
