"""Which candidates may go together: of each side no more than it gives justly.

A search that releases the cheapest candidates until a workload fits asks in the end whether it is just to
evict them. Where the side that comes first has borrowed less than the workload is owed, it is not, and the
rest has to come from other sides. So the candidates are gone through once more, and one that could not go
with those before is left out. Which ones that are depends on the order, and no order is the best for all:
the cheapest first; then whole gangs before single pods, which would leave too little for these; then node
by node, so that what falls free lies together, beginning where work of few queues runs.

What a side may still give depends on how much of it has gone, and on the largest of those. So the pods that
are charged the most of something stand for all that are gone: a look costs the same for ten and for
thousands.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.preempt.candidates import Unit
from gpufleet.engine.preempt.capacity_bound import sides_of
from gpufleet.engine.preempt.reclaim import Reclaim


def just_parts(state: EngineState, reclaim: Reclaim, units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Those of these units that may go together, by one order after the other; each choice once."""
    found: list[set[Unit]] = []
    for order in (units, sorted(units, key=lambda unit: -len(unit.rows)), node_by_node(state, units)):
        part = just_part(state, reclaim, order)
        if part and set(part) not in found:
            found.append(set(part))
            yield part


def node_by_node(state: EngineState, units: Sequence[Unit]) -> list[Unit]:
    """The same units, those on one node side by side; nodes with candidates of few queues come first.

    A unit with pods on several nodes is with those on the node of its first one.
    """
    pods = state.store.tables.pods
    on: dict[int, list[Unit]] = {}
    for unit in units:
        on.setdefault(int(pods[layout.POD_NODE, unit.rows[0]]), []).append(unit)
    queues = {node: len({int(pods[layout.POD_QUEUE, unit.rows[0]]) for unit in on[node]}) for node in on}
    return [unit for node in sorted(on, key=queues.__getitem__) for unit in on[node]]


def just_part(state: EngineState, reclaim: Reclaim, units: Sequence[Unit]) -> list[Unit]:
    """Those of these units that may go together, the first rather than the last, in the order in which each
    was found to be just.

    The workload is counted with the least that it is charged. What near queues give comes off what the
    side of the workload has, so far ones are looked at again after them.
    """
    with state.trial() as trial:
        state.future_quota.change(reclaim.least_charged(), 1)
        part = _Part(state, reclaim, trial)
        rest = list(units)
        for _ in range(part.levels(rest)):
            rest = [unit for unit in rest if not part.takes(unit)]
        return part.units


class _Part:
    """Units that are gone, within a trial. ``largest`` has for each side the pods that stand for it."""

    def __init__(self, state: EngineState, reclaim: Reclaim, trial: Trial) -> None:
        self.state = state
        self.reclaim = reclaim
        self.trial = trial
        self.units: list[Unit] = []
        self.rows: list[int] = []
        self.largest: dict[int, list[int]] = {}

    def levels(self, units: Sequence[Unit]) -> int:
        """On how many levels of the tree the sides of these units meet that of the workload, at least 1."""
        sides = self._by_side([row for unit in units for row in unit.rows])
        parent = self.reclaim.tree.parent
        return max(1, len({int(parent[side]) for side in sides if side != layout.NOT_SET}))

    def takes(self, unit: Unit) -> bool:
        """Let a unit go as well, if that is just and disruption budgets allow it."""
        if not self._is_allowed(unit):
            return False
        going = self._by_side(unit.rows)
        by_side = {side: [*rows, *self.largest.get(side, ())] for side, rows in going.items()}
        with self.state.trial() as alone:
            alone.release_all(unit.rows)
            if not self.reclaim.is_just([row for rows in by_side.values() for row in rows]):
                return False
            alone.keep_within(self.trial)
        self.units.append(unit)
        self.rows += unit.rows
        self.largest |= {side: self._most_charged(rows) for side, rows in by_side.items()}
        return True

    def _is_allowed(self, unit: Unit) -> bool:
        budgets, pods = self.state.budgets, self.state.pods
        return not budgets.any_is_known or budgets.allow(map(pods.pod_at, (*self.rows, *unit.rows)))

    def _by_side(self, rows: Sequence[int]) -> dict[int, list[int]]:
        queues = self.state.store.tables.pods[layout.POD_QUEUE, np.array(rows, np.int64)]
        found: dict[int, list[int]] = {}
        for row, side in zip(rows, sides_of(self.reclaim, queues).tolist(), strict=True):
            found.setdefault(side, []).append(row)
        return found

    def _most_charged(self, rows: Sequence[int]) -> list[int]:
        """For each resource one of these pods that is charged the most of it."""
        tables = self.state.store.tables
        charges = tables.shape_charges[tables.pods[layout.POD_SHAPE, list(rows)]]
        return [rows[place] for place in dict.fromkeys(charges.argmax(axis=0).tolist())]
