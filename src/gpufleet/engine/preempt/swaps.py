"""One pod for one: what a workload may do where immunity keeps it from what it is owed.

Work that got its place by evicting others is immune to their queues (``lifecycle.eviction_immunity``). That
ends circles of evictions, and may leave a queue without what it is owed. So a pod that is alone may evict
one such pod all the same that is alone too, asks for the same and has no higher priority. It must be just,
the side of the workload must have a smaller share afterwards than the other side had before (``reclaim``),
and the queues of the victim up to that side must keep their nominal amounts.

No circle comes of that. The newcomer is immune to as many queues as its victim was, and has no lower
priority, so the order that ends circles stays as it was or rises. Where it stays, both sides end with a
smaller share than the larger one was, and nothing changes for the queues above them. So level by level from
the root, the shares from the largest down, only ever fall.
"""

from collections.abc import Sequence

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.candidates import NO_SINGLES, Candidates
from gpufleet.engine.preempt.reclaim import Reclaim
from gpufleet.engine.preempt.victims import UnplacedWorkload

SWAPS_MAX = 64
"""So many pods are tried at most: a search must end, and of equal pods of a queue the first one tells."""


class Swaps:
    """The pods that one pod may evict in spite of their immunity, each by itself."""

    def __init__(self, state: EngineState, reclaim: Reclaim, unplaced: UnplacedWorkload) -> None:
        self.state = state
        self.reclaim = reclaim
        self.unplaced = unplaced
        self._share_before: dict[int, list[tuple[bool, int]]] = {}

    def candidates(self) -> Candidates:
        """Pods that are immune to the queue of the workload and may go if shares are closer then."""
        state, row = self.state, self.unplaced.row
        if not self.unplaced.workload.is_single or state.pods.pod_at(row).gang is not None:
            return Candidates(NO_SINGLES, [])
        held = self.reclaim.held_back(self.unplaced.at_us)
        shapes = state.store.tables.pods[layout.POD_SHAPE]
        singles = held.singles
        is_alike = (shapes[singles.rows] == shapes[row]) & (singles.priority <= self.reclaim.rank.priority)
        found = Candidates(singles.at(is_alike), [], held.again_at_us)
        for victim in found.singles.rows.tolist():
            sides = self._sides(victim)
            if sides is not None:
                self._share_before[sides[1]] = self.reclaim.shares.by_resource(sides[1])
        return found

    def is_just(self, victims: Sequence[int]) -> bool:
        """True if this one may go, asked within a trial in which it is gone and the workload is placed."""
        (victim,) = victims
        sides = self._sides(victim)
        if sides is None or not self.reclaim.is_just(victims):
            return False
        mine, theirs = sides
        is_closer = self.reclaim.shares.by_resource(mine) < self._share_before[theirs]
        return is_closer and self._keep_their_own(self._queue_row(victim), theirs)

    def _keep_their_own(self, queue_row: int, side: int) -> bool:
        """True if a queue, and each above it up to its side, has its nominal amounts of what is needed."""
        tree, columns = self.reclaim.tree, self.reclaim.columns
        counted = self.state.store.tables.queue_counted
        path = list(tree.path(queue_row))
        up_to_side = path[: path.index(side) + 1]
        return all(bool((counted[one] >= tree.subtree[one])[columns].all()) for one in up_to_side)

    def _sides(self, victim: int) -> tuple[int, int] | None:
        return self.reclaim.shares.siblings(self.reclaim.row, self._queue_row(victim))

    def _queue_row(self, row: int) -> int:
        return self.reclaim.tree.row_by_name[self.state.queue_of(row)]
