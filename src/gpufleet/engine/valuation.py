"""What the default policy has learned from the work that arrived, in whole numbers.

A valuation is made by ``learn`` from the mix of requests seen so far and the state of the fleet. It
enters the engine as an event before it is used, so that a saved log decides alike on any machine
whatever its floating point does. ``place.score.worth`` values nodes by it.
"""

import msgspec

from gpufleet.model.identifiers import GpuModelName

ONE_GPU = 1 << 20
"""The worth of one whole idle GPU; all worths are in this unit."""

FULL_SHARE = 1 << 16
"""A share of 1 on a curve."""

ONE_PRICE = 256
"""A price of 1."""

PRICE_MOST = 1 << 24
SPAN_MOST = 1 << 34
"""No price and no span is larger: with them and 256 GPUs a node, every product fits into 64 bits."""

NEVER = 1 << 40
"""More milli CPU, MiB, slots or milli of GPUs than any fleet has."""

# The sizes of the tables that kernels read: a valuation has no more of each.
CURVE_STEPS = 256
SLOT_KINDS = 4
SLOT_LEVELS = 8


class HostCurve(msgspec.Struct, frozen=True):
    """Which share of its GPUs' worth a node can serve with a host resource.

    ``shares[i]`` (of ``FULL_SHARE``) belongs to i/256 of ``span``, the amount left per GPU of worth.
    """

    span: int
    shares: tuple[int, ...]


class SlotLevel(msgspec.Struct, frozen=True):
    """A need of CPU and memory of tasks with several GPUs.

    ``bonus`` is what a slot that satisfies this level (and those below) is worth; when fewer than
    ``low`` slots of this level are left another valuation is due.
    """

    cpu_milli: int
    memory_mib: int
    bonus: int
    low: int


class SlotKind(msgspec.Struct, frozen=True):
    """Room for tasks of ``gpus`` whole GPUs on one node, by rising needs."""

    gpus: int
    levels: tuple[SlotLevel, ...]


class Valuation(msgspec.Struct, frozen=True):
    """Everything learned at one moment.

    ``value_by_milli[r]`` is the worth of r thousandths of one GPU. The next valuation is due when the
    fleet's free milli falls to ``free_low_milli`` or rises to ``free_high_milli``, or that of a model
    falls to its ``model_low_milli``.
    """

    value_by_milli: tuple[int, ...]
    cpu: HostCurve
    memory: HostCurve
    price_by_model: dict[GpuModelName, int]
    slots: tuple[SlotKind, ...]
    model_low_milli: dict[GpuModelName, int]
    free_low_milli: int
    free_high_milli: int
