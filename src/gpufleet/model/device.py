"""One GPU of a node: its identity, size, links, and what kinds of request it serves.

``node.Node`` holds a node's devices; the engine keeps their free part in arrays.
"""

import enum

import msgspec

from gpufleet.model.identifiers import DeviceId, GpuModelName

# Shares are counted in thousandths of a GPU.
WHOLE_GPU_MILLI = 1000
UNKNOWN_MODEL = GpuModelName("")


class Serves(enum.IntFlag):
    """Which kinds of request a device may serve (its sharing mode, seen from the scheduler)."""

    NOTHING = 0
    WHOLE = 1
    SHARE = 2
    ANY = 3


class Device(msgspec.Struct, frozen=True, gc=False):
    """A physical GPU.

    ``memory_mib`` is the usable memory, None where it is not known. Devices of one ``link_group`` reach each
    other over the fast link of the node. ``numa_node`` is None where the machine does not tell.
    """

    id: DeviceId
    model: GpuModelName = UNKNOWN_MODEL
    memory_mib: int | None = None
    link_group: int = 0
    numa_node: int | None = None
    serves: Serves = Serves.ANY
    healthy: bool = True
