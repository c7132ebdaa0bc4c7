"""What queues lose with victims, and whether each of them has borrowed it when the victim goes.

A *unit* is a pod, or a gang of which all pods go. Units go one after the other, and each may go as long as
its queue, and every queue above that up to its *side* (``reclaim``), has more than its nominal amount of
something that the unit holds and the workload needs. So a queue that uses its own alone loses nothing while
its sibling borrows. What a lender is owed may cost a borrower a whole gang, though it then loses more than it
has borrowed. Where the workload itself would borrow, each of these queues keeps its nominal amount after a
gang has gone: otherwise it would be owed that again at once.

Some order in which all may go exists if, with all of them gone, they can come back one after the other, each
into queues that have then more than their own. With each that is back the next one can only be easier. So as
soon as one unit of a queue can come back, all of that queue can, and the largest ones tell for all.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.model.identifiers import GangName

Amounts = tuple[int, ...]
"""By column that the workload needs."""


class LostUnit(NamedTuple):
    """What a unit is charged, and whether it is a whole gang."""

    charges: Amounts
    is_gang: bool


class Loss(NamedTuple):
    """What one queue loses in all, and those of its units that are charged the most of something."""

    total: Amounts
    largest: tuple[LostUnit, ...]

    def joined(self, other: "Loss") -> "Loss":
        """The losses of two sets of pods of one queue together."""
        total = tuple(map(sum, zip(self.total, other.total, strict=True)))
        return Loss(total, largest_of((*self.largest, *other.largest)))


def largest_of(units: Sequence[LostUnit]) -> tuple[LostUnit, ...]:
    """For each column one that is charged the most of it: of all units, and of the single pods."""
    found: dict[LostUnit, None] = {}
    for among in (units, [unit for unit in units if not unit.is_gang]):
        by_column = zip(*(unit.charges for unit in among), strict=True)
        found |= {among[charges.index(max(charges))]: None for charges in by_column}
    return tuple(found)


def losses_by_queue(
    state: EngineState, columns: Sequence[int], by_queue: Mapping[int, Sequence[int]]
) -> dict[int, Loss]:
    """What each queue loses with the rows that go of it, asked within a trial in which these are gone."""
    return {queue: loss_of(state, columns, rows) for queue, rows in by_queue.items()}


def loss_of(state: EngineState, columns: Sequence[int], rows: Sequence[int]) -> Loss:
    """What a queue loses with these rows."""
    tables = state.store.tables
    charges: Int64Array = tables.shape_charges[tables.pods[layout.POD_SHAPE, list(rows)]][:, list(columns)]
    gangs: dict[GangName, list[int]] = {}
    if state.gangs.by_name:
        for place, row in enumerate(rows):
            name = state.pods.pod_at(row).gang
            if name is not None:
                gangs.setdefault(name, []).append(place)
    # Members that went one by one leave their gang above its minimum; only a gang without any member is one
    # unit.
    whole = [places for name, places in gangs.items() if _is_gone(state, name)]
    units = [LostUnit(tuple(charges[places].sum(axis=0).tolist()), is_gang=True) for places in whole]
    together = {place for places in whole for place in places}
    alone = charges if not together else np.delete(charges, list(together), axis=0)
    if len(alone):
        most = dict.fromkeys(alone.argmax(axis=0).tolist())
        units += [LostUnit(tuple(alone[place].tolist()), is_gang=False) for place in most]
    return Loss(tuple(charges.sum(axis=0).tolist()), largest_of(units))


def _is_gone(state: EngineState, gang: GangName) -> bool:
    """True if no member of a gang has a place, but those that end anyway."""
    members = state.gangs.described(gang)
    if members is None:
        return False
    placed = list(members.placed)
    return not (state.store.tables.pods[layout.POD_NODE, placed] != layout.NOT_SET).any()


class BorrowedLosses:
    """Whether what the queues of one side lose was borrowed; ``is_owed``: the workload takes what it is owed.

    To be asked within a trial in which all of it is gone.
    """

    def __init__(self, tree: QueueTree, columns: Sequence[int], side: int, *, is_owed: bool) -> None:
        self.tree = tree
        self.columns = list(columns)
        self.side = side
        self.is_owed = is_owed
        self._counted: dict[int, list[int]] = {}

    def are_all(self, losses: Mapping[int, Loss]) -> bool:
        """True if some order exists in which every unit goes while its queues have more than their own."""
        rest = dict(losses)
        # Looked at backwards, as units that come back: what has come back only makes it easier for the
        # others.
        while rest:
            back = [queue for queue, loss in rest.items() if self._come_back(queue, loss)]
            if not back:
                return False
            for queue in back:
                del rest[queue]
        return True

    def _come_back(self, queue: int, loss: Loss) -> bool:
        """True if some unit of this queue can come back first; all of them are back then."""
        path = [queue]
        while path[-1] != self.side:
            path.append(int(self.tree.parent[path[-1]]))
        if not any(self._is_borrowed(path, self._last(unit)) for unit in loss.largest):
            return False
        self._counted |= zip(path, self._with(path, loss.total), strict=True)
        return True

    def _last(self, unit: LostUnit) -> Amounts:
        """How much of a unit may be more than was borrowed, and one."""
        if self.is_owed or not unit.is_gang:
            return unit.charges
        # Where the workload would itself borrow, a gang goes only if its queue keeps its own without it.
        return tuple(min(1, amount) for amount in unit.charges)

    def _is_borrowed(self, path: Sequence[int], amounts: Amounts) -> bool:
        """True if each of these queues has more than its own of something, with these amounts back."""
        held = [number for number, amount in enumerate(amounts) if amount > 0]
        for queue, counted in zip(path, self._with(path, amounts), strict=True):
            subtree = self.tree.subtree[queue]
            if not any(counted[number] > subtree[self.columns[number]] for number in held):
                return False
        return True

    def _with(self, path: Sequence[int], amounts: Amounts) -> list[list[int]]:
        """What each of these queues is counted with these amounts back in the first one of them.

        Above a queue only that is counted which it does not keep for itself.
        """
        found: list[list[int]] = []
        more = list(amounts)
        for queue in path:
            before = self._counted_now(queue)
            after = [one + other for one, other in zip(before, more, strict=True)]
            found.append(after)
            kept = self.tree.guaranteed[queue, self.columns].tolist()
            more = [
                max(0, late - keep) - max(0, early - keep)
                for early, late, keep in zip(before, after, kept, strict=True)
            ]
        return found

    def _counted_now(self, queue: int) -> list[int]:
        known = self._counted.get(queue)
        if known is None:
            counted = self.tree.store.tables.queue_counted[queue, self.columns]
            known = self._counted[queue] = counted.tolist()
        return known
