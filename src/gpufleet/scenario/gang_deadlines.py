"""Gangs of a scenario that must be whole again within a time, and what the engine hears of them.

A cluster tells the engine when a gang that ran has fewer running members than it needs, and when it has
enough again; the engine ends what is left of it when the time is over. ``scenario_engine`` asks here after
each start and end.
"""

from collections.abc import Sequence

from gpufleet.engine import event
from gpufleet.model.identifiers import PodUid
from gpufleet.model.violation import GangIncomplete, GangMember
from gpufleet.scenario.work import Work


class GangDeadlines:
    """Which gangs were whole once, and which of them are short of members now."""

    def __init__(self) -> None:
        self._was_whole: set[str] = set()
        self._short: dict[str, GangIncomplete] = {}

    def deadline_events(self, work: Work, running: Sequence[PodUid]) -> list[event.Event]:
        """What the engine is to hear of work of which these pods run; nothing for work without a deadline."""
        if work.gang is None or work.whole_within_us is None:
            return []
        before = self._short.pop(work.name, None)
        least = work.gang.min_members
        if len(running) >= least:
            self._was_whole.add(work.name)
        if not running or len(running) >= least or work.name not in self._was_whole:
            return [] if before is None else [event.ViolationEnded(before)]
        members = tuple(GangMember(uid, may_be_ended=True) for uid in running)
        now = GangIncomplete(work.gang.name, least, len(running), members, work.whole_within_us)
        self._short[work.name] = now
        return [event.ViolationFound(now)]
