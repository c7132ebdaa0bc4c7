"""Rules about the kernel, the system and the machine, against the image that is wanted."""

from collections.abc import Iterator

from gpufleet.model.fleet_policy import DriverBuild, DriverSource
from gpufleet.preflight.facts import Case
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding

IMAGES_BESIDE_EACH_OTHER = 2
"""The old driver's image stays until the new one has been found to work."""

BUILD_MIB = 4096
"""A driver that is built on the node unpacks kernel headers and its sources, some gigabytes."""


def judge(case: Case) -> Iterator[PreflightFinding]:
    """What of the machine does not fit the image."""
    # Any other source uses what the host has: no image is fetched.
    if case.wanted.source is not DriverSource.IMAGE:
        return
    yield from _image(case)
    yield from _kernel(case)
    yield from _secure_boot(case)
    yield from _disk(case)


def _image(case: Case) -> Iterator[PreflightFinding]:
    architecture, has = case.host.architecture, case.image.architectures
    if architecture is not None and has is not None and architecture not in has:
        yield PreflightFinding(
            "image-architecture",
            FindingSeverity.BLOCKS,
            f"the image is for {', '.join(has)}, and the node is {architecture}",
            "name an index of images with this architecture, or select other nodes",
        )
    system, systems = case.host.os, case.image.systems
    if system is not None and systems is not None and system not in systems:
        yield PreflightFinding(
            "image-system",
            FindingSeverity.BLOCKS,
            f"the image is for {', '.join(systems)}, and the node runs {system}",
            "name an image of this system, in a policy of its own",
        )


def _kernel(case: Case) -> Iterator[PreflightFinding]:
    kernel, kernels = case.host.kernel, case.image.kernels
    if case.wanted.build is DriverBuild.PRECOMPILED:
        if kernel is not None and kernels is not None and kernel not in kernels:
            yield PreflightFinding(
                "precompiled-missing",
                FindingSeverity.BLOCKS,
                f"the image has no modules for the kernel {kernel}",
                "name an image with modules for it, or build: Built",
            )
    elif case.host.reaches_packages is False:
        yield PreflightFinding(
            "packages-unreachable",
            FindingSeverity.BLOCKS,
            "the driver is built on the node, and the node reaches no packages of kernel headers",
            "give a mirror and its certificate, or choose build: Precompiled",
        )
    built = {pod.kernel for pod in case.node.driver_pods if pod.kernel}
    if kernel is not None and built and kernel not in built:
        yield PreflightFinding(
            "kernel-changed",
            FindingSeverity.BLOCKS,
            f"the driver in place is for {', '.join(sorted(built))}, and the node has booted {kernel}",
            "bring the driver for this kernel first, or boot the old one",
        )


def _secure_boot(case: Case) -> Iterator[PreflightFinding]:
    # Where secure boot is not known, the finding facts-unknown says so.
    if not case.host.secure_boot or case.image.is_signed:
        return
    unknown = case.image.is_signed is None
    problem = "whether the modules are signed is not known" if unknown else "the modules are not signed"
    yield PreflightFinding(
        "secure-boot",
        FindingSeverity.UNKNOWN if unknown else FindingSeverity.BLOCKS,
        f"secure boot is on, and {problem}",
        "use signed, precompiled modules with the key enrolled, or turn secure boot off",
    )


def _disk(case: Case) -> Iterator[PreflightFinding]:
    free, size = case.host.free_mib, case.image.size_mib
    if free is None or size is None:
        return
    build = BUILD_MIB if case.wanted.build is DriverBuild.BUILT else 0
    needed = IMAGES_BESIDE_EACH_OTHER * size + build
    if free < needed:
        yield PreflightFinding(
            "disk-low",
            FindingSeverity.BLOCKS,
            f"{free} MiB are free where images are, and {needed} MiB are needed",
            "free some space: the kubelet may remove the image of the driver that runs",
        )
