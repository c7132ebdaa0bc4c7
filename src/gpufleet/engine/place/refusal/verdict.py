"""Why a shape fits nowhere: every node asked once, counted by reason, and the nearest way out.

``survey`` asks the nodes, and only after a refusal. What the nearest nodes lack (``lacking``) is
judged in ``nearest_nodes``, the words for people are made by ``explanations``.
"""

from collections import defaultdict
from collections.abc import Collection

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.instruction import Nearest, NodesLacking, Verdict
from gpufleet.engine.node_reasons.other_resource import BIT as OTHER_RESOURCE
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.engine.node_reasons.taint import REASON, repelling
from gpufleet.engine.node_reasons.unknown_resource import BIT as UNKNOWN_RESOURCE
from gpufleet.engine.node_reasons.unknown_resource import unknown
from gpufleet.engine.place.refusal.nearest_nodes import lowest
from gpufleet.engine.place.refusal.survey import (
    BY_NEIGHBOURS,
    NEAREST_EQUALS,
    NEAREST_MISSING_GPUS,
    NEAREST_NODE,
)
from gpufleet.engine.place.refusal.survey_cache import SurveyCache
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_unit import GpuUnit, gpu_unit
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node

TAINT = REASON.name
# Nodes of a pool are alike, and of more taints a person reads only the first.
DESCRIBED_MAX = 100

COLUMN_NAMES = {
    layout.RESOURCE_CPU_MILLI: "cpu_milli",
    layout.RESOURCE_MEMORY_BYTES: "memory_bytes",
    layout.RESOURCE_PODS: "pods",
    layout.RESOURCE_EPHEMERAL_STORAGE_BYTES: "ephemeral_storage_bytes",
}


