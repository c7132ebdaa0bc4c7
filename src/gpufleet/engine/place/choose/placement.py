"""One compiled call from a shape to a booked place: rank, choose devices, write.

``cycle`` uses it for single pods and, through ``trial``, for the members of gangs.
"""

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import entry, kernel
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.journal import undo
from gpufleet.engine.arrays.placing import place
from gpufleet.engine.arrays.rankings import Rankings
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.choose.device_choice import choose
from gpufleet.engine.place.choose.ranking import best_node, best_node_in
from gpufleet.engine.place.score.fit import room
from gpufleet.engine.place.score.policy_tables import PolicyTables
from gpufleet.engine.queueing.available import is_kept_out, keeps_quota

NO_NODES: Int64Array = np.zeros(0, np.int64)
ASSUMED = int(layout.PodState.ASSUMED)


@kernel
def place_pod(
    tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int, pod: int, nodes: Int64Array
) -> int:
    """Book one pod on its best node (of ``nodes``, if any are given); the node or NOT_SET.

    NOT_SET also where the quota of its queue does not allow that.
    """
    # The question that reads no node comes first: a pod whose queue has nothing left needs no search.
    has_queues = tables.counters[layout.COUNTER_QUEUES] != 0
    if has_queues and is_kept_out(tables, pod):
        return layout.NOT_SET
    if len(nodes) > 0:
        node = best_node_in(tables, rankings, policy, slot, nodes)
    else:
        node = best_node(tables, rankings, policy, slot)
    if node == layout.NOT_SET:
        return layout.NOT_SET
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    chosen = policy.chosen
    if not choose(tables, policy, shape, node, chosen):
        return layout.NOT_SET
    mark = tables.counters[layout.COUNTER_JOURNAL_LENGTH]
    place(tables, pod, node, chosen, ASSUMED)
    # What the devices are charged is only known now that they are chosen.
    if has_queues and not keeps_quota(tables, pod):
        undo(tables, mark)
        return layout.NOT_SET
    return node


@kernel
def place_members(
    tables: Tables,
    rankings: Rankings,
    policy: PolicyTables,
    slot: int,
    pods: Int64Array,
    nodes: Int64Array,
) -> int:
    """Book pods of one shape one after the other until one does not fit; how many did."""
    for index in range(len(pods)):
        if place_pod(tables, rankings, policy, slot, pods[index], nodes) == layout.NOT_SET:
            return index
    return len(pods)


@kernel
def room_by_node(tables: Tables, rankings: Rankings, slot: int, limit: int, places: Int64Array) -> int:
    """How many pods of the slot's shape each node could take, and the sum over the fleet."""
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    total = 0
    for node in range(len(places)):
        places[node] = 0
        if tables.nodes[layout.NODE_PRESENT, node] == 1 and rankings.refused[slot, node] == 0:
            places[node] = room(tables, shape, node, limit)
            total += places[node]
    return total


@entry
def place_pod_by_handle(
    tables: Int64Array, rankings: Int64Array, policy: Int64Array, slot: int, pod: int, nodes: Int64Array
) -> int:
    """``place_pod``, for Python: by handle (see ``arrays.handle``)."""
    return place_pod(
        opened(Tables, tables), opened(Rankings, rankings), opened(PolicyTables, policy), slot, pod, nodes
    )


@entry
def place_members_by_handle(
    tables: Int64Array,
    rankings: Int64Array,
    policy: Int64Array,
    slot: int,
    pods: Int64Array,
    nodes: Int64Array,
) -> int:
    """``place_members``, for Python: by handle (see ``arrays.handle``)."""
    return place_members(
        opened(Tables, tables), opened(Rankings, rankings), opened(PolicyTables, policy), slot, pods, nodes
    )
