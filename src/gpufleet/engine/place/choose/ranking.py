"""The best node for a shape, at a cost that follows what changed and not how large the fleet is.

Each shape in use has a slot: one score a node, and the best score of every block of 64 nodes.
Before it is asked, a slot is brought up to date with the nodes that changed since it was last
asked (``journal.touch`` lists them); a change of a node costs one score a shape, once. The best
node is found by the best block, then inside it: highest score, lowest row among equals.
``cycle`` asks for a node, ``device_choice`` then picks its devices.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.rankings import Rankings
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.choose import device_choice
from gpufleet.engine.place.score import policy_tables, worth
from gpufleet.engine.place.score.policy_tables import PolicyTables
from gpufleet.engine.place.score.total import score


@kernel
def fresh_score(tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int, node: int) -> int:
    """The score of a node as of now, labels and taints included."""
    if tables.nodes[layout.NODE_PRESENT, node] == 0 or rankings.refused[slot, node] != 0:
        return layout.INFEASIBLE
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    return score(tables, policy, shape, node)


@leaf
def set_score(rankings: Rankings, slot: int, node: int, value: int) -> None:
    """Store a score and keep the best of its block true."""
    old = rankings.scores[slot, node]
    rankings.scores[slot, node] = value
    block = node // layout.RANKING_BLOCK
    best = rankings.best[slot, block]
    if value >= best:
        rankings.best[slot, block] = value
    # The best of the block may be any of its others now.
    elif old == best:
        rankings.best[slot, block] = best_of_block(rankings, slot, block)


@leaf
def best_of_block(rankings: Rankings, slot: int, block: int) -> int:
    """The best score of a block, from all its scores."""
    # Rows are made in whole blocks, and those beyond the fleet stay INFEASIBLE: the last block has no end of
    # its own.
    best = layout.INFEASIBLE
    for node in range(block * layout.RANKING_BLOCK, (block + 1) * layout.RANKING_BLOCK):
        best = max(best, rankings.scores[slot, node])
    return best


@kernel
def rank_all(tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int) -> None:
    """Score every node anew."""
    for node in range(len(tables.changed_at)):
        rankings.scores[slot, node] = fresh_score(tables, rankings, policy, slot, node)
    for block in range(rankings.best.shape[1]):
        rankings.best[slot, block] = best_of_block(rankings, slot, block)


@kernel
def refresh(tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int) -> None:
    """Bring a slot up to date with every change of a node so far."""
    if policy.weights[policy_tables.WEIGHT_WORTH] != 0:
        worth.refresh(tables, policy.worth)
    head = tables.counters[layout.COUNTER_CHANGES]
    seen = rankings.state[slot, layout.RANKING_SEEN_CHANGES]
    # The ring of changes has room for so many: older ones that were not seen are written over.
    if rankings.state[slot, layout.RANKING_STALE] == 1 or head - seen > len(tables.changes):
        rank_all(tables, rankings, policy, slot)
        rankings.state[slot, layout.RANKING_STALE] = 0
    else:
        for position in range(seen, head):
            node = tables.changes[position % len(tables.changes)]
            # A node that changed again stands further on in the ring, and is scored there.
            if tables.changed_at[node] != position:
                continue
            # Most nodes of a busy fleet had no room for the shape and were only filled further since.
            if rankings.scores[slot, node] != layout.INFEASIBLE or tables.gained_at[node] >= seen:
                value = fresh_score(tables, rankings, policy, slot, node)
                set_score(rankings, slot, node, value)
    rankings.state[slot, layout.RANKING_SEEN_CHANGES] = head


@kernel
def best_node(tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int) -> int:
    """The node for one pod of the slot's shape, NOT_SET if no node has room."""
    refresh(tables, rankings, policy, slot)
    if policy.options[policy_tables.OPTION_NODE_CHOICE] == policy_tables.NODE_RANDOM:
        return random_node(tables, rankings, policy, slot)
    best, chosen = layout.INFEASIBLE, layout.NOT_SET
    for block in range(rankings.best.shape[1]):
        # Strictly better, so that of equal nodes that with the lowest row is taken, whatever changed last.
        if rankings.best[slot, block] > best:
            best = rankings.best[slot, block]
            chosen = block
    if chosen == layout.NOT_SET:
        return layout.NOT_SET
    first = chosen * layout.RANKING_BLOCK
    for node in range(first, first + layout.RANKING_BLOCK):
        if rankings.scores[slot, node] == best:
            return node
    return layout.NOT_SET


@kernel
def random_node(tables: Tables, rankings: Rankings, policy: PolicyTables, slot: int) -> int:
    """A node with room, each with the same chance."""
    feasible = 0
    for node in range(rankings.scores.shape[1]):
        feasible += rankings.scores[slot, node] != layout.INFEASIBLE
    if feasible == 0:
        return layout.NOT_SET
    wanted = device_choice.draw(tables, policy, feasible)
    for node in range(rankings.scores.shape[1]):
        if rankings.scores[slot, node] != layout.INFEASIBLE:
            if wanted == 0:
                return node
            wanted -= 1
    return layout.NOT_SET


@kernel
def best_node_in(
    tables: Tables,
    rankings: Rankings,
    policy: PolicyTables,
    slot: int,
    members: Int64Array,
) -> int:
    """The best of the given nodes (in ascending order of row), NOT_SET if none has room."""
    refresh(tables, rankings, policy, slot)
    best, chosen = layout.INFEASIBLE, layout.NOT_SET
    for index in range(len(members)):
        value = rankings.scores[slot, members[index]]
        if value > best:
            best = value
            chosen = members[index]
    return int(chosen)


@entry
def best_node_by_handle(tables: Int64Array, rankings: Int64Array, policy: Int64Array, slot: int) -> int:
    """``best_node``, for Python: by handle (see ``arrays.handle``)."""
    return best_node(opened(Tables, tables), opened(Rankings, rankings), opened(PolicyTables, policy), slot)
