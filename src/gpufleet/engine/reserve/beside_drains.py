"""Work may start on a node that is being drained if it ends before the node can be empty anyway.

A drain waits for work whose known end comes before its moment. The GPUs that are free beside such work would
stay empty until then. Work that says how long it runs, or has a limit, may use them if it has ended by the
last of these ends: the drain is as long as without it. Work whose end is not known, or only learned, stays
off: the drain would have to move it.
"""

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.engine.reserve.expected_ends import ExpectedEnds


class BesideDrains:
    """Places work that delays no drain."""

    def __init__(self, state: EngineState, ends: ExpectedEnds) -> None:
        self.state = state
        self.ends = ends

    def place(self, unplaced: UnplacedWorkload) -> list[int]:
        """Place a workload beside work that drains wait for; the rows placed, none if it cannot start."""
        state = self.state
        if not state.fleet.draining_rows:
            return []
        end_us = self._end_us(unplaced)
        if end_us is None:
            return []
        draining = sorted(state.fleet.draining_rows)
        rows = [row for row in draining if end_us <= self._busy_until_us(row, unplaced.at_us)]
        if not rows:
            return []
        with state.shapes.opened(rows), state.trial() as trial:
            placed = unplaced.workload.place(trial)
            if placed:
                trial.keep()
        return placed

    def _end_us(self, unplaced: UnplacedWorkload) -> int | None:
        """When all of a workload has ended if it begins now, None if that is not known."""
        ends_us = [self.ends.end_if_started_us(row, unplaced.at_us) for row in unplaced.rows]
        return None if None in ends_us else max((one for one in ends_us if one is not None), default=None)

    def _busy_until_us(self, node_row: int, at_us: int) -> int:
        """The last end that the drain of a node waits for; now where it waits for none."""
        until_us = self.state.fleet.node_at(node_row).draining_until_us
        if until_us is None:
            return at_us
        ends_us = (self.ends.end_us(row, at_us) for row in self.state.pods.on_node.get(node_row, ()))
        return max((one for one in ends_us if one is not None and one <= until_us), default=at_us)
