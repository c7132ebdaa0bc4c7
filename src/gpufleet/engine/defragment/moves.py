"""Placing pods somewhere else, on a trial: the one proof that every move rests on."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.defragment.free_capacity import free_whole_gpus, worth
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.shape import GpuRequest


class Move(msgspec.Struct, frozen=True):
    """One pod is ended on ``source``; the one that its controller makes for it fits on ``target``.

    ``lost`` is the work that ends with it, in GPU-milliseconds, counted from its last checkpoint.
    """

    uid: PodUid
    source: NodeName
    target: NodeName
    lost: int


class Relocation(NamedTuple):
    """The pod of a row goes to a place; ``lost`` as in ``Move``."""

    row: int
    place: Placement
    lost: int


def named_moves(state: EngineState, relocations: Sequence[Relocation]) -> tuple[Move, ...]:
    """Relocations of pods that have a place, by name."""
    found: list[Move] = []
    for one in relocations:
        source = state.pods.node_row(one.row)
        if source is not None:
            names = state.fleet.node_at(source).name, state.fleet.node_at(one.place.node).name
            found.append(Move(state.pods.pod_at(one.row).uid, *names, one.lost))
    return tuple(found)


def move_each(state: EngineState, trial: Trial, rows: Sequence[int]) -> dict[int, int] | None:
    """Take pods off their nodes and place them elsewhere, one after the other; their new nodes by row.

    Whole GPUs go to another node, shares at least to another GPU. So each can be moved when those before
    it have been. None if one of them fits nowhere else.
    """
    targets: dict[int, int] = {}
    for row in by_size(state, rows):
        source, held = state.pods.node_row(row), state.pods.device_ids(row)
        trial.release(state.pods.pod_at(row).uid)
        may_stay = not state.pods.pod_at(row).shape.gpu.whole
        target = place_with_least_loss(state, trial, row, None if may_stay else source)
        # Back on the very GPU that it left: that is no move.
        if target is not None and target == source and state.pods.device_ids(row) == held:
            trial.release(state.pods.pod_at(row).uid)
            target = place_with_least_loss(state, trial, row, source)
        if target is None:
            return None
        targets[row] = target
    return targets


def place_elsewhere(state: EngineState, trial: Trial, rows: Sequence[int]) -> dict[int, int] | None:
    """Place pods that were released together; their nodes by row, None if one of them fits nowhere."""
    targets: dict[int, int] = {}
    for row in by_size(state, rows):
        target = place_with_least_loss(state, trial, row)
        if target is None:
            return None
        targets[row] = target
    return targets


def by_size(state: EngineState, rows: Sequence[int]) -> list[int]:
    """The largest first: they find the fewest places."""
    return sorted(rows, key=lambda row: (-state.pods.pod_at(row).shape.gpu.total_milli, row))


def place_with_least_loss(state: EngineState, trial: Trial, row: int, avoid: int | None = None) -> int | None:
    """Place a pod where it breaks up the least room, but not on the node row ``avoid``.

    The node row, None if there is no place.
    """
    nodes = state.related.feasible(row)
    if avoid is not None:
        nodes = nodes[nodes != avoid]
    if any(placed_on(state, trial, row, group) for group in least_broken_up(state, row, nodes)):
        return state.pods.node_row(row)
    return None


def placed_on(state: EngineState, trial: Trial, row: int, nodes: Int64Array) -> bool:
    """True if the pod now has a place on one of these nodes."""
    if state.neighbours.is_watchful and state.neighbours.concerns(row):
        return trial.place_related(row, nodes)
    shape_row = int(state.store.tables.pods[layout.POD_SHAPE, row])
    return trial.place(shape_row, [row], nodes) == 1


def least_broken_up(state: EngineState, row: int, nodes: Int64Array) -> list[Int64Array]:
    """Nodes in groups, those first where the pod breaks up the least room."""
    if not len(nodes):
        return []
    gpu = state.pods.pod_at(row).shape.gpu
    tables = state.store.tables
    free = free_whole_gpus(tables)[nodes]
    taken = np.full(len(nodes), gpu.count, np.int64)
    if not gpu.whole:
        taken[has_begun(state, nodes, gpu)] = 0
    harm = worth(free) - worth(np.maximum(free - taken, 0))
    # By harm, then by row, as the kernels want nodes in ascending order.
    order = np.lexsort((nodes, harm))
    edges = np.flatnonzero(np.diff(harm[order])) + 1
    cuts = [0, *edges.tolist(), len(order)]
    return [nodes[order[first:last]] for first, last in pairwise(cuts)]


def has_begun(state: EngineState, nodes: Int64Array, share: GpuRequest) -> npt.NDArray[np.bool_]:
    """By node, true where a GPU that is shared already has room for such a share."""
    devices = state.store.tables.devices
    begun = (devices[layout.DEVICE_USERS] > 0) & (devices[layout.DEVICE_IDLE_MILLI] >= share.gpu_milli)
    if share.memory_mib is not None:
        begun &= devices[layout.DEVICE_FREE_MIB] >= share.memory_mib
    return np.isin(nodes, devices[layout.DEVICE_NODE][begun])
