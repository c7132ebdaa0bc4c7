"""Gangs that are bound in part and cannot be completed: what is taken back, and when.

When a gang still lacks members at its deadline, those that have a controller are evicted (``eviction``): the
controller makes them anew and the gang starts again, whole. A bare pod would be lost for good, so it stays,
with the reason, unless its group asks for deletion. A gang with its last members on their way to their nodes
at that moment is left alone, unless that fails. For a gang that a new leader finds short, the deadline counts
from the time at which the API server noted the first member as scheduled; one that becomes short later (a
kubelet rejected a member, or a member failed) has its whole time from then on, however long it has run: that
of its grace period if it was whole (``gang_book``). The deadline is turned into our own monotonic time once,
when the gang is first seen short, so that a jump of the wall clock moves no deadline.
"""

import msgspec

from gpufleet.cluster.pods.gang_book import HalfBound
from gpufleet.eviction.evictions import Evictions
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import GangName
from gpufleet.scheduler.ending import STAYS, TRY_AGAIN_S, end_pod
from gpufleet.scheduler.reporting import Reporter

REASON = "GangIncomplete"
"""The reason that people read in Events."""


class _Watch(msgspec.Struct):
    due_s: float
    told: bool = False
    is_completed: bool = False


class GangDeadlines:
    """Watches gangs that are half bound and takes them back past their deadline."""

    def __init__(self, evictions: Evictions, reporter: Reporter, clock: Clock) -> None:
        self.evictions = evictions
        self.reporter = reporter
        self.clock = clock
        self._watches: dict[GangName, _Watch] = {}
        self._taken_over = False

    def regard(self, gangs: list[HalfBound]) -> list[GangName]:
        """Take all gangs that are half bound now. Returns the gangs that are taken back from now on."""
        begun: list[GangName] = []
        now_s, now = self.clock.monotonic_s(), self.clock.now()
        names = {gang.gang for gang in gangs}
        for name in [name for name in self._watches if name not in names]:
            del self._watches[name]
        for gang in gangs:
            watch = self._watches.get(gang.gang)
            if watch is None:
                # Once we lead we see a gang become short in the moment in which it does.
                since = now if self._taken_over or gang.since is None else gang.since
                elapsed_s = (now - since).total_seconds()
                left_s = min(gang.deadline_s, max(0.0, gang.deadline_s - elapsed_s))
                watch = self._watches[gang.gang] = _Watch(now_s + left_s)
            watch.is_completed = gang.is_completed
            if watch.due_s <= now_s and not watch.is_completed:
                if not watch.told:
                    begun.append(gang.gang)
                self._take_back(gang, first=not watch.told)
                watch.told = True
                watch.due_s = now_s + TRY_AGAIN_S
        self._taken_over = True
        return begun

    def next_due_s(self) -> float | None:
        """When the next deadline passes; what comes of a member that is on its way is heard of anyway."""
        dues = (watch.due_s for watch in self._watches.values() if not watch.is_completed)
        return min(dues, default=None)

    def _take_back(self, gang: HalfBound, *, first: bool) -> None:
        bound = len(gang.members) + gang.ending
        note = f"gang {gang.gang} has {bound} of {gang.min_members} members placed past its deadline"
        for member in gang.members:
            if member.may_be_taken:
                end_pod(self.evictions, member, "gang-incomplete")
                if first:
                    self.reporter.warns(member.pod, REASON, f"{note}; it is taken back to start again")
            elif first:
                self.reporter.warns(member.pod, REASON, f"{note}; {STAYS}")
