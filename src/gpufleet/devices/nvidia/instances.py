"""MIG instances of a GPU: which there are, where they lie, and their device nodes.

An instance's handle dies with it, and its place in the library may then hold another. So they are
listed anew for every question; that costs a few calls that do not touch the GPU.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.devices.facts import Engines, MigFacts
from gpufleet.devices.nvidia.nvml import Handle, Nvml
from gpufleet.devices.nvidia.refusals import Answers
from gpufleet.files.regular import read_kernel_file

MINORS = "proc/driver/nvidia-caps/mig-minors"
PROFILE = re.compile(r" MIG (\S+)")


class Instance(msgspec.Struct, frozen=True):
    """An instance that exists now."""

    handle: Handle
    uuid: str
    gpu_instance: int
    compute_instance: int


def instances(nvml: Nvml, gpu: Handle, answers: Answers) -> Iterator[Instance]:
    """The MIG instances of a GPU; none where it is not cut, or cannot be."""
    # None and False alike: a GPU that cannot be cut does not answer the question.
    if not answers.ask(lambda: nvml.mig_mode(gpu)):
        return
    for place in range(answers.ask(lambda: nvml.mig_places(gpu)) or 0):
        # Places may be empty, and then the driver says that nothing was found.
        found = answers.ask(lambda place=place: _at(nvml, gpu, place))  # type: ignore[misc]
        if found is not None:
            yield found


def _at(nvml: Nvml, gpu: Handle, place: int) -> Instance:
    handle = nvml.mig_at(gpu, place)
    return Instance(handle, nvml.uuid(handle), nvml.gpu_instance(handle), nvml.compute_instance(handle))


def instance_facts(
    nvml: Nvml, gpu: Handle, minor: int | None, answers: Answers, root: Path
) -> tuple[MigFacts, ...]:
    """What does not change about each instance while it exists."""
    minors = capability_minors(root)
    return tuple(_facts(nvml, gpu, one, minor, answers, minors) for one in instances(nvml, gpu, answers))


def _facts(
    nvml: Nvml, gpu: Handle, one: Instance, minor: int | None, answers: Answers, minors: dict[str, int]
) -> MigFacts:
    info = answers.ask(lambda: nvml.gpu_instance_info(gpu, one.gpu_instance))
    attributes = answers.ask(lambda: nvml.attributes(one.handle))
    named = PROFILE.search(answers.ask(lambda: nvml.name(one.handle)) or "")
    paths = (
        f"gpu{minor}/gi{one.gpu_instance}/access",
        f"gpu{minor}/gi{one.gpu_instance}/ci{one.compute_instance}/access",
    )
    return MigFacts(
        uuid=one.uuid,
        profile=named[1] if named else "",
        start=None if info is None else info.start,
        gpu_instance=one.gpu_instance,
        compute_instance=one.compute_instance,
        memory_mib=None if attributes is None else attributes.memory_mib,
        multiprocessors=None if attributes is None else attributes.multiprocessors,
        device_nodes=tuple(f"/dev/nvidia-caps/nvidia-cap{minors[path]}" for path in paths if path in minors),
        engines=Engines() if attributes is None else attributes.engines,
    )


def capability_minors(root: Path) -> dict[str, int]:
    """The numbers of the device nodes that open each instance, as the kernel's module lists them.

    Lines such as ``gpu0/gi1/ci0/access 13``. Empty where the module lists none.
    """
    try:
        text = read_kernel_file(root / MINORS).decode("ascii", "replace")
    except OSError:
        return {}
    pairs = (line.rsplit(" ", 1) for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
