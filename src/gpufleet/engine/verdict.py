"""Why a shape fits nowhere: every node asked once, counted by reason, and the nearest way out.

Costs one pass over the node rows, in compiled code, and is only done after a refusal. What stands
in the way (the ``hurdle``) is judged in ``hurdles``, the words for people are made by ``explanation``.
"""

import numpy as np

from gpufleet.engine import fit, layout, locality
from gpufleet.engine.compiled import kernel, leaf
from gpufleet.engine.fleet import Fleet
from gpufleet.engine.hurdles import NAMES, REASONS, bits_of, lowest
from gpufleet.engine.instruction import Nearest, Verdict
from gpufleet.engine.ranking import Rankings
from gpufleet.engine.reason import GPU_SHORT, HOST_SHORT, NEIGHBOURS
from gpufleet.engine.tables import Int64Array, Tables
from gpufleet.model.identifiers import NodeName

ONLY_ROOM = int(GPU_SHORT | HOST_SHORT)
"""Reasons that go away when enough of what runs there ends."""

BY_NEIGHBOURS = int(NEIGHBOURS)
PASSING = ONLY_ROOM | BY_NEIGHBOURS
"""Reasons that go away when the right pods end."""

SET_REASONS = 0
SET_NODES = 1
SET_COLUMNS = 2

NEAREST_NODE = 0
NEAREST_EQUALS = 1
NEAREST_COLUMNS = 2
PERMILLE = 1000

COLUMN_NAMES = {
    layout.RESOURCE_CPU_MILLI: "cpu_milli",
    layout.RESOURCE_MEMORY_BYTES: "memory_bytes",
    layout.RESOURCE_PODS: "pods",
    layout.RESOURCE_EPHEMERAL_STORAGE_BYTES: "ephemeral_storage_bytes",
}


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
def distance(tables: Tables, shape: int, node: int) -> int:
    """How far the node is from taking the pod: the missing part of each thing asked for, in
    permille, summed up.
    """
    far = 0
    for column in range(tables.shape_resources.shape[1]):
        asked = tables.shape_resources[shape, column]
        missing = asked - tables.resources_free[node, column]
        if asked > 0 and missing > 0:
            far += PERMILLE * min(missing, asked) // asked
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    if count > 0:
        far += PERMILLE * gpus_missing(tables, shape, node) // count
    return int(far)


@leaf
def bars(found: int) -> int:
    """How far the other pods on a node make it; each thing they have against the pod weighs more than
    the lack of any one resource.
    """
    far = 0
    for bit in range(REASONS):
        if found & BY_NEIGHBOURS & (1 << bit) != 0:
            far += 2 * PERMILLE
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
    """Everything against one node, as bits of ``Reason``; ``beyond_room`` has further reasons by node
    row, or is empty.
    """
    shape = rankings.state[slot, layout.RANKING_SHAPE]
    found = rankings.refused[slot, node] | fit.reasons_against(tables, shape, node)
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
    at; ``beyond_room`` has further reasons by node row, or is empty.
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
        if found == 0 or found & ~PASSING != 0:
            continue
        far = distance(tables, shape, node) + bars(found)
        if closest == -1 or far < closest:
            closest = far
            nearest[NEAREST_NODE] = node
            nearest[NEAREST_EQUALS] = 1
        elif far == closest:
            nearest[NEAREST_EQUALS] += 1
    return known


def by_first_reason(sets: dict[int, int]) -> dict[str, int]:
    """Nodes by the name of their lowest reason, each node once."""
    counts = [0] * REASONS
    for found, nodes in sets.items():
        counts[bits_of(found)[0]] += nodes
    return named(counts)


def by_every_reason(sets: dict[int, int]) -> dict[str, int]:
    """Nodes by the names of all their reasons."""
    counts = [0] * REASONS
    for found, nodes in sets.items():
        for bit in bits_of(found):
            counts[bit] += nodes
    return named(counts)


def named(counts: list[int]) -> dict[str, int]:
    """Counts by bit as counts by name, without those that are 0."""
    return {NAMES[bit]: count for bit, count in enumerate(counts) if count}


def shortage(tables: Tables, fleet: Fleet, shape: int, node: int) -> dict[str, int]:
    """What is missing on one node, by name."""
    short: dict[str, int] = {}
    missing_gpus = gpus_missing(tables, shape, node)
    if missing_gpus:
        whole = fit.is_whole(tables, shape)
        short["gpus" if whole else "gpu_shares"] = missing_gpus
    names = COLUMN_NAMES | {column: name for name, column in fleet.resource_columns.items()}
    lacking = tables.shape_resources[shape] - tables.resources_free[node]
    for column, name in names.items():
        if tables.shape_resources[shape, column] > 0 and lacking[column] > 0:
            short[name] = int(lacking[column])
    return short


def barred_by(found: int) -> tuple[str, ...]:
    """The names of what other pods have against the pod."""
    return names_of(found & BY_NEIGHBOURS)


def judge(tables: Tables, rankings: Rankings, fleet: Fleet, slot: int, beyond_room: Int64Array) -> Verdict:
    """Why the slot's shape fits on no node now; ``beyond_room`` has the reasons of neighbours by node
    row, or is empty where there are none.
    """
    rows = fleet.row_count
    found_sets = np.zeros((SET_COLUMNS, rows), np.int64)
    near = np.zeros(NEAREST_COLUMNS, np.int64)
    known = survey(tables, rankings, slot, rows, beyond_room, found_sets, near)
    sets = dict(zip(*found_sets[:, :known].tolist(), strict=True))
    sets.pop(0, None)
    nearest = None
    if near[NEAREST_NODE] != layout.NOT_SET:
        node = int(near[NEAREST_NODE])
        shape = int(rankings.state[slot, layout.RANKING_SHAPE])
        nearest = Nearest(
            node=fleet.node_at(node).name,
            short=shortage(tables, fleet, shape, node),
            equals=int(near[NEAREST_EQUALS]),
            barred_by=barred_by(int(beyond_room[node]) if node < len(beyond_room) else 0),
        )
    return Verdict(
        len(fleet.row_by_name), by_first_reason(sets), by_every_reason(sets), nearest, lowest(sets)
    )


def judge_each(
    tables: Tables, rankings: Rankings, fleet: Fleet, slot: int, beyond_room: Int64Array
) -> dict[NodeName, tuple[str, ...]]:
    """For each node the names of all reasons against it, none for a node that would take the shape now."""
    found = np.zeros(fleet.row_count, np.int64)
    reasons_by_row(tables, rankings, slot, beyond_room, found)
    by_row = found.tolist()
    names = {bits: names_of(bits) for bits in dict.fromkeys(by_row)}
    return {name: names[by_row[row]] for name, row in fleet.row_by_name.items()}


def names_of(found: int) -> tuple[str, ...]:
    """The names of reasons, the first to be told first."""
    return tuple(NAMES[bit] for bit in bits_of(found))
