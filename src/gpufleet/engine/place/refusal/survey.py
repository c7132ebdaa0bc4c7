"""Every node asked once what it has against a shape: counted by reason, and the nearest to taking it.

One pass over the node rows in compiled code, made only after a refusal. ``verdict`` makes the
answer of it.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.rankings import Rankings
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score import fit, locality
from gpufleet.engine.reasons.gpu_count import BIT as GPU_COUNT
from gpufleet.engine.reasons.gpu_unreported import BIT as GPU_UNREPORTED
from gpufleet.engine.reasons.no_agent import BIT as NO_AGENT
from gpufleet.engine.reasons.node_reason import Kind
from gpufleet.engine.reasons.table import TABLE

ONLY_ROOM = TABLE.mask(Kind.ROOM)
"""Reasons that go away when enough of what runs there ends."""

BY_NEIGHBOURS = TABLE.mask(Kind.OTHER_PODS)
NOT_SEEN = GPU_UNREPORTED | NO_AGENT
"""Reasons of nodes whose GPUs are known by their number at most."""

PASSING = ONLY_ROOM | BY_NEIGHBOURS
"""Reasons that go away when the right pods end."""

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


@leaf
def reasons_on(tables: Tables, rankings: Rankings, slot: int, beyond_room: Int64Array, node: int) -> int:
    """Everything against one node, as bits (``reasons``); ``beyond_room`` has further reasons by node
    row, or is empty. Of a node that does not report its GPUs, nothing else is said about them but that they
    are too few in any case.
    """
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    found = rankings.refused[slot, node] | fit.host_reasons(tables, shape, node)
    if found & NOT_SEEN == 0:
        found |= fit.gpu_reasons(tables, shape, node)
    elif 0 < tables.nodes[layout.NODE_DEVICE_COUNT, node] < tables.shapes[layout.SHAPE_GPU_COUNT, shape]:
        found |= GPU_COUNT
    if node < len(beyond_room):
        found |= beyond_room[node]
    return int(found)


@kernel
def reasons_by_row(
    tables: Tables, rankings: Rankings, slot: int, beyond_room: Int64Array, found: Int64Array
) -> None:
    """Write each node row's reasons; rows without a node get any value."""
    for node in range(len(found)):
        found[node] = reasons_on(tables, rankings, slot, beyond_room, node)


@kernel
def survey(
    tables: Tables,
    rankings: Rankings,
    slot: int,
    rows: int,
    beyond_room: Int64Array,
    sets: Int64Array,
    nearest: Int64Array,
) -> int:
    """Count the nodes by their set of reasons, and find the nearest node that lacks nothing but room.

    ``sets[SET_REASONS, place]`` and ``sets[SET_NODES, place]`` get each set and how many nodes have it;
    how many sets there are is returned. They are few, whatever the fleet. ``rows`` of nodes are looked
    at; ``beyond_room`` has further reasons by node row, or is empty. Of the nearest node ``nearest`` gets
    its row, how many are as near, and how many GPUs it lacks; NOT_SET for its row if there is none.
    """
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    closest, known, last = -1, 0, 0
    nearest[NEAREST_NODE] = layout.NOT_SET
    nearest[NEAREST_EQUALS] = 0
    for node in range(rows):
        if tables.nodes[layout.NODE_PRESENT, node] == 0:
            continue
        found = reasons_on(tables, rankings, slot, beyond_room, node)
        last = count_in_sets(sets, known, last, found)
        known = max(known, last + 1)
        # A node with a reason that no pod's end takes away is not near, however much room it has.
        if found == 0 or found & ~PASSING != 0:
            continue
        far = host_distance(tables, shape, node) + bars(found)
        # To count devices costs most, and makes no node nearer.
        if closest != -1 and far > closest:
            continue
        far += gpu_distance(tables, shape, node)
        if closest == -1 or far < closest:
            closest = far
            nearest[NEAREST_NODE] = node
            nearest[NEAREST_EQUALS] = 1
        elif far == closest:
            nearest[NEAREST_EQUALS] += 1
    if closest != -1:
        nearest[NEAREST_MISSING_GPUS] = gpus_missing(tables, shape, nearest[NEAREST_NODE])
    return known


@entry
def survey_by_handle(
    tables: Int64Array,
    rankings: Int64Array,
    slot: int,
    rows: int,
    beyond_room: Int64Array,
    sets: Int64Array,
    nearest: Int64Array,
) -> int:
    """``survey``, for Python: by handle (see ``arrays.handle``)."""
    return survey(opened(Tables, tables), opened(Rankings, rankings), slot, rows, beyond_room, sets, nearest)
