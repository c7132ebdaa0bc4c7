"""What the scoring function ``worth`` reads: a valuation as arrays, and each node's worth so far.

``valuation.Valuation`` is the same for people and for the event log; ``policy`` turns one into these
arrays, ``worth`` uses them and keeps the part that belongs to each node up to date.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays.array_types import Cube, Grid, Line
from gpufleet.engine.valuation import (
    CURVE_STEPS,
    FULL_SHARE,
    NEVER,
    ONE_GPU,
    ONE_PRICE,
    SLOT_KINDS,
    SLOT_LEVELS,
)
from gpufleet.model.device import WHOLE_GPU_MILLI

# of_node[COLUMN, node row]
WORTH_REMAINDER = 0  # value of the free parts of its GPUs, whatever its host has left
WORTH_VALUE = 1  # that value, as far as CPU and memory will last for it
WORTH_SLOTS = 2  # bonus for room for tasks of several GPUs
WORTH_FREE_MILLI = 3
WORTH_FREE_GPUS = 4
WORTH_MODEL = 5
WORTH_LEVELS = 6  # four columns: how many levels of each kind of slot the host satisfies
WORTH_COLUMNS = WORTH_LEVELS + SLOT_KINDS

# state[...]
WORTH_SEEN_CHANGES = 0
WORTH_STALE = 1
WORTH_TOTAL_FREE_MILLI = 2
WORTH_FREE_LOW = 3
WORTH_FREE_HIGH = 4
WORTH_STATE = 5

# curves[CURVE, step] and spans[CURVE]
CPU_CURVE = 0
MEMORY_CURVE = 1


class WorthTables(NamedTuple):
    """A valuation and the fleet in its light.

    ``value[milli]`` is what so much of one GPU is worth. ``curves`` and ``spans`` say which share
    of its GPUs' worth a node can serve with the CPU and memory it has. ``price[model]`` weighs a
    loss; ``model_free[model]`` is what is free of it, and at ``model_low`` another valuation is due.
    ``slot_needs[kind, level]`` is the (CPU milli, memory MiB) of a level, ``slot_bonus[kind, levels
    met]`` what a slot is worth, ``slots_left[kind, level]`` how many there are, and below
    ``slots_low`` of them another valuation is due.
    """

    value: Line
    curves: Grid
    spans: Line
    price: Line
    model_free: Line
    model_low: Line
    slot_gpus: Line
    slot_needs: Cube
    slot_bonus: Grid
    slots_left: Grid
    slots_low: Grid
    of_node: Grid
    state: Line


def untaught() -> WorthTables:
    """Before the first valuation: GPUs are worth what is free of them, nothing is scarce."""
    state = np.zeros(WORTH_STATE, np.int64)
    state[WORTH_STALE] = 1
    state[WORTH_FREE_LOW] = -1
    state[WORTH_FREE_HIGH] = NEVER
    return WorthTables(
        value=np.arange(WHOLE_GPU_MILLI + 1, dtype=np.int64) * ONE_GPU // WHOLE_GPU_MILLI,
        curves=np.full((2, CURVE_STEPS + 1), FULL_SHARE, np.int64),
        spans=np.ones(2, np.int64),
        price=np.full(8, ONE_PRICE, np.int64),
        model_free=np.zeros(8, np.int64),
        model_low=np.full(8, -1, np.int64),
        slot_gpus=np.ones(SLOT_KINDS, np.int64),
        slot_needs=np.full((SLOT_KINDS, SLOT_LEVELS, 2), NEVER, np.int64),
        slot_bonus=np.zeros((SLOT_KINDS, SLOT_LEVELS + 1), np.int64),
        slots_left=np.zeros((SLOT_KINDS, SLOT_LEVELS), np.int64),
        # Below every count: nothing is scarce enough for another valuation before the first.
        slots_low=np.full((SLOT_KINDS, SLOT_LEVELS), -1, np.int64),
        # Made longer with the fleet (``PolicyState.fleet_changed``).
        of_node=np.zeros((WORTH_COLUMNS, 64), np.int64),
        state=state,
    )
