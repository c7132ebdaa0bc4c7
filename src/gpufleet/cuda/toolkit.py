"""Whether a node's driver runs what was built with an image's toolkit.

By itself, by minor version compatibility, or by the libraries that the image brings (forward
compatibility). The versions are those of ``model.cuda_compatibility``; which package serves which branch is
in ``tables``.
"""

from gpufleet.cuda.answer import Check, CudaAnswer, Question
from gpufleet.cuda.image import ImageFacts, StatedToolkit
from gpufleet.cuda.node import NodeFacts, NodeKind
from gpufleet.cuda.tables import tables
from gpufleet.model.cuda_compatibility import (
    FAMILIES,
    PACKAGED,
    CompatibilityVerdict,
    Support,
    Toolkit,
    supports,
    write_driver,
)


def check_toolkit(image: ImageFacts, node: NodeFacts) -> Check:
    """Whether the driver runs the image's toolkit."""
    told = image.toolkit()
    if told is None:
        return _unknown(
            f"nothing tells which CUDA the image is of ({image.source})",
            "if you know its CUDA, say it: --env CUDA_VERSION=12.4.1",
        )
    if node.driver is None:
        return _unknown(f"CUDA {told.toolkit} ({told.by}), and the driver is not known", "say the driver")
    # Only of consumer cards is it certain; an unknown card may have forward compatibility.
    forward = node.kind is not NodeKind.CONSUMER
    verdict = supports(node.driver, told.toolkit, forward_compatible=forward)
    package = image.compatibility_package()
    runs = verdict.support in {Support.OK, Support.OK_BY_MINOR_VERSION}
    if runs and package is not None and _breaks(package.toolkit, node):
        return _broken_by_package(package, node)
    match verdict.support:
        case Support.OK:
            return Check(
                Question.TOOLKIT,
                CudaAnswer.OK,
                f"driver {node.driver_text} has all that CUDA {told.toolkit} came with ({told.by})",
            )
        case Support.OK_BY_MINOR_VERSION:
            return _by_minor_version(told.toolkit, told.by, node)
        case Support.NO:
            return _refused(told.by, node, verdict)
        case Support.UNKNOWN:
            return _below_the_floor(image, told.toolkit, told.by, node, verdict)


def _breaks(package: Toolkit, node: NodeFacts) -> bool:
    """Whether the runtime puts a driver's libraries of the image before its own, which GeForce refuses."""
    packaged = PACKAGED.get((package.major, package.minor))
    if node.kind is not NodeKind.CONSUMER or node.driver is None or packaged is None:
        return False
    return packaged[0][0] > node.driver[0]


def _broken_by_package(package: StatedToolkit, node: NodeFacts) -> Check:
    has = package.toolkit
    own = PACKAGED[has.major, has.minor][0]
    return Check(
        Question.TOOLKIT,
        CudaAnswer.NO,
        f"the image brings cuda-compat of {has} ({package.by}), newer than driver {node.driver_text}:"
        " forward compatibility is not for GeForce and Titan (error 804)",
        (
            f"use an image without cuda-compat-{has.major}-{has.minor}",
            f"update the driver to {write_driver(own)} or newer",
        ),
    )


def _by_minor_version(toolkit: Toolkit, by: str, node: NodeFacts) -> Check:
    packaged = PACKAGED.get((toolkit.major, toolkit.minor), ())
    own = f" ({write_driver(packaged[0])})" if packaged else ""
    return Check(
        Question.TOOLKIT,
        CudaAnswer.OK,
        f"driver {node.driver_text} runs CUDA {toolkit} ({by}) by minor version compatibility",
        caution=f"code that the driver must compile first (PTX) and features new in {toolkit.major}."
        f"{toolkit.minor} need the toolkit's own driver{own}",
    )


def _refused(by: str, node: NodeFacts, verdict: CompatibilityVerdict) -> Check:
    without = ""
    if node.kind is NodeKind.CONSUMER:
        without = "; forward compatibility is not for GeForce and Titan (error 804)"
    reason = f"{verdict.reason}, and there is {node.driver_text} ({by}){without}"
    newest = _newest_that_runs(node)
    older = () if newest is None else (f"use an image of CUDA {newest} or older",)
    return Check(
        Question.TOOLKIT,
        CudaAnswer.NO,
        reason,
        (f"update the driver to {verdict.least_driver} or newer", *older),
    )


def _below_the_floor(
    image: ImageFacts, toolkit: Toolkit, by: str, node: NodeFacts, verdict: CompatibilityVerdict
) -> Check:
    """A toolkit or a driver that no table decides, or one that the image's own libraries may serve."""
    family = FAMILIES.get(toolkit.major)
    if family is None or (toolkit.major, toolkit.minor) not in PACKAGED or node.driver is None:
        return _unknown(f"{verdict.reason} ({by})", "look at the release notes of that toolkit")
    package = image.compatibility_package()
    name = f"cuda-compat-{toolkit.major}-{toolkit.minor}"
    update = f"update the driver to {_floor(toolkit)} or newer"
    if package is None:
        return _unknown(f"CUDA {toolkit} ({by}): {verdict.reason}; no sign of it", f"install {name}", update)
    has = package.toolkit
    if (has.major, has.minor) < (toolkit.major, toolkit.minor):
        return _unknown(f"the image has cuda-compat of {has} ({package.by}), older than its CUDA", update)
    branches = tables().forward.branches.get(f"{has.major}.{has.minor}")
    if branches is None or node.driver[0] not in branches:
        listed = "in no table" if branches is None else f"for branches {_list(branches)}"
        reason = f"cuda-compat of {has} ({package.by}) is {listed}, and there is {node.driver_text}"
        return _unknown(reason, update)
    # NVIDIA supports forward compatibility on data centre GPUs, and on a few others.
    if node.kind is not NodeKind.DATA_CENTRE:
        card = "which GPU is there is not known" if node.kind is None else "some workstation cards only"
        return _unknown(f"forward compatibility by cuda-compat of {has}: {card}", update)
    return Check(
        Question.TOOLKIT,
        CudaAnswer.OK,
        f"driver {node.driver_text} runs CUDA {toolkit} ({by}) by forward compatibility: cuda-compat of {has}"
        f" ({package.by})",
        caution="the runtime must put the image's compatibility libraries before its own",
    )


def _floor(toolkit: Toolkit) -> str:
    own = PACKAGED[toolkit.major, toolkit.minor][0]
    floor = FAMILIES[toolkit.major].floor
    return write_driver(own if floor is None else min(own, floor))


def _newest_that_runs(node: NodeFacts) -> str | None:
    """The newest listed toolkit that the driver surely runs."""
    if node.driver is None:
        return None
    runs = [
        listed
        for listed in PACKAGED
        if supports(node.driver, Toolkit(*listed), forward_compatible=False).support
        in {Support.OK, Support.OK_BY_MINOR_VERSION}
    ]
    return "{}.{}".format(*max(runs)) if runs else None


def _list(branches: tuple[int, ...]) -> str:
    return ", ".join(str(branch) for branch in branches)


def _unknown(reason: str, *ways_out: str) -> Check:
    return Check(Question.TOOLKIT, CudaAnswer.UNKNOWN, reason, ways_out)
