"""What every node has against a shape: counted by reason, and the nearest to taking it.

Made only after a refusal, in compiled code. The reasons of each node are kept (``survey_cache``), and only
the nodes that changed since the shape was last refused are asked again. ``verdict`` makes the answer of it.
"""

from typing import NamedTuple

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Grid, Int64Array
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.rankings import Rankings
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.node_reasons.gpu_count import BIT as GPU_COUNT
from gpufleet.engine.node_reasons.gpu_unreported import BIT as GPU_UNREPORTED
from gpufleet.engine.node_reasons.no_agent import BIT as NO_AGENT
from gpufleet.engine.node_reasons.node_reason import Kind
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.engine.place.score import fit, locality

ONLY_ROOM = TABLE.mask(Kind.ROOM)
"""Reasons that go away when enough of what runs there ends."""

BY_NEIGHBOURS = TABLE.mask(Kind.OTHER_PODS)
NOT_SEEN = GPU_UNREPORTED | NO_AGENT
"""Reasons of nodes whose GPUs are known by their number at most."""

PASSING = ONLY_ROOM | BY_NEIGHBOURS
"""Reasons that go away when the right pods end."""

# surveyed.state[place, COLUMN]
SURVEYED_SEEN_CHANGES = 0  # the counter up to which the reasons are fresh
SURVEYED_STALE = 1  # 1: every node must be asked anew
SURVEYED_COLUMNS = 2
ABSENT = -1
"""Stands in place of the reasons of a row without a node."""

# sets[COLUMN, place]
SET_REASONS = 0
SET_NODES = 1
SET_COLUMNS = 2

# nearest[COLUMN]
NEAREST_NODE = 0
NEAREST_EQUALS = 1
NEAREST_MISSING_GPUS = 2
NEAREST_COLUMNS = 3
PERMILLE = 1000


