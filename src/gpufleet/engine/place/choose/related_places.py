"""A place for a pod that other pods, volumes or its own preferences tie down.

``relations.neighbours`` says which nodes are ruled out and how much the pod prefers the others; the
ordinary kernels choose among the nodes it prefers most. Costs one pass over the nodes a pod.
"""

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.choose.placement import NO_NODES, place_pod_by_handle
from gpufleet.engine.place.choose.policy_state import PolicyState
from gpufleet.engine.place.choose.ranking import best_node_by_handle
from gpufleet.engine.place.relations.neighbours import Neighbours
from gpufleet.engine.policy import ScoringFunction
from gpufleet.engine.queueing.gate import Gate, Narrowed
from gpufleet.engine.state.model_order import Models
from gpufleet.engine.state.pods import PodTable
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.engine.valuation import ONE_GPU
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.shape import Shape

EXCHANGE_MS = 600_000
"""How long a GPU waits for its data to count as much as a GPU that no later work can use: ten minutes.

A pod that would wait longer counts no more, so data never outweighs more than the pod's own GPUs.
"""

MILLI_LEAST = WHOLE_GPU_MILLI // 10
"""What a pod without GPUs counts as: it waits for its data, too."""


class RelatedPlaces:
    """Finds places that agree with the neighbours, and keeps the neighbours informed."""

    def __init__(
        self,
        store: TableStore,
        shapes: ShapeTable,
        pods: PodTable,
        policy: PolicyState,
        neighbours: Neighbours,
        gate: Gate,
    ) -> None:
        self.store = store
        self.shapes = shapes
        self.pods = pods
        self.policy = policy
        self.neighbours = neighbours
        self.gate = gate

    def feasible(self, row: int, within: Int64Array = NO_NODES, *, others: bool = True) -> Int64Array:
        """The nodes that would take the pod now, ascending, among those of ``within`` if any are given.

        ``others`` False leaves out the anti-affinity of pods already placed.
        """
        slot = self.shapes.slot(int(self.store.tables.pods[layout.POD_SHAPE, row]))
        # Also brings the scores up to date.
        best = best_node_by_handle(self.store.handle, self.shapes.rankings_handle, self.policy.handle, slot)
        if best == layout.NOT_SET:
            return NO_NODES
        # The table has rows to spare beyond those of the fleet.
        scores = self.shapes.rankings.scores[slot, : self.neighbours.fleet.row_count]
        welcome = scores != layout.INFEASIBLE
        if len(within):
            only = np.zeros(len(welcome), np.bool_)
            only[within] = True
            welcome &= only
        welcome &= self.neighbours.reasons(row, others=others, within=welcome) == 0
        if len(within):
            return within[welcome[within]]
        return np.flatnonzero(welcome).astype(np.int64)

    def place(self, row: int, within: Int64Array = NO_NODES, only_models: Models = ()) -> bool:
        """Book the pod on the best of the nodes it prefers most; False if none would take it."""
        places = self.gate.in_order(row, within, only_models)
        return any(self._place_where(row, narrowed) for narrowed in places)

    def _place_where(self, row: int, narrowed: Narrowed) -> bool:
        nodes = self.feasible(row, narrowed.nodes)
        if not len(nodes):
            return False
        # A kernel writes into the journal and cannot make it longer.
        self.pods.make_journal_room(1, self.pods.pod_at(row).shape.gpu.count)
        for candidates in self._in_order(row, nodes, narrowed.slot):
            node = place_pod_by_handle(
                self.store.handle,
                self.shapes.rankings_handle,
                self.policy.handle,
                narrowed.slot,
                row,
                candidates,
            )
            if node != layout.NOT_SET:
                self.neighbours.choose_with(row, node)
                self.neighbours.follow(row)
                return True
        return False

    def _in_order(self, row: int, nodes: Int64Array, slot: int) -> list[Int64Array]:
        """The nodes in groups, the best first; inside a group the policy chooses."""
        groups = self._by_preference(row, nodes)
        shape = self.pods.pod_at(row).shape
        if not shape.relations.data.read:
            return groups
        return [part for group in groups for part in self._nearest_data_first(shape, group, slot)]

    def _nearest_data_first(self, shape: Shape, nodes: Int64Array, slot: int) -> list[Int64Array]:
        """The node that is best by score and time to ready together, then the others.

        A policy that knows what a GPU is worth weighs one against the other; another one chooses among the
        nodes that are ready first.
        """
        fleet = self.neighbours.fleet
        ready_ms = fleet.data.ready_ms(shape.relations.data.read, fleet.row_count)
        wait_ms = np.minimum(ready_ms[nodes], EXCHANGE_MS)
        if wait_ms.min() == wait_ms.max():
            return [nodes]
        if ScoringFunction.WORTH not in self.policy.policy.weights:
            return [nodes[wait_ms == one] for one in np.unique(wait_ms)]
        gpu_milli = max(shape.gpu.count * shape.gpu.gpu_milli, MILLI_LEAST)
        cost = wait_ms * gpu_milli * ONE_GPU // (WHOLE_GPU_MILLI * EXCHANGE_MS)
        # Also brings the scores of this slot up to date.
        best_node_by_handle(self.store.handle, self.shapes.rankings_handle, self.policy.handle, slot)
        scores = self.shapes.rankings.scores[slot, nodes]
        # The least there is must not be made less. Of equals the first, so the lowest row, as everywhere.
        best = int(np.argmax(np.where(scores == layout.INFEASIBLE, scores, scores - cost)))
        return [nodes[best : best + 1], np.delete(nodes, best)]

    def _by_preference(self, row: int, nodes: Int64Array) -> list[Int64Array]:
        """The nodes in groups that the pod prefers equally, the best group first."""
        if not self.neighbours.prefers(row):
            return [nodes]
        liking = self.neighbours.preference(row, nodes)
        # ``np.unique`` sorts upwards, and the best is tried first.
        return [nodes[liking == value] for value in np.unique(liking)[::-1]]
