"""What victims leave beyond what the work needs that they end for: parked work may have it in the same step.

A gang that goes whole, or a large pod, leaves more than a small pod takes. Work that was refused before knows
nothing of that. If it were looked at in the next step only, work behind it in turn would have the rest first,
and would be evicted for it at once. So where some parked line fits once all pods that leave are gone, parked
lines take their turn again, those too that do not fit: work before others keeps its turn.
"""

from itertools import chain, islice

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.victims import EvictionPlan
from gpufleet.engine.queueing.line import Line

WOKEN_MAX = 64
"""So many parked lines have another look for one plan at most: a step must end."""


class LeftOver:
    """Offers what plans leave over to parked lines."""

    def __init__(self, state: EngineState) -> None:
        self.state = state

    def offer(self, plan: EvictionPlan) -> None:
        """Wake parked lines where a plan leaves more than it takes, and that is enough for one of them."""
        state = self.state
        if not state.queues.is_active or self._takes_all(plan):
            return
        if not self._some_fit():
            return
        # A list, because a line that is woken is parked no longer.
        for line in list(islice(state.waiting.parked_lines(), WOKEN_MAX)):
            state.waiting.wake(line.key)
            state.turns.rejoin(line.key.queue)

    def _takes_all(self, plan: EvictionPlan) -> bool:
        """True if each pod that is placed takes the place of an equal one."""
        pods, row_by_uid = self.state.store.tables.pods, self.state.pods.row_by_uid
        gone = [row_by_uid[uid] for uid in plan.victims]
        shapes = sorted(pods[layout.POD_SHAPE, gone].tolist())
        return shapes == sorted(pods[layout.POD_SHAPE, [one.row for one in plan.placements]].tolist())

    def _some_fit(self) -> bool:
        """True if the next workload of a parked line has room and quota once all that leaves is gone."""
        state, waiting = self.state, self.state.waiting
        leaving = Leaving(state)
        has_room: dict[int, bool] = {}

        def fits(line: Line) -> bool:
            workload = state.workloads.first_of(line)
            if not workload.must_start or state.gate.bar(workload.row) is not None:
                return False
            shape = int(state.store.tables.pods[layout.POD_SHAPE, workload.row])
            if shape not in has_room:
                has_room[shape] = bool((leaving.left.shortage(shape) <= 0).all(axis=1).any())
            return has_room[shape] and not state.lacks_quota(workload)

        with state.trial():
            state.future_quota.change(state.future_quota.charges().leaving, -1)
            # Most lines that quota keeps out still are: one compiled pass tells that of all of them.
            may_fit = chain(waiting.parked_but_for_quota(), waiting.kept_out.fitting(state.store))
            return any(fits(line) for line in may_fit if not line.called and waiting.trim(line))
