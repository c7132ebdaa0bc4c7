"""When to look for victims again for work that found none.

A parked line is woken when room was freed that its shape can use. For one that may evict others, other
changes count too: pods that came, pods that were told to end, pods that may be evicted from now on, a queue,
budget or refusal that changed. All of these are counted by ``changes.CHANGES_VICTIMS``; a search that
failed is repeated once after that count has changed, and at the time at which it said that more would be
possible. Where no known pod has a lower priority, as in a fleet without PriorityClasses, nothing is repeated
until one comes.
"""

import heapq
from collections.abc import Iterable

from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.victims import NoEvictionPlan
from gpufleet.engine.queueing.line import Line

SEARCHES_A_STEP_MAX = 64
"""How many failed searches a step repeats at most; the others come in the next steps, in turn."""
SEARCH_ON_AFTER_US = 100_000
"""When the step comes for what one step left over: soon, and after binds that wait meanwhile."""


class SearchRetries:
    """The lines whose search failed, and what had happened until then."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.changes = state.changes.victims
        self._failed_at: dict[Line, int] = {}
        self._due: list[tuple[int, int, Line]] = []
        self._due_us: dict[Line, int] = {}
        self._number = 0
        self._search_on_at_us: int | None = None
        self._least_priority: int | None = None
        self._all_noted_at = -1

    def note(self, line: Line, found: NoEvictionPlan) -> None:
        """A search failed."""
        self._failed_at.pop(line, None)
        if found.lacks_lower_priority:
            # For all such lines together one number is enough: only a pod of lower priority helps any of
            # them.
            self._least_priority = self.state.pods.least_priority
            return
        self._failed_at[line] = self.changes.count
        due_us = found.again_at_us
        if due_us is not None and self._due_us.get(line) != due_us:
            self._number += 1
            self._due_us[line] = due_us
            heapq.heappush(self._due, (due_us, self._number, line))

    def note_alike(self, lines: Iterable[Line]) -> None:
        """The searches for all of these failed, and nothing but a change lets them find more."""
        self._failed_at.update(dict.fromkeys(lines, self.changes.count))

    def wake(self, at_us: int, *, in_vain: bool = False) -> None:
        """Wake the lines whose search may find more than before.

        ``in_vain``: it is certain that no search finds anything by what has happened until now.
        """
        if self._least_priority is not None:
            self._wake_for_lower_priority(self._least_priority)
        departures = self.state.departures
        if departures.refused_until_us and departures.end_refusals(at_us):
            self.state.changes.note(Change.EVICTIONS_ALLOWED)
        while self._due and self._due[0][0] <= at_us:
            due_us, _, line = heapq.heappop(self._due)
            if self._due_us.get(line) == due_us:
                del self._due_us[line]
                # Before every count of changes, so that the line is looked at again.
                self._failed_at[line] = -1
                self._all_noted_at = -1
        self._search_on_at_us = None
        if in_vain:
            self._all_noted_at = self.changes.count
        # Without lines there is nothing to note: a line whose search fails later is noted with its own count.
        if self._failed_at and self._all_noted_at != self.changes.count:
            self._wake_some(at_us)

    def _wake_some(self, at_us: int) -> None:
        """Wake as many of the lines since whose search something has changed as a step may look at."""
        changes = self._all_noted_at = self.changes.count
        searches = 0
        # Without their counts: thousands of pairs would be made for the few lines that are looked at.
        for line in list(self._failed_at):
            beside = line.beside
            if beside is not None and beside.is_called:
                # It takes its turn in this step anyway, and what fails then is noted anew.
                continue
            if not line.parked:
                self.forget(line)
            elif self._failed_at[line] != changes:
                if searches == SEARCHES_A_STEP_MAX:
                    # A step must end; the rest is looked at in the next one.
                    self._search_on_at_us = at_us + SEARCH_ON_AFTER_US
                    self._all_noted_at = -1
                    break
                searches += 1
                self.forget(line)
                self.state.waiting.wake(line.key)

    def _wake_for_lower_priority(self, before: int) -> None:
        """Wake the lines that have a higher priority than some pod, now that a lower one is there."""
        self._least_priority = least = self.state.pods.least_priority
        if least < before:
            for key, line in list(self.state.waiting.lines.items()):
                if line.parked and key.priority > least:
                    self.state.waiting.wake(key)

    def forget(self, line: Line) -> None:
        """A line takes its turn: whether its search fails is not known."""
        self._failed_at.pop(line, None)

    @property
    def are_due(self) -> bool:
        """True if there will be a reason to look again even if nothing happens."""
        refusals = self.state.departures.refused_until_us
        return bool(self._due or refusals or self._search_on_at_us is not None)

    def next_due_us(self) -> int | None:
        """When there is a reason to look again even if nothing happens."""
        if not self.are_due:
            return None
        refusals = self.state.departures.refused_until_us
        dues = [self._search_on_at_us, min(refusals.values(), default=None)]
        if self._due:
            dues.append(self._due[0][0])
        return min((due_us for due_us in dues if due_us is not None), default=None)
