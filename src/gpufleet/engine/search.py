"""One compiled call from a shape to a booked place: rank, choose devices, write.

``cycle`` uses it for single pods and, through ``trial``, for the members of gangs.
"""

import numpy as np

from gpufleet.engine import layout
from gpufleet.engine.choice import choose
from gpufleet.engine.compiled import kernel
from gpufleet.engine.fit import room
from gpufleet.engine.journal import undo
from gpufleet.engine.placing import place
from gpufleet.engine.policy_tables import PolicyTables
from gpufleet.engine.quota.available import is_kept_out, keeps_quota
from gpufleet.engine.ranking import Rankings, best_node, best_node_in
from gpufleet.engine.tables import Int64Array, Tables

NO_NODES: Int64Array = np.zeros(0, np.int64)
ASSUMED = int(layout.PodState.ASSUMED)


@kernel
def place_pod(
    tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int, pod: int, nodes: Int64Array
) -> int:
    """Book one pod on its best node (of ``nodes``, if any are given); the node or NOT_SET.

    NOT_SET also where the quota of its queue does not allow that.
    """
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
