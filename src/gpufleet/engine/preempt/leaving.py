"""What pods that end anyway leave behind: the room of every node, and of the queues, as it will be.

A node that pods are leaving is over-committed as soon as another pod is nominated there. So the devices are
looked at one by one: how many will be free when the leaving pods are gone. All of it is added up in one
compiled pass and changes nothing.

A pod that was evicted does not end before the API server says so. Work of no queue counts on it before that
only if it could evict the pod itself. Otherwise it would be nominated for as long as nothing but the memory
of one scheduler says that the pod ends: the workload for which it was evicted may start elsewhere, and then
the next scheduler evicts it for no other pod. Nor does it evict any pod meanwhile (``victim_search``). In
queues every evicted pod counts at once.
"""

from functools import cached_property

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.eviction_columns import (
    ALONE,
    AWAITED_BY,
    NO_NOMINATION,
    PRIORITY,
    QUEUE,
)
from gpufleet.engine.arrays.placing import SERVES_WHOLE
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.score import locality
from gpufleet.engine.preempt.evictable_work import EvictableWork
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import DEFAULT_QUEUE

GPU = 0
"""The first thing that a shape may lack; behind it come the host resources in the order of their columns."""
# Beyond every amount, with room for a sum of two of them within 64 bits.
NOTHING_SHORT = -(1 << 61)
FAR_TOO_MUCH = 1 << 61


class Leaving:
    """The pods that end anyway, as of now, and what they hold.

    ``reach`` is given for work of no queue: what it may evict itself. Of the pods that were evicted and do
    not end yet, others do not count for it; ``soon`` are the rows of those of them that end unless something
    changes. ``is_complete``: no pod is left out.
    """

    def __init__(self, state: EngineState, reach: EvictableWork | None = None) -> None:
        self.state = state
        pods, told = state.store.tables.pods, state.departures.rows()
        # A pod without a node leaves no room behind.
        rows: Int64Array = told[pods[layout.POD_NODE, told] != layout.NOT_SET]
        unsure = [] if reach is None else unsure_for(state, reach)
        if unsure:
            rows = rows[np.isin(rows, np.array(unsure, np.int64), invert=True)]
        self.is_complete = not unsure
        self.soon: list[int] = [row for row in unsure if _ends_soon(state, row)]
        self.rows: Int64Array = rows
        self.nodes: Int64Array = pods[layout.POD_NODE, self.rows]

    def on(self, node: int) -> list[int]:
        """Those on one node."""
        rows: list[int] = self.rows[self.nodes == node].tolist()
        return rows

    def on_any(self, nodes: Int64Array) -> list[int]:
        """Those on one of these nodes."""
        wanted = np.zeros(self.state.fleet.row_count, np.bool_)
        wanted[nodes] = True
        rows: list[int] = self.rows[wanted[self.nodes]].tolist()
        return rows

    @cached_property
    def left(self) -> "FutureRoom":
        """What they leave behind."""
        left = FutureRoom(self.state)
        left.add(self.rows)
        return left


def unsure_for(state: EngineState, reach: EvictableWork) -> list[int]:
    """The rows of pods that were evicted, do not end yet, and are not within reach of work of no queue."""
    evicted = state.departures.evicted
    if not evicted:
        return []
    cells, by_queue = state.pods.eviction_columns.cells, bool(state.waiting.queues)
    rows = np.fromiter((state.pods.row_by_uid[uid] for uid in evicted), np.int64, len(evicted))
    within = (cells[ALONE, rows] == 1) & (cells[PRIORITY, rows] < reach.below)
    if by_queue:
        within &= cells[QUEUE, rows] == state.pods.eviction_columns.code(DEFAULT_QUEUE)
    return [row for row in rows[~within].tolist() if not _gang_is_within(state, row, reach)]


def _ends_soon(state: EngineState, row: int) -> bool:
    """True for an evicted pod for which a workload still waits, or that ends for the sake of none."""
    is_awaited = state.pods.eviction_columns.cells[AWAITED_BY, row] != NO_NOMINATION
    return bool(is_awaited) or not state.departures.evicted[state.pods.pod_at(row).uid]


def _gang_is_within(state: EngineState, row: int, reach: EvictableWork) -> bool:
    """True for a pod of a gang that may be evicted, whose gang is within reach."""
    gang = state.workloads.gang_of(row)
    if gang is None or not state.pods.pod_at(row).makes_room:
        return False
    if state.waiting.queues and gang.queue != DEFAULT_QUEUE:
        return False
    return reach.holds(gang.priority, gang.created_at_us)