def by_reason(sets: dict[int, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Nodes by the name of their lowest reason, each node once, and by the names of all their reasons."""
    first: defaultdict[int, int] = defaultdict(int)
    every: defaultdict[int, int] = defaultdict(int)
    for found, nodes in sets.items():
        places = TABLE.places(found)
        first[places[0]] += nodes
        for place in places:
            every[place] += nodes
    return by_name(first), by_name(every)


def by_name(counts: dict[int, int]) -> dict[str, int]:
    """Counts by place in the table as counts by name, in the order of the bits."""
    return {TABLE.reasons[place].name: counts[place] for place in sorted(counts, key=TABLE.turns.__getitem__)}


def shortage(store: TableStore, fleet: Fleet, shape: int, node: int, missing_gpus: int) -> dict[str, int]:
    """What is missing on one node, by name."""
    tables = store.tables
    short: dict[str, int] = {}
    if missing_gpus:
        whole = int(tables.shapes[layout.SHAPE_GPU_MILLI, shape]) == WHOLE_GPU_MILLI
        short["gpus" if whole else "gpu_shares"] = missing_gpus
    asked = tables.shape_resources[shape].tolist()
    free = tables.resources_free[node].tolist()
    for column, name in COLUMN_NAMES.items():
        # A node may have given more than it has; a pod that asks for none of it lacks nothing there.
        if asked[column] > max(0, free[column]):
            short[name] = asked[column] - free[column]
    for name, column in fleet.resource_columns.items():
        if asked[column] > max(0, free[column]):
            short[name] = asked[column] - free[column]
    return short


def barred_by(found: int) -> tuple[str, ...]:
    """The names of what other pods have against the pod."""
    return TABLE.names_of(found & BY_NEIGHBOURS)


def asks_for_unknown(shapes: ShapeTable, shape: int, sets: Collection[int]) -> bool:
    """True if every node is short of a resource that no node offers; ``sets`` are the nodes' reasons."""
    if not sets or not all(found & OTHER_RESOURCE for found in sets):
        return False
    return bool(unknown(shapes.shape_at(shape), shapes.fleet.nodes))


def as_unknown(found: int) -> int:
    """The reasons, with "unknown-resource" for what no node offers: no pod's end helps there."""
    return (found & ~OTHER_RESOURCE) | UNKNOWN_RESOURCE


def judge(cache: SurveyCache, slot: int, beyond_room: Int64Array) -> Verdict:
    """Why the slot's shape fits on no node now; ``beyond_room`` has the reasons of neighbours by node
    row, or is empty where there are none.
    """
    store, shapes = cache.store, cache.shapes
    fleet = shapes.fleet
    sets, near = cache.survey(slot, beyond_room)
    shape = int(shapes.rankings.state[slot, layout.RANKING_SHAPE])
    offered_nowhere = asks_for_unknown(shapes, shape, sets)
    if offered_nowhere:
        sets = {as_unknown(found): nodes for found, nodes in sets.items()}
    sets.pop(0, None)
    nearest = None
    if near[NEAREST_NODE] != layout.NOT_SET and not offered_nowhere:
        near = among_offering(cache, slot, shape, near, beyond_room)
    node = int(near[NEAREST_NODE])
    if node != layout.NOT_SET and not offered_nowhere:
        nearest = Nearest(
            node=fleet.node_at(node).name,
            short=shortage(store, fleet, shape, node, int(near[NEAREST_MISSING_GPUS])),
            equals=int(near[NEAREST_EQUALS]),
            barred_by=barred_by(int(beyond_room[node]) if node < len(beyond_room) else 0),
            unit=gpu_unit([fleet.node_at(node)]) if node in fleet.part_rows else GpuUnit.GPU,
        )
    lacking = lowest(sets)
    if lacking is not None and (TAINT in lacking.reasons or fleet.part_rows):
        lacking = described(lacking, shapes, shape, cache.reasons_by_row(slot, beyond_room))
    first, every = by_reason(sets)
    return Verdict(len(fleet.row_by_name), first, every, nearest, lacking)


def among_offering(
    cache: SurveyCache, slot: int, shape: int, near: Int64Array, beyond_room: Int64Array
) -> Int64Array:
    """The nearest node among those that offer each resource asked for by name, if any is near.

    A node that never had the resource comes no nearer when work on it ends, however little it lacks.
    """
    nodes = cache.shapes.fleet.nodes
    asked = {name for name, amount in cache.shapes.shape_at(shape).resources.other if amount}
    if not asked or _offers(nodes[int(near[NEAREST_NODE])], asked):
        return near
    barred = np.zeros(cache.shapes.fleet.row_count, np.int64)
    barred[: len(beyond_room)] = beyond_room[: len(barred)]
    barred[[row for row in range(len(barred)) if not _offers(nodes[row], asked)]] |= UNKNOWN_RESOURCE
    _, found = cache.survey(slot, barred)
    return near if found[NEAREST_NODE] == layout.NOT_SET else found


def _offers(node: Node | None, asked: set[str]) -> bool:
    return node is not None and asked <= {name for name, amount in node.allocatable.other if amount}


def described(lacking: NodesLacking, shapes: ShapeTable, shape: int, found: Int64Array) -> NodesLacking:
    """``lacking`` with the taints that the shape does not tolerate, and with what its nodes give out as GPUs.

    ``found`` has each row's reasons.
    """
    # What no node offers is its own reason in ``lacking``, and stands against every node.
    bits = sum(TABLE.by_name[name].bit for name in lacking.reasons) & ~UNKNOWN_RESOURCE
    same = (found & ~OTHER_RESOURCE) == (bits & ~OTHER_RESOURCE)
    rows = np.flatnonzero(same)[:DESCRIBED_MAX].tolist()
    nodes = [node for row in rows if (node := shapes.fleet.nodes[row]) is not None]
    asked = shapes.shape_at(shape)
    tainted = nodes if TAINT in lacking.reasons else []
    taints = dict.fromkeys(str(one) for node in tainted for one in repelling(asked, node))
    return msgspec.structs.replace(lacking, taints=tuple(taints), unit=gpu_unit(nodes))


def judge_each(cache: SurveyCache, slot: int, beyond_room: Int64Array) -> dict[NodeName, tuple[str, ...]]:
    """For each node the names of all reasons against it, none for a node that would take the shape now."""
    shapes = cache.shapes
    fleet = shapes.fleet
    shape = int(shapes.rankings.state[slot, layout.RANKING_SHAPE])
    by_row = cache.reasons_by_row(slot, beyond_room).tolist()
    if asks_for_unknown(shapes, shape, {by_row[row] for row in fleet.row_by_name.values()}):
        by_row = [as_unknown(one) for one in by_row]
    names = {bits: TABLE.names_of(bits) for bits in {by_row[row]: None for row in fleet.row_by_name.values()}}
    return {name: names[by_row[row]] for name, row in fleet.row_by_name.items()}
