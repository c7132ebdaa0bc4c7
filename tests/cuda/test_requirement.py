"""Which variables of an image count, and what becomes of them on a node; the cases of variables are those of
nvidia-container-toolkit's internal/config/image/cuda_image_test.go.
"""

import pytest

from gpufleet.cuda.answer import CudaAnswer
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import read_node
from gpufleet.cuda.requirement import Runtime, check_requirement, is_disabled, required

OK, NO, UNKNOWN = CudaAnswer.OK, CudaAnswer.NO, CudaAnswer.UNKNOWN
A100 = "NVIDIA-A100-SXM4-80GB"


def image(*lines: str, complete: bool = True) -> ImageFacts:
    """An image with these variables."""
    return ImageFacts("x", environment=dict(line.split("=", 1) for line in lines), complete=complete)


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (["NVIDIA_REQUIRE_JETPACK=csv-mounts=all"], []),
        (["NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS=base-only"], []),
        (["NVIDIA_REQUIRE_CUDA=cuda>=11.6"], ["cuda>=11.6"]),
        (
            ["NVIDIA_REQUIRE_CUDA=cuda>=11.6", "NVIDIA_REQUIRE_BRAND=brand=tesla"],
            ["brand=tesla", "cuda>=11.6"],
        ),
        (["CUDA_VERSION=11.6"], ["cuda>=11.6"]),
        (["CUDA_VERSION=11.6", "NVIDIA_REQUIRE_BRAND=brand=tesla"], ["brand=tesla", "cuda>=11.6"]),
        (["CUDA_VERSION=0"], ["cuda>=0.0"]),
        (["CUDA_VERSION=9.0.116"], ["cuda>=9.0"]),
        (["CUDA_VERSION=v11.6"], ["cuda>=11.6"]),
        (["CUDA_VERSION=4294967295.4294967295.4294967295"], ["cuda>=4294967295.4294967295"]),
        *[
            ([f"CUDA_VERSION={text}"], [None])
            for text in ("foo", "foo.5.10", "9.0.116.50", "9.0.116foo", "7.foo", "9.4294967296", "9..0", "9.")
        ],
        (["CUDA_VERSION=13.0.0.044", "NVIDIA_REQUIRE_CUDA=cuda>=9.0"], ["cuda>=9.0"]),
    ],
)
def test_what_counts(lines: list[str], asked: list[str | None]) -> None:
    assert list(required(image(*lines).environment).values()) == asked


@pytest.mark.parametrize(
    ("value", "disabled"), [("1", True), ("true", True), ("tRue", False), ("yes", False)]
)
def test_the_check_is_switched_off_by_what_go_takes_for_true(value: str, disabled: bool) -> None:
    assert is_disabled({"NVIDIA_DISABLE_REQUIRE": value}) is disabled


@pytest.mark.parametrize(
    ("lines", "driver", "gpu", "answer", "said"),
    [
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.4"], "550.54.15", A100, OK, "holds"),
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.4"], "545.23.08", A100, NO, '"unsatisfied condition: cuda>=12.4"'),
        (["NVIDIA_REQUIRE_CUDA=rubbish"], "545.23.08", A100, NO, "invalid expression"),
        (["NVIDIA_REQUIRE_CUDA=cuda>=99 brand=tesla"], "550.54.15", A100, UNKNOWN, "not decided"),
        (["NVIDIA_REQUIRE_CUDA=cuda>=99 brand=unknown brand=nvidia brand=tesla"], "550.54.15", A100, OK, ""),
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=geforce"], "545.23.08", A100, NO, "unsatisfied"),
        # A branch that no table lists: nobody knows which CUDA it has.
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.4"], "999.10", A100, UNKNOWN, "not decided"),
        (["NVIDIA_REQUIRE_CUDA=driver>=470"], "999.10", A100, OK, "holds"),
        (["NVIDIA_REQUIRE_ARCH=arch>=9.0"], "550.54.15", A100, NO, "arch>=9.0"),
        # The modes differ: one knows no property foo and refuses, the other leaves it out.
        (["NVIDIA_REQUIRE_CUDA=foo=1 cuda>=12"], "550.54.15", A100, UNKNOWN, "mode cdi"),
        (["CUDA_VERSION=9.0.116.50"], "550.54.15", A100, NO, "no version"),
        ([], "550.54.15", A100, OK, "requires nothing"),
        (["NVIDIA_DISABLE_REQUIRE=1", "NVIDIA_REQUIRE_CUDA=cuda>=99"], "550.54.15", A100, OK, "off"),
    ],
)
def test_a_node_holds_it_or_not(
    lines: list[str], driver: str, gpu: str, answer: CudaAnswer, said: str
) -> None:
    check = check_requirement(image(*lines), read_node(driver, gpu))
    assert (check.answer, said in check.reason) == (answer, True), check


def test_with_the_mode_or_the_brand_known_it_is_decided() -> None:
    either = image("NVIDIA_REQUIRE_CUDA=foo=1 cuda>=12")
    node = read_node("550.54.15", A100)
    assert check_requirement(either, node, Runtime.LEGACY).answer is NO
    assert check_requirement(either, node, Runtime.CDI).answer is OK
    tesla = image("NVIDIA_REQUIRE_CUDA=brand=tesla")
    assert check_requirement(tesla, read_node("550.54.15", A100, "Tesla")).answer is OK
    assert check_requirement(tesla, read_node("550.54.15", A100, "NVIDIA")).answer is NO


def test_of_an_image_that_is_only_named_a_no_is_sure_and_a_yes_is_not() -> None:
    node = read_node("550.54.15", A100)
    assert check_requirement(image(complete=False), node).answer is UNKNOWN
    assert check_requirement(image("NVIDIA_REQUIRE_CUDA=cuda>=12.4", complete=False), node).answer is UNKNOWN
    assert check_requirement(image("NVIDIA_REQUIRE_CUDA=cuda>=12.5", complete=False), node).answer is NO
    # Switched off is switched off, whatever the image asks.
    assert check_requirement(image("NVIDIA_DISABLE_REQUIRE=true", complete=False), node).answer is OK


def test_a_switched_off_check_is_told() -> None:
    check = check_requirement(image("NVIDIA_DISABLE_REQUIRE=1"), read_node("550.54.15", A100))
    assert "is not checked" in check.caution