class FutureRoom:
    """What pods that end anyway leave behind, and what is short then."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        tables, nodes = state.store.tables, state.fleet.row_count
        self._held = np.zeros((2, tables.devices.shape[1]), np.int64)
        self._freed = np.zeros((nodes, 1 + tables.shape_resources.shape[1]), np.int64)

    def add(self, rows: Int64Array) -> None:
        """These pods leave what they hold."""
        give_back(self.state.store.tables, rows, self._held, self._freed)

    def shortage(self, shape: int) -> Int64Array:
        """By node row and thing that a shape asks for, how much is short when they are gone.

        Nothing or less: there is enough. ``GPU`` is in whole devices, or in milli for a share. Nodes that
        do not suit the shape lack far too much of it.
        """
        short = np.full(self._freed.shape, NOTHING_SHORT, np.int64)
        self.renew(shape, np.arange(len(short)), short)
        return short

    def renew(self, shape: int, nodes: Int64Array, short: Int64Array) -> None:
        """Work the shortage out again for some nodes, into ``short``."""
        shapes = self.state.shapes
        slot = shapes.slot(shape)  # First, as it may make the rankings larger.
        refused = shapes.rankings.refused[slot]
        lacking(self.state.store.tables, shape, refused, nodes, self._held, self._freed, short)


@kernel
def lacking(
    tables: Tables,
    shape: int,
    refused: Int64Array,
    nodes: Int64Array,
    held: Int64Array,
    freed: Int64Array,
    short: Int64Array,
) -> None:
    """Fill ``short`` for some nodes; see ``give_back`` for ``held`` and ``freed``."""
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    milli = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    for number in range(len(nodes)):
        node = nodes[number]
        # Far too much rather than a mark of its own: every comparison with what is short refuses such a node.
        if tables.nodes[layout.NODE_PRESENT, node] == 0 or refused[node] != 0:
            short[node, GPU] = FAR_TOO_MUCH
            continue
        if count > 0 and milli == WHOLE_GPU_MILLI:
            free = tables.nodes[layout.NODE_FREE_WHOLE_GPUS, node]
            if locality.must_be_near(tables, shape):
                free = near_after(tables, shape, node, held)
            # Devices are looked at one by one only where pods leave; elsewhere the node's own count is right.
            elif freed[node, 0] > 0:
                free = whole_after(tables, node, held)
            short[node, GPU] = count - free
        elif count > 0:
            free = tables.nodes[layout.NODE_FREE_GPU_MILLI, node]
            if freed[node, 0] > 0:
                free = milli_after(tables, node, held)
            short[node, GPU] = count * milli - free
        for column in range(tables.shape_resources.shape[1]):
            asked = tables.shape_resources[shape, column]
            if asked > 0:
                free = tables.resources_free[node, column] + freed[node, 1 + column]
                short[node, 1 + column] = asked - free


@kernel
def give_back(tables: Tables, leaving: Int64Array, held: Int64Array, freed: Int64Array) -> None:
    """Add up what pods leave: users and milli of each device in ``held``, host resources in ``freed``.

    ``freed[node, 0]`` counts the pods.
    """
    for number in range(len(leaving)):
        pod = leaving[number]
        node, shape = tables.pods[layout.POD_NODE, pod], tables.pods[layout.POD_SHAPE, pod]
        freed[node, 0] += 1
        for column in range(tables.shape_resources.shape[1]):
            freed[node, 1 + column] += tables.shape_resources[shape, column]
        for index in range(tables.shapes[layout.SHAPE_GPU_COUNT, shape]):
            device = tables.pod_devices[pod, index]
            if device != layout.NOT_SET:
                held[0, device] += 1
                held[1, device] += tables.shapes[layout.SHAPE_GPU_MILLI, shape]


@kernel
def whole_after(tables: Tables, node: int, held: Int64Array) -> int:
    """How many devices of a node will serve a whole request, without users."""
    free = 0
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        free += is_whole_after(tables, device, held)
    return free


@kernel
def near_after(tables: Tables, shape: int, node: int, held: Int64Array) -> int:
    """The most such devices that are as near each other as the shape asks for."""
    column = locality.column_of(tables.shapes[layout.SHAPE_WITHIN, shape])
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    most = 0
    for leader in range(first, last):
        together = 0
        # Devices before the leader were counted with a leader of their own.
        for device in range(leader, last):
            if tables.devices[column, device] == tables.devices[column, leader]:
                together += is_whole_after(tables, device, held)
        most = max(most, together)
    return int(most)


@leaf
def is_whole_after(tables: Tables, device: int, held: Int64Array) -> bool:
    """True if a device will serve a whole request, without users."""
    healthy = tables.devices[layout.DEVICE_HEALTHY, device] == 1
    serves = tables.devices[layout.DEVICE_SERVES, device] & SERVES_WHOLE != 0
    # Free milli alone would not tell: a whole request takes a device that no pod uses.
    unused = tables.devices[layout.DEVICE_USERS, device] == held[0, device]
    milli = tables.devices[layout.DEVICE_FREE_MILLI, device] + held[1, device]
    return bool(healthy and serves and unused and milli == WHOLE_GPU_MILLI)


@kernel
def milli_after(tables: Tables, node: int, held: Int64Array) -> int:
    """How much of the healthy devices of a node will be free."""
    free = 0
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        if tables.devices[layout.DEVICE_HEALTHY, device] == 1:
            # A device that is over-committed has less than nothing, which must not count against the others.
            free += max(0, tables.devices[layout.DEVICE_FREE_MILLI, device] + held[1, device])
    return int(free)
