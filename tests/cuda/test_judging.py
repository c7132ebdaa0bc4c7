"""Images on nodes, by NVIDIA's release notes, its compatibility guide and its matrix of architectures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cuda.answer import CudaAnswer, together
from gpufleet.cuda.architecture import check_architecture, check_driver
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.judging import judge
from gpufleet.cuda.node import NodeFacts, read_node
from gpufleet.cuda.tables import tables, version
from gpufleet.cuda.toolkit import check_toolkit
from gpufleet.model.cuda_compatibility import PACKAGED, Toolkit
from gpufleet.model.gpu_catalogue import CATALOGUE, Vendor
from gpufleet.model.model_errors import InputError

OK, NO, UNKNOWN = CudaAnswer.OK, CudaAnswer.NO, CudaAnswer.UNKNOWN
CARDS = [card for card in CATALOGUE if card.vendor is Vendor.NVIDIA]


def image(cuda: str, *, compat: str = "", **more: str) -> ImageFacts:
    """An image of a CUDA, with its package of compatibility libraries if it has one."""
    environment = {"CUDA_VERSION": cuda, "NVIDIA_REQUIRE_CUDA": "driver>=1", **more}
    history = (f"RUN apt-get install -y cuda-compat-{compat}",) if compat else ()
    return ImageFacts("x", environment=environment, history=history, complete=True)


@pytest.mark.parametrize(
    ("cuda", "compat", "driver", "gpu", "answer", "said"),
    [
        ("12.4.1", "", "550.54.15", "A100", OK, "has all"),
        ("12.4.1", "", "525.60.13", "A100", OK, "minor version compatibility"),
        ("12.4.1", "", "525.60.11", "A100", UNKNOWN, "no sign of it"),
        ("12.4.1", "12-4", "470.82.01", "A100", OK, "forward compatibility"),
        # Of a branch that the package is not for, on a card that it is not for, on one it may be for.
        ("12.4.1", "12-4", "510.47.03", "A100", UNKNOWN, "470, 525, 535"),
        ("12.4.1", "12-4", "470.82.01", "RTX-4090", NO, "error 804"),
        # The driver would run the toolkit; the image's newer libraries keep GeForce from it.
        ("12.4.1", "12-4", "535.104.05", "RTX-4090", NO, "error 804"),
        ("12.6.3", "12-6", "550.54.15", "RTX-3090", NO, "error 804"),
        ("12.4.1", "12-4", "550.54.15", "RTX-4090", OK, "has all"),
        ("12.4.1", "", "535.104.05", "RTX-4090", OK, "minor version compatibility"),
        ("12.4.1", "12-4", "535.104.05", "A100", OK, "minor version compatibility"),
        ("12.4.1", "12-4", "470.82.01", "RTX-A6000", UNKNOWN, "workstation"),
        ("13.0.0", "12-4", "535.104.05", "H100-80GB", UNKNOWN, "older than its CUDA"),
        ("13.0.0", "13-0", "535.104.05", "H100-80GB", OK, "cuda-compat of 13.0"),
        ("13.0.0", "13-0", "470.82.01", "H100-80GB", NO, "needs driver 580.65.06"),
        ("12.4.1", "", "440.33.01", "A100", NO, "525.60.13"),
        # In no table.
        ("13.9.0", "", "580.65.06", "A100", UNKNOWN, "not in the table"),
        ("14.0.0", "", "999.10", "A100", UNKNOWN, "not in the table"),
    ],
)
def test_a_driver_runs_a_toolkit(
    cuda: str, compat: str, driver: str, gpu: str, answer: CudaAnswer, said: str
) -> None:
    check = check_toolkit(image(cuda, compat=compat), read_node(driver, gpu))
    assert (check.answer, said in check.reason) == (answer, True), check


@pytest.mark.parametrize(
    ("cuda", "gpu", "answer"),
    [
        # Dropped: Kepler by 12, Maxwell, Pascal and Volta by 13.
        ("11.8.0", "K80", OK),
        ("12.0.0", "K80", NO),
        ("12.9.1", "M60", OK),
        ("13.0.0", "M60", NO),
        ("13.0.0", "P100", NO),
        ("12.9.1", "V100", OK),
        ("13.0.0", "V100", NO),
        ("14.2.0", "V100", NO),
        ("13.0.0", "T4", OK),
        # Too old for the card; code for 8.0 runs on 8.9, that for 9.0 not on 10.0.
        ("11.8.0", "H100-80GB", OK),
        ("11.7.0", "H100-80GB", UNKNOWN),
        ("11.4.0", "L4", OK),
        ("10.2.89", "A100", UNKNOWN),
        ("12.6.3", "B200", UNKNOWN),
        ("12.8.0", "B200", OK),
        ("12.8.0", "B300", OK),
        # In no table.
        ("14.2.0", "H100-80GB", UNKNOWN),
    ],
)
def test_a_toolkit_makes_code_for_a_card(cuda: str, gpu: str, answer: CudaAnswer) -> None:
    check = check_architecture(image(cuda), read_node("580.65.06", gpu))
    assert check.answer is answer, check


@pytest.mark.parametrize(
    ("driver", "gpu", "answer"),
    [
        ("470.82.01", "K80", OK),
        ("495.29.05", "K80", NO),
        ("580.95.05", "V100", OK),
        ("590.44.01", "V100", NO),
        ("590.44.01", "T4", OK),
        ("520.61.05", "H100-80GB", OK),
        ("515.43.04", "H100-80GB", UNKNOWN),
        # The first branch for Blackwell is 570; CUDA 12.9, the first for B300, came with 575.
        ("535.104.05", "B200", NO),
        ("550.90.07", "B200", NO),
        ("550.90.07", "RTX-5090", NO),
        ("550.90.07", "GB200", NO),
        ("550.90.07", "B300", NO),
        ("570.124.06", "B200", OK),
        ("570.124.06", "B300", UNKNOWN),
        ("550.90.07", "H200", OK),
    ],
)
def test_a_driver_drives_a_card(driver: str, gpu: str, answer: CudaAnswer) -> None:
    check = check_driver(read_node(driver, gpu))
    assert check.answer is answer, check


def test_a_card_of_another_maker_runs_no_cuda() -> None:
    judgement = judge(image("12.4.1"), read_node("550.54.15", "MI300X"))
    assert judgement.answer is NO


def test_together_a_no_wins_and_unknown_is_never_a_yes() -> None:
    assert together([OK, UNKNOWN, NO]) is NO
    assert together([OK, UNKNOWN]) is UNKNOWN
    assert together([OK, OK]) is OK
    assert together([]) is UNKNOWN


@given(
    st.one_of(st.none(), st.sampled_from(["470.82.01", "535.104.05", "580.65.06", "999.10"])),
    st.one_of(st.none(), st.sampled_from(CARDS)),
    st.one_of(st.none(), st.sampled_from(sorted(PACKAGED)), st.just((15, 1))),
    st.booleans(),
)
def test_what_is_not_known_is_never_ok(
    driver: str | None, card: object, toolkit: tuple[int, int] | None, complete: bool
) -> None:
    node = read_node(driver, None)
    node = NodeFacts(node.driver, card)  # type: ignore[arg-type]
    environment = {} if toolkit is None else {"CUDA_VERSION": f"{toolkit[0]}.{toolkit[1]}.0"}
    judgement = judge(ImageFacts("x", environment=environment, complete=complete), node)
    lacking = driver is None or card is None or toolkit in {None, (15, 1)} or not complete
    assert judgement.answer is not OK or not lacking
    assert all(check.reason for check in judgement.checks)
    assert all(check.ways_out for check in judgement.checks if check.answer is NO)


@pytest.mark.parametrize(
    ("environment", "cuda"),
    [
        ({"CUDA_VERSION": "12.4.1"}, "12.4.1"),
        ({"CUDA_VERSION": "13.0.0.044"}, "13.0.0"),
        ({"CUDA_VERSION": "10.2.89"}, "10.2"),
        ({"NV_CUDA_LIB_VERSION": "12.4.1-1"}, "12.4"),
        ({"NV_CUDA_CUDART_VERSION": "11.6.55-1"}, "11.6"),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.8 brand=unknown,driver>=470,driver<471"}, "12.8"),
        ({"CUDA_VERSION": "new"}, None),
        ({}, None),
    ],
)
def test_variables_tell_the_toolkit(environment: dict[str, str], cuda: str | None) -> None:
    told = ImageFacts("my/app", environment=environment).toolkit()
    assert (None if told is None else str(told.toolkit)) == cuda


def test_a_label_or_the_name_tells_the_toolkit() -> None:
    labelled = ImageFacts("my/app", labels={"com.nvidia.cuda.version": "12.3.107"}).toolkit()
    assert labelled is not None
    assert labelled.toolkit == Toolkit(12, 3)
    named = ImageFacts("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime").toolkit()
    assert named is not None
    assert named.toolkit == Toolkit(12, 4)


def test_the_tables_agree_with_each_other() -> None:
    reported, forward = tables().reported.cuda_by_branch, tables().forward.branches
    for (major, minor), drivers in PACKAGED.items():
        assert reported[drivers[0][0]] == f"{major}.{minor}"
    for toolkit, branches in forward.items():
        own = version(toolkit)
        assert all(branch < PACKAGED[own.major, own.minor][0][0] for branch in branches)
    capabilities = {one for row in tables().architectures.rows for one in row.capabilities}
    assert {card.compute_target for card in CARDS} <= capabilities
    for part in (
        tables().architectures,
        tables().reported,
        tables().forward,
        tables().brands,
        tables().wheels,
    ):
        assert part.as_of
        assert part.sources


@pytest.mark.parametrize(
    ("driver", "gpu", "brand", "said"),
    [
        ("550", "A100", None, "driver: not a version"),
        ("550.54.15", "A10O", None, "gpu: no such GPU"),
        ("550.54.15", "A100", "mine", "brand: no brand"),
    ],
)
def test_what_cannot_be_is_refused(driver: str, gpu: str, brand: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_node(driver, gpu, brand)


def test_sizes_of_one_card_are_one_card_here() -> None:
    assert str(read_node("550.54.15", "V100").gpu.name) == "V100"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "gpu", "answer", "said"),
    [
        # sm_90 is the last of the build for 12.4; 12.8 is the first with sm_100 and sm_120, and has no sm_60.
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "RTX-5090", NO, "no kernel image"),
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "B200", NO, "no kernel image"),
        ("docker.io/pytorch/pytorch:2.1.0-cuda11.8-cudnn8-devel", "B200", NO, "no kernel image"),
        ("pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime", "H100-80GB", NO, "no kernel image"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "P100", NO, "no kernel image"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "RTX-5090", OK, "makes code"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "B200", OK, "makes code"),
        # sm_86 runs on 8.9, and sm_80 on 8.7.
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "L4", OK, "makes code"),
        ("pytorch/pytorch:2.8.0-cuda12.6-cudnn9-runtime", "P100", OK, "makes code"),
        # A build that no table has, and images that are not PyTorch's own.
        ("pytorch/pytorch:2.0.0-cuda12.2-cudnn8-runtime", "RTX-5090", UNKNOWN, "PTX"),
        ("example.org/my-pytorch:cuda12.4", "RTX-5090", UNKNOWN, "PTX"),
        ("nvidia/cuda:12.4.1-base-ubuntu22.04", "RTX-5090", UNKNOWN, "PTX"),
    ],
)
def test_a_build_of_pytorch_has_code_for_some_cards_alone(
    name: str, gpu: str, answer: CudaAnswer, said: str
) -> None:
    check = check_architecture(ImageFacts(name), read_node("580.65.06", gpu))
    assert (check.answer, said in check.reason) == (answer, True), check


@pytest.mark.parametrize(("gpu", "others"), [("RTX-5090", "12.8 or 12.9"), ("B200", "12.8 or 12.9")])
def test_the_way_out_names_builds_with_code_for_the_card(gpu: str, others: str) -> None:
    image_of_old = ImageFacts("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime")
    check = check_architecture(image_of_old, read_node("580.65.06", gpu))
    assert check.ways_out[0] == f"use an image of PyTorch for CUDA {others}"
