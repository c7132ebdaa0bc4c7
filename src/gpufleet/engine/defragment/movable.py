"""Which pods may be moved, and which of them make room only together.

A pod may be moved if it may be evicted (``preempt.candidates``), has run for the minimum time of its queue,
runs there for certain, and is made anew by a controller. Members of gangs stay: the end of one is the end
of the whole run.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.eviction_columns import ORDER
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.candidates import Unit, work_lost
from gpufleet.model.identifiers import QueueName


def movable(state: EngineState, at_us: int, queues: tuple[QueueName, ...] = ()) -> list[Unit]:
    """Pods with GPUs that may be moved at this moment, the cheapest to move first.

    Where queues are named, only theirs.

    No pod is sent back to wait, so priorities do not make one dearer than another.
    """
    rows = [row for node in sorted(state.pods.on_node) for row in state.pods.on_node[node]]
    tables, cells = state.store.tables, state.pods.eviction_columns.cells
    found = [
        Unit(0, False, int(work_lost(tables, cells, row, at_us)), (row,), order=int(cells[ORDER, row]))
        for row in rows
        if may_move(state, row, at_us) and (not queues or state.queue_of(row) in queues)
    ]
    return sorted(found, key=lambda unit: unit.cost)


def may_move(state: EngineState, row: int, at_us: int) -> bool:
    """True if the pod may be moved as far as itself and its queue are concerned."""
    pod, departures = state.pods.pod_at(row), state.departures
    if not pod.shape.gpu.count or pod.gang is not None or not (pod.preemptible and pod.replaceable):
        return False
    if state.pods.state(row) is not PodState.BOUND or departures.is_departing(pod.uid):
        return False
    if pod.uid in departures.refused_until_us or state.budgets.forbids(pod):
        return False
    queue = state.waiting.queues.get(pod.queue)
    if queue is None:
        return True
    # A queue may state a time for each kind of eviction, and a move waits for the longer one.
    least_us = max(queue.preemption.preempt_after_us, queue.preemption.reclaim_after_us)
    return state.pods.started_at_us.get(row, at_us) + least_us <= at_us


def together(state: EngineState, units: list[Unit]) -> list[Unit]:
    """Each unit alone, all that share one GPU, and all on one node: whose moves make room only together."""
    devices: dict[int, list[Unit]] = {}
    nodes: dict[int, list[Unit]] = {}
    tables = state.store.tables
    for unit in units:
        row = unit.rows[0]
        count = int(tables.shapes[layout.SHAPE_GPU_COUNT, tables.pods[layout.POD_SHAPE, row]])
        for device in tables.pod_devices[row, :count].tolist():
            if device != layout.NOT_SET:
                devices.setdefault(device, []).append(unit)
        nodes.setdefault(int(tables.pods[layout.POD_NODE, row]), []).append(unit)
    groups = {
        unit.rows: unit for unit in (*units, *map(joined, devices.values()), *map(joined, nodes.values()))
    }
    return list(groups.values())


def joined(units: list[Unit]) -> Unit:
    """Several units as one."""
    rows = tuple(sorted(row for unit in units for row in unit.rows))
    return Unit(max(unit.priority for unit in units), False, sum(unit.lost for unit in units), rows)
