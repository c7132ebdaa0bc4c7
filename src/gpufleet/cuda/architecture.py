"""Whether the GPU runs what an image's toolkit makes, and whether the driver still drives the GPU.

A toolkit makes code for the GPUs of its time: from CUDA 13 on none for Maxwell, Pascal and Volta. Code for
a GPU also runs on later ones of the same major compute capability; on others only if the program brings
PTX, which cannot be seen from outside. Of PyTorch's own images it is known what code they bring, which is
less than their toolkit can make.
"""

from gpufleet.cuda.answer import Check, CudaAnswer, Question
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import NodeFacts
from gpufleet.cuda.tables import Architecture, runs_code_for, tables, version
from gpufleet.model.cuda_compatibility import PACKAGED, Toolkit, write_driver
from gpufleet.model.cuda_images import is_pytorch_build
from gpufleet.model.gpu_catalogue import GpuModel, Vendor


def check_architecture(image: ImageFacts, node: NodeFacts) -> Check:
    """Whether the toolkit makes code for the GPU."""
    told = image.toolkit()
    row, problem = _row(node, Question.ARCHITECTURE)
    if problem is not None or row is None or node.gpu is None or node.capability is None:
        return problem or _unknown(Question.ARCHITECTURE, "the GPU is not known")
    if told is None:
        return _unknown(Question.ARCHITECTURE, f"nothing tells which CUDA the image is of ({image.source})")
    card, toolkit, by = _card(node.gpu, row), told.toolkit, told.by
    if _dropped(row, toolkit):
        return Check(
            Question.ARCHITECTURE,
            CudaAnswer.NO,
            f"CUDA {toolkit} ({by}) makes no code for {card}: the last was CUDA {_last(row)}",
            (f"use an image of CUDA {_last(row)}", "use a newer GPU"),
        )
    built = tables().wheels.of(toolkit) if is_pytorch_build(image.name) else ()
    if built and not runs_code_for(built, node.capability):
        others = tables().wheels.with_code_for(node.capability)
        return _without_code(toolkit, by, card, built, others)
    if (toolkit.major, toolkit.minor) not in PACKAGED:
        return _unknown(
            Question.ARCHITECTURE,
            f"CUDA {toolkit} ({by}) is not in the table of {tables().architectures.as_of}",
            "look at the release notes of that toolkit",
        )
    if not _older(toolkit, version(row.first_toolkit)):
        return Check(Question.ARCHITECTURE, CudaAnswer.OK, f"CUDA {toolkit} ({by}) makes code for {card}")
    return _from_before(toolkit, by, card, node.capability, row)


def check_driver(node: NodeFacts) -> Check:
    """Whether the driver drives the GPU at all."""
    row, problem = _row(node, Question.DRIVER)
    if problem is not None or row is None or node.gpu is None:
        return problem or _unknown(Question.DRIVER, "the GPU is not known")
    card = _card(node.gpu, row)
    if node.driver is None:
        return _unknown(Question.DRIVER, "the driver is not known", "say the driver")
    if row.last_branch is not None and node.driver[0] > row.last_branch:
        return Check(
            Question.DRIVER,
            CudaAnswer.NO,
            f"driver {node.driver_text} does not drive {card}: the last branch is {row.last_branch}",
            (f"use a driver of branch {row.last_branch}", "use a newer GPU"),
        )
    if row.first_branch is not None and node.driver[0] < row.first_branch:
        return Check(
            Question.DRIVER,
            CudaAnswer.NO,
            f"driver {node.driver_text} does not know {card}: the first branch is {row.first_branch}",
            (f"update the driver to branch {row.first_branch} or newer",),
        )
    # Where no source states the first branch, the driver of the first toolkit is the oldest that surely knows
    # it.
    first = PACKAGED.get((version(row.first_toolkit).major, version(row.first_toolkit).minor))
    if first is not None and node.driver < first[0]:
        return _unknown(
            Question.DRIVER,
            f"{card} came with CUDA {row.first_toolkit} and its driver {write_driver(first[0])};"
            f" whether {node.driver_text} drives it is in no table",
            f"update the driver to {write_driver(first[0])} or newer",
        )
    return Check(Question.DRIVER, CudaAnswer.OK, f"driver {node.driver_text} drives {card}")


def _row(node: NodeFacts, question: Question) -> tuple[Architecture | None, Check | None]:
    """The architecture of the node's GPU, or why there is none."""
    if node.gpu is None:
        return None, _unknown(question, "the GPU is not known", "say the GPU")
    if node.gpu.vendor is not Vendor.NVIDIA:
        reason = f"{node.gpu.name} is made by {node.gpu.vendor.value or 'an unknown vendor'}: it runs no CUDA"
        return None, Check(question, CudaAnswer.NO, reason, ("use an image for that maker's GPUs",))
    row = None if node.capability is None else tables().architectures.of(node.capability)
    if row is None:
        return None, _unknown(question, f"the compute capability of {node.gpu.name} is in no table")
    return row, None


def _from_before(toolkit: Toolkit, by: str, card: str, capability: str, row: Architecture) -> Check:
    """A toolkit that is older than the GPU."""
    older = tables().architectures.older_code(capability)
    if older is not None and not _older(toolkit, older[1]):
        return Check(
            Question.ARCHITECTURE,
            CudaAnswer.OK,
            f"CUDA {toolkit} ({by}) makes code for compute capability {older[0]}, which runs on {card}",
            caution="without what is new there, and no code made for one architecture only, such as sm_90a",
        )
    return _unknown(
        Question.ARCHITECTURE,
        f"CUDA {toolkit} ({by}) is older than {card}: it runs only if its programs bring PTX,"
        " and that cannot be seen from outside",
        f"use an image of CUDA {row.first_toolkit} or newer",
    )


def _without_code(
    toolkit: Toolkit, by: str, card: str, built: tuple[str, ...], others: tuple[str, ...]
) -> Check:
    """A build of PyTorch without code for the card: its first kernel ends with an error."""
    reason = (
        f"PyTorch's build for CUDA {toolkit} ({by}) brings code for compute capability {', '.join(built)},"
    )
    reason += f' and none that runs on {card}: it ends with "no kernel image is available"'
    ways_out = (f"use an image of PyTorch for CUDA {' or '.join(others)}",) if others else ()
    return Check(Question.ARCHITECTURE, CudaAnswer.NO, reason, (*ways_out, "use another GPU"))


def _dropped(row: Architecture, toolkit: Toolkit) -> bool:
    if not row.last_toolkit:
        return False
    major, _, minor = row.last_toolkit.partition(".")
    if not minor:
        return toolkit.major > int(major)
    return (toolkit.major, toolkit.minor) > (int(major), int(minor))


def _last(row: Architecture) -> str:
    return row.last_toolkit if "." in row.last_toolkit else f"{row.last_toolkit}.x"


def _older(toolkit: Toolkit, other: Toolkit) -> bool:
    return (toolkit.major, toolkit.minor) < (other.major, other.minor)


def _card(gpu: GpuModel, row: Architecture) -> str:
    return f"{gpu.name} ({row.name}, compute capability {gpu.compute_target})"


def _unknown(question: Question, reason: str, *ways_out: str) -> Check:
    return Check(question, CudaAnswer.UNKNOWN, reason, ways_out)
