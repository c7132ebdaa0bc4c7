"""Which candidates may go together: of each side no more than it gives justly.

A search that releases the cheapest candidates until a workload fits asks in the end whether it is just to
evict them. Where the side that comes first has borrowed less than the workload is owed, it is not, and the
rest has to come from other sides. So the candidates are gone through once more, and one that could not go
with those before is left out. Which ones that are depends on the order, and no order is the best for all:
the cheapest first; then whole gangs before single pods, which would leave too little for these; then node
by node, so that what falls free lies together, beginning where work of few queues runs.

What a queue may still give depends on how much of it has gone, and on the largest of those units
(``losses``). So a look costs the same for ten and for thousands.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.preempt.candidates import Unit
from gpufleet.engine.preempt.capacity_bound import sides_of
from gpufleet.engine.preempt.losses import Loss
from gpufleet.engine.preempt.reclaim import Reclaim


def reclaimable_subsets(state: EngineState, reclaim: Reclaim, units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """The sets of units that may go together, by one order after the other; each choice once."""
    found: list[set[Unit]] = []
    # No order is the best for all; the head of this module says what each is for.
    for order in (units, sorted(units, key=lambda unit: -len(unit.rows)), node_by_node(state, units)):
        part = reclaimable_subset(state, reclaim, order)
        if part and set(part) not in found:
            found.append(set(part))
            yield part


def node_by_node(state: EngineState, units: Sequence[Unit]) -> list[Unit]:
    """All these units, those on one node side by side; nodes with candidates of few queues come first.

    A unit with pods on several nodes is with those on the node of its first one.
    """
    pods = state.store.tables.pods
    on: dict[int, list[Unit]] = {}
    for unit in units:
        on.setdefault(int(pods[layout.POD_NODE, unit.rows[0]]), []).append(unit)
    queues = {node: len({int(pods[layout.POD_QUEUE, unit.rows[0]]) for unit in on[node]}) for node in on}
    return [unit for node in sorted(on, key=queues.__getitem__) for unit in on[node]]


def reclaimable_subset(state: EngineState, reclaim: Reclaim, units: Sequence[Unit]) -> list[Unit]:
    """The units that may go together, the first rather than the last, in the order in which each
    was found to be just.

    The workload is counted with the least that it is charged. What near queues give comes off what the
    side of the workload has, so far ones are looked at again after them.
    """
    with state.trial() as trial:
        state.future_quota.change(reclaim.least_charged(), 1)
        part = _Subset(state, reclaim, trial)
        rest = list(units)
        # Each round may make just what was not before, once a level.
        for _ in range(part.levels(rest)):
            rest = [unit for unit in rest if not part.takes(unit)]
        return part.units


class _Subset:
    """Units that are gone, within a trial; ``gone`` is what each queue has lost with them."""

    def __init__(self, state: EngineState, reclaim: Reclaim, trial: Trial) -> None:
        self.state = state
        self.reclaim = reclaim
        self.trial = trial
        self.units: list[Unit] = []
        self.rows: dict[int, None] = {}
        self.gone: dict[int, Loss] = {}

    def levels(self, units: Sequence[Unit]) -> int:
        """On how many levels of the tree the sides of these units meet that of the workload, at least 1."""
        rows = np.array([row for unit in units for row in unit.rows], np.int64)
        sides = sides_of(self.reclaim, self.state.store.tables.pods[layout.POD_QUEUE, rows])
        above = self.reclaim.tree.parent[sides[sides != layout.NOT_SET]]
        return max(1, len(np.unique(above)))

    def takes(self, unit: Unit) -> bool:
        """Let a unit go as well, if that is just and disruption budgets allow it."""
        if not self._is_allowed(unit):
            return False
        # Members that went one by one are not taken again with their gang.
        going = [row for row in unit.rows if row not in self.rows]
        with self.state.trial() as alone:
            alone.release_all(going)
            if not self.reclaim.is_just(going, self.gone):
                return False
            for queue_row, loss in self.reclaim.losses(going).items():
                before = self.gone.get(queue_row)
                self.gone[queue_row] = loss if before is None else before.joined(loss)
            # It stays gone for the units after it.
            alone.keep_within(self.trial)
        self.units.append(unit)
        self.rows |= dict.fromkeys(going)
        return True

    def _is_allowed(self, unit: Unit) -> bool:
        budgets, pods = self.state.budgets, self.state.pods
        return not budgets.any_is_known or budgets.allow(
            map(pods.pod_at, self.rows | dict.fromkeys(unit.rows))
        )
