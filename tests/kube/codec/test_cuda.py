"""Which CUDA a pod needs, and which a node's driver surely does not run."""

from typing import Any

import pytest

from gpufleet.kube.codec.cuda import needed_features
from gpufleet.kube.codec.node import read_node
from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model.cuda_compatibility import ALL_DRIVER_FEATURES, driver_feature
from tests.kube.wire_objects import a_node, a_pod, limited, some_devices

GPU = {"nvidia.com/gpu": "1"}
DEVICE = {"id": "GPU-1", "vendor": "nvidia", "model": "NVIDIA-A100-SXM4-80GB", "memoryMiB": 81920}


def needs(image: str = "", limits: dict[str, str] | None = None, **more: Any) -> tuple[str, ...]:
    """What a pod of one container needs."""
    annotations = more.pop("annotations", None)
    container = limited("train", GPU if limits is None else limits, image=image, **more)
    return needed_features(a_pod(container, annotations=annotations))


def required(text: str, **more: str) -> dict[str, Any]:
    """The environment of a container with this requirement."""
    variables = {"NVIDIA_REQUIRE_CUDA": text, **more}
    return {"env": [{"name": name, "value": value} for name, value in variables.items()]}


def missing(labels: dict[str, str], *devices: dict[str, Any], driver: str = "") -> set[str]:
    """The features that a node lacks."""
    report = some_devices(*devices, driver=driver) if devices else None
    return set(ALL_DRIVER_FEATURES) - set(read_node(a_node(GPU, labels=labels), report).features)


@pytest.mark.parametrize(
    ("image", "major"),
    [("nvidia/cuda:12.3.2-base", 12), ("nvidia/cuda:13.0.1-base", 13), ("x/ray:2.9.0-cu118", 11)],
)
def test_the_image_tells(image: str, major: int) -> None:
    assert needs(image) == (driver_feature(major),)


@pytest.mark.parametrize("image", ["", "train", "nvcr.io/nvidia/pytorch:24.01-py3", "x/app:cuda99.1"])
def test_an_image_that_does_not_tell_asks_for_nothing(image: str) -> None:
    assert needs(image) == ()


@pytest.mark.parametrize("limits", [{}, {"amd.com/gpu": "1"}, {"cpu": "1"}])
def test_a_container_without_nvidias_gpus_asks_for_nothing(limits: dict[str, str]) -> None:
    assert needs("nvidia/cuda:12.3.2-base", limits) == ()


@pytest.mark.parametrize(
    "limits",
    [{"nvidia.com/mig-1g.10gb": "1"}, {"nvidia.com/gpu.shared": "1"}, {"gpufleet.io/gpu-share": "1"}],
)
def test_parts_of_gpus_ask_too(limits: dict[str, str]) -> None:
    assert needs("nvidia/cuda:12.3.2-base", limits) == (driver_feature(12),)


def test_the_requirement_in_the_environment_goes_before_the_image() -> None:
    assert needs("nvidia/cuda:13.0.1-base", **required("cuda>=12.4")) == (driver_feature(12),)
    assert needs("nvidia/cuda:13.0.1-base", **required("driver>=418")) == ()
    assert needs("nvidia/cuda:13.0.1-base", **required("nonsense")) == ()


def test_who_switches_the_toolkits_own_check_off_is_not_checked() -> None:
    assert needs("nvidia/cuda:13.0.1-base", **required("cuda>=13.0", NVIDIA_DISABLE_REQUIRE="true")) == ()


def test_the_annotation_goes_before_both() -> None:
    image = "nvidia/cuda:13.0.1-base"
    assert needs(image, annotations={"gpufleet.io/cuda-version": "11.8"}) == (driver_feature(11),)
    assert needs(image, annotations={"gpufleet.io/cuda-version": "any"}) == ()


def test_an_annotation_that_is_no_version_is_refused_by_name() -> None:
    pod = a_pod(limited("train", GPU), annotations={"gpufleet.io/cuda-version": "twelve"})
    with pytest.raises(ObjectError) as caught:
        read_pod(pod)
    assert caught.value.field == "metadata.annotations[gpufleet.io/cuda-version]"


def test_pods_whose_images_tell_the_same_are_of_one_shape() -> None:
    images = ("nvidia/cuda:12.3.2-base", "nvidia/cuda:12.4.1-base", "example.com/app:cuda12.4")
    shapes = {read_pod(a_pod(limited("train", GPU, image=image))).shape for image in images}
    assert len(shapes) == 1


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"nvidia.com/cuda.driver-version.full": "610.43.02"},
        {"nvidia.com/cuda.driver-version.full": "nonsense"},
        {"nvidia.com/cuda.driver-version.major": "470"},
    ],
)
def test_a_node_of_whose_driver_nothing_bad_is_known_lacks_nothing(labels: dict[str, str]) -> None:
    assert missing(labels) == set()


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/cuda.driver-version.full": "470.82.01"},
        {
            "nvidia.com/cuda.driver-version.major": "470",
            "nvidia.com/cuda.driver-version.minor": "82",
            "nvidia.com/cuda.driver-version.revision": "01",
        },
        {"nvidia.com/cuda.driver.major": "470", "nvidia.com/cuda.driver.minor": "82"},
    ],
)
def test_labels_tell_the_driver(labels: dict[str, str]) -> None:
    assert missing(labels) == {driver_feature(13)}


def test_cards_for_gamers_have_no_forward_compatibility() -> None:
    driver = {"nvidia.com/cuda.driver-version.full": "470.82.01"}
    assert missing({**driver, "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"}) == {
        driver_feature(12),
        driver_feature(13),
    }
    assert missing({**driver, "nvidia.com/gpu.product": "NVIDIA-A10"}) == {driver_feature(13)}


def test_the_report_of_devices_goes_before_the_labels() -> None:
    labels = {"nvidia.com/cuda.driver-version.full": "610.43.02"}
    assert missing(labels, DEVICE, driver="470.82.01") == {driver_feature(13)}
    assert missing(labels, DEVICE, driver="simulated") == set()


def test_another_vendors_driver_says_nothing_of_cuda() -> None:
    assert missing({}, {**DEVICE, "vendor": "amd"}, driver="470.82.01") == set()
    assert missing({}, DEVICE, {**DEVICE, "id": "2", "vendor": "amd"}, driver="470.82.01") == set()


def test_of_several_drivers_the_one_with_nvidias_name_counts() -> None:
    devices = (DEVICE, {**DEVICE, "id": "2", "vendor": "AMD"})
    assert missing({}, *devices, driver="NVIDIA 470.82.01, AMD 6.10.5") == {driver_feature(13)}
