"""Lines that quota keeps out are refused together where each would be refused in its turn.

When quota falls free, every line that would fit into it takes its turn, and the first few use it up. What is
left of them then waits as before: a visit to each changes nothing but when the search for victims and the
reservations look at it again. Where that is so for all work that is left in the cycle, the cycle ends with
one look at all of it. ``cycle`` asks after a refusal, and goes on in turns where this does not hold.
"""

from itertools import chain

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.search_retries import SearchRetries
from gpufleet.engine.preempt.victims import NoVictims, VictimSearch
from gpufleet.engine.queueing.line import CalledLines, Line
from gpufleet.engine.reserve.reservations import Reservations


class RefusedTogether:
    """Tells when all work that is left in a cycle is kept out by quota and nothing can be done for it."""

    def __init__(
        self,
        state: EngineState,
        victims: VictimSearch,
        reservations: Reservations,
        search_retries: SearchRetries,
    ) -> None:
        self.state = state
        self.victims = victims
        self.evicts = not isinstance(victims, NoVictims)
        self.reservations = reservations
        self.search_retries = search_retries
        self._at_us = 0
        self._refusals = 0
        self._look_at = 1

    def is_all_that_is_left(self, refused: Line, at_us: int) -> bool:
        """True if every line whose turn is still to come would be refused as this one was; all are then.

        The look at all lines costs something, so it is made at the first, the second, the fourth refusal
        of a moment, and so on.
        """
        if at_us != self._at_us:
            self._at_us, self._refusals, self._look_at = at_us, 0, 1
        if refused not in self.state.waiting.kept_out:
            return False
        self._refusals += 1
        if self._refusals < self._look_at:
            return False
        # Doubling makes the looks cost no more than the refusals do.
        self._look_at = 2 * self._refusals
        if not self._lack_quota():
            return False
        waiting = self.state.waiting
        settled = [together for together in waiting.called.values() if together.is_settled]
        others = [together.left() for together in waiting.called.values() if not together.is_settled]
        # Pods that wait no more are dropped first: a line may end with them.
        lines = waiting.trimmed([*chain.from_iterable(others), *waiting.awake()])
        if not self._find_no_victims(lines, settled):
            return False
        if not self.reservations.none_is_near(lines, settled, at_us):
            return False
        self._refuse(lines, settled)
        return True

    def _lack_quota(self) -> bool:
        """True if nothing but quota, and quota, keeps out every line that still takes part."""
        queues, waiting = self.state.queues, self.state.waiting
        if queues.tree.has_admitted_namespaces or queues.drained_at:
            return False
        if not all(map(self._is_kept_out, waiting.awake())):
            return False
        for line in waiting.kept_out.fitting(self.state.store):
            if line.called:
                return False
        return True

    def _is_kept_out(self, line: Line) -> bool:
        """True if quota keeps out a line that is not parked, of a queue in which none holds back others."""
        waiting = self.state.waiting
        queue = waiting.queues.get(line.key.queue)
        if queue is None or queue.strict or line.key.gang is not None:
            return False
        if not waiting.trim(line):
            return True
        row = line.waiting[0][-1]
        return self.state.gate.keeps_out(row) and self.state.gate.bar(row) is None

    def _find_no_victims(self, lines: list[Line], settled: list[CalledLines]) -> bool:
        queues, victims = self.state.waiting.queues, self.victims
        # Loops: a generator that is asked for thousands of lines takes several times as long.
        kinds = dict.fromkeys([(line.key.queue, line.key.priority) for line in lines])
        for together in settled:
            kinds.update(dict.fromkeys(together.kinds))
        if victims.finds_none_in_fleet([(queues[name], priority) for name, priority in kinds], self.state):
            return True
        for name, priority in kinds:
            if not victims.finds_none(priority, queues[name], self.state, lacks_quota=True):
                return False
        return True

    def _refuse(self, lines: list[Line], settled: list[CalledLines]) -> None:
        """What a visit to each of these changes."""
        waiting = self.state.waiting
        if self.evicts:
            self.search_retries.note_alike(chain(*[together.lines for together in settled], lines))
        if waiting.parked_by_shape:
            self._take_from_those_that_lack_room()
        for line in lines:
            if not line.parked:
                self.state.keep_out(line, self.state.workloads.first_of(line))
        for together in waiting.called.values():
            if not together.is_settled:
                together.settle()

    def _take_from_those_that_lack_room(self) -> None:
        """Lines that were called lack quota alone by now: room does not help them."""
        waiting = self.state.waiting
        called = [line for together in waiting.called.values() for line in together.left()]
        for line in called:
            if waiting.waits_for_room(line.key):
                waiting.wake(line.key)
                self.state.keep_out(line, self.state.workloads.first_of(line))
