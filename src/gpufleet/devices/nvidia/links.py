"""The best way between each two GPUs."""

from itertools import combinations

from gpufleet.devices.facts import GpuFacts, Link
from gpufleet.devices.nvidia.nvml import Handle, Nvml
from gpufleet.devices.nvidia.refusals import Answers
from gpufleet.model.identifiers import DeviceId

ANCESTORS = {
    0: Link.BOARD,
    10: Link.SINGLE_SWITCH,
    20: Link.MULTIPLE_SWITCHES,
    30: Link.HOST_BRIDGE,
    40: Link.NUMA_NODE,
    50: Link.SYSTEM,
}
"""NVML_TOPOLOGY_*: the nearest point that the ways to both GPUs share."""

LINKS_MOST = 36
"""NVML_NVLINK_MAX_LINKS: so many links of one GPU can be asked for."""


def links(
    nvml: Nvml, gpus: list[tuple[GpuFacts, Handle]], answers: Answers
) -> dict[tuple[DeviceId, DeviceId], Link]:
    """The link of each pair of GPUs, the smaller UUID first. Pairs that the driver does not know are left
    out.
    """
    ends = {gpu.uuid: _far_ends(nvml, handle, answers) for gpu, handle in gpus}
    found = {}
    for (one, one_handle), (other, other_handle) in combinations(gpus, 2):
        reached = other.pci_bus_id in ends[one.uuid]
        best = Link.DIRECT if reached else _link(nvml, one_handle, other_handle, answers)
        if best is not None:
            found[min(one.uuid, other.uuid), max(one.uuid, other.uuid)] = best
    return found


def _far_ends(nvml: Nvml, handle: Handle, answers: Answers) -> set[str | None]:
    """The PCI addresses at the other ends of its active links: other GPUs, or switches of NVLink."""
    ends: set[str | None] = set()
    for link in range(LINKS_MOST):
        up = answers.ask(lambda link=link: nvml.nvlink_up(handle, link))  # type: ignore[misc]
        # The GPU has no link of this number, and so none of a higher one.
        if up is None:
            break
        if up:
            ends.add(answers.ask(lambda link=link: nvml.nvlink_far_end(handle, link)))  # type: ignore[misc]
    return ends - {None}


def _link(nvml: Nvml, one: Handle, other: Handle, answers: Answers) -> Link | None:
    """Through a switch of NVLink no GPU sees another at its links' ends; the driver knows of both."""
    if answers.ask(lambda: nvml.nvlink_between(one, other)):
        return Link.DIRECT
    ancestor = answers.ask(lambda: nvml.common_ancestor(one, other))
    return None if ancestor is None else ANCESTORS.get(ancestor)
