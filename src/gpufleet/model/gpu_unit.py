"""What nodes give out under the name of whole GPUs, in words: cards, shares of cards, or MIG instances.

A card that serves several pods in turn, or is cut into instances which go by the name of whole GPUs, is
several devices, each asked for as a GPU. People count them by their own names. ``engine.node_reasons`` has
the sentences.
"""

import enum
from collections.abc import Iterable

from gpufleet.model.device_id import SEPARATOR, device_name
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.node import Node

REPLICAS_LABEL = "nvidia.com/gpu.replicas"
"""Feature discovery says here into how many shares a node's plugin divides each GPU."""


class GpuUnit(enum.StrEnum):
    """What one device is called."""

    GPU = "GPU"
    SHARE = "GPU share"
    INSTANCE = "MIG instance"


def gpu_unit(nodes: Iterable[Node]) -> GpuUnit:
    """What the devices of these nodes are called; GPUs where they are of several kinds, or none is there."""
    found = {unit for node in nodes for unit in _units(node)}
    return found.pop() if len(found) == 1 else GpuUnit.GPU


def gives_out_parts(node: Node) -> bool:
    """Whether each device of the node is a part of a card."""
    return gpu_unit([node]) is not GpuUnit.GPU


def _units(node: Node) -> set[GpuUnit]:
    if node.counted_only:
        replicas = node.labels.get(REPLICAS_LABEL, "")
        shared = replicas.isascii() and replicas.isdecimal() and int(replicas[:9]) > 1
        return {GpuUnit.SHARE if shared else GpuUnit.GPU}
    return {unit_of(device.id) for device in node.devices}


def unit_of(device: DeviceId) -> GpuUnit:
    """What a device of this id is called."""
    if SEPARATOR not in device:
        # Fleets are large, and nearly all of their devices are whole cards.
        return GpuUnit.GPU
    name = device_name(device)
    if name.replica is not None:
        return GpuUnit.SHARE
    return GpuUnit.GPU if name.place is None else GpuUnit.INSTANCE