@leaf
def gpus_missing(tables: Tables, shape: int, node: int) -> int:
    """How many more fitting devices the node would need, near each other where that is asked for."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    fitting = 0
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        fitting += fit.device_fits(tables, shape, device)
    if locality.must_be_near(tables, shape):
        fitting = fit.near(tables, shape, node)
    return int(max(0, tables.shapes[layout.SHAPE_GPU_COUNT, shape] - fitting))


@leaf
def host_distance(tables: Tables, shape: int, node: int) -> int:
    """How far the node is from taking the pod, but for GPUs: the missing part of each thing asked for, in
    permille, summed up.
    """
    far = 0
    for column in range(tables.shape_resources.shape[1]):
        asked = tables.shape_resources[shape, column]
        missing = asked - tables.resources_free[node, column]
        if asked > 0 and missing > 0:
            far += PERMILLE * min(missing, asked) // asked
    return int(far)


@leaf
def gpu_distance(tables: Tables, shape: int, node: int) -> int:
    """The missing part of the GPUs asked for, in permille."""
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    return PERMILLE * gpus_missing(tables, shape, node) // count if count > 0 else 0


@leaf
def bars(found: int) -> int:
    """How far the other pods on a node make it; each thing they have against the pod weighs more than
    the lack of any one resource.
    """
    far, left = 0, found & BY_NEIGHBOURS
    while left != 0:
        far += 2 * PERMILLE
        # Without its lowest bit.
        left &= left - 1
    return far


@leaf
def count_in_sets(sets: Int64Array, known: int, last: int, found: int) -> int:
    """Count one node under its set of reasons, of which ``known`` are listed; the place of that set.

    Neighbouring rows are mostly alike, so the set of the last one is looked at first.
    """
    place = last
    if place == known or sets[SET_REASONS, place] != found:
        place = 0
        while place < known and sets[SET_REASONS, place] != found:
            place += 1
        if place == known:
            sets[SET_REASONS, place] = found
            sets[SET_NODES, place] = 0
    sets[SET_NODES, place] += 1
    return place


class Surveyed(NamedTuple):
    """What was found, a place for each shape: ``state[place, COLUMN]``; ``reasons[place, node]``, as bits, or
    ABSENT; and ``distances[place, node]``, in permille, of nodes that lack nothing but room.

    What other pods have against the shape is in neither: it depends on the pod.
    """

    state: Grid
    reasons: Grid
    distances: Grid


@leaf
def reasons_on(tables: Tables, rankings: Rankings, slot: int, node: int) -> int:
    """Everything against one node, as bits (``node_reasons``), but what other pods have. Of a node that does
    not report its GPUs, nothing else is said about them but that they are too few in any case.
    """
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    found = rankings.refused[slot, node] | fit.host_reasons(tables, shape, node)
    if found & NOT_SEEN == 0:
        found |= fit.gpu_reasons(tables, shape, node)
    elif 0 < tables.nodes[layout.NODE_DEVICE_COUNT, node] < tables.shapes[layout.SHAPE_GPU_COUNT, shape]:
        found |= GPU_COUNT
    return int(found)


@leaf
def ask(tables: Tables, rankings: Rankings, surveyed: Surveyed, slot: int, place: int, node: int) -> None:
    """Note what a node has against the shape as of now."""
    if tables.nodes[layout.NODE_PRESENT, node] == 0:
        surveyed.reasons[place, node] = ABSENT
        return
    found = reasons_on(tables, rankings, slot, node)
    surveyed.reasons[place, node] = found
    if found & ~PASSING == 0:
        shape = rankings.state[slot, layout.RANKING_SHAPE]
        far = host_distance(tables, shape, node) + gpu_distance(tables, shape, node)
        surveyed.distances[place, node] = far


@kernel
def refresh(tables: Tables, rankings: Rankings, surveyed: Surveyed, slot: int, place: int) -> None:
    """Ask every node that changed since the last refusal, as ``ranking.refresh`` scores them."""
    head = tables.counters[layout.COUNTER_CHANGES]
    seen = surveyed.state[place, SURVEYED_SEEN_CHANGES]
    # The ring of changes has room for so many: older ones that were not seen are written over.
    if surveyed.state[place, SURVEYED_STALE] == 1 or head - seen > len(tables.changes):
        for node in range(surveyed.reasons.shape[1]):
            ask(tables, rankings, surveyed, slot, place, node)
        surveyed.state[place, SURVEYED_STALE] = 0
    else:
        for position in range(seen, head):
            node = tables.changes[position % len(tables.changes)]
            # A node that changed again stands further on in the ring, and is asked there.
            if tables.changed_at[node] == position:
                ask(tables, rankings, surveyed, slot, place, node)
    surveyed.state[place, SURVEYED_SEEN_CHANGES] = head


@kernel
def survey(
    surveyed: Surveyed, place: int, beyond_room: Int64Array, sets: Int64Array, nearest: Int64Array
) -> int:
    """Count the nodes by their set of reasons, and find the nearest node that lacks nothing but room.

    ``sets[SET_REASONS, place]`` and ``sets[SET_NODES, place]`` get each set and how many nodes have it;
    how many sets there are is returned. They are few, whatever the fleet. ``beyond_room`` has further
    reasons by node row, or is empty. Of the nearest node ``nearest`` gets its row, and how many are as near;
    NOT_SET for its row if there is none.
    """
    closest, known, last = -1, 0, 0
    nearest[NEAREST_NODE] = layout.NOT_SET
    nearest[NEAREST_EQUALS] = 0
    for node in range(sets.shape[1]):
        found = surveyed.reasons[place, node]
        if found == ABSENT:
            continue
        if node < len(beyond_room):
            found |= beyond_room[node]
        last = count_in_sets(sets, known, last, found)
        known = max(known, last + 1)
        # A node with a reason that no pod's end takes away is not near, however much room it has.
        if found == 0 or found & ~PASSING != 0:
            continue
        far = surveyed.distances[place, node] + bars(found)
        if closest == -1 or far < closest:
            closest = far
            nearest[NEAREST_NODE] = node
            nearest[NEAREST_EQUALS] = 1
        elif far == closest:
            nearest[NEAREST_EQUALS] += 1
    return known


@entry
def refresh_by_handle(
    tables: Int64Array, rankings: Int64Array, surveyed: Int64Array, slot: int, place: int
) -> None:
    """``refresh``, for Python: by handle (see ``arrays.handle``)."""
    refresh(opened(Tables, tables), opened(Rankings, rankings), opened(Surveyed, surveyed), slot, place)


@entry
def survey_by_handle(
    tables: Int64Array,
    rankings: Int64Array,
    surveyed: Int64Array,
    slot: int,
    place: int,
    beyond_room: Int64Array,
    sets: Int64Array,
    nearest: Int64Array,
) -> int:
    """``refresh`` and ``survey``, for Python. ``nearest`` gets how many GPUs the nearest node lacks, too."""
    known_tables, known_rankings = opened(Tables, tables), opened(Rankings, rankings)
    known_surveyed = opened(Surveyed, surveyed)
    refresh(known_tables, known_rankings, known_surveyed, slot, place)
    found = survey(known_surveyed, place, beyond_room, sets, nearest)
    if nearest[NEAREST_NODE] != layout.NOT_SET:
        shape = known_rankings.state[slot, layout.RANKING_SHAPE]
        nearest[NEAREST_MISSING_GPUS] = gpus_missing(known_tables, shape, nearest[NEAREST_NODE])
    return found
