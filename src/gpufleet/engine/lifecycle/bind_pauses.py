"""Pauses of pods of which a bind was refused: one second after the first refusal, twice as long after each
further one, a minute at most. Kube-scheduler does likewise: a bind that never succeeds then costs little.

Each pause is told, so that it can be written down: a new leader recalls it before it hears of the pod.
"""

import heapq

from gpufleet.engine.event import BindRefusalRecalled
from gpufleet.engine.instruction import AnyInstruction, BindPaused
from gpufleet.model.identifiers import PodUid

FIRST_US = 1_000_000
"""What refused a bind, such as a change of the pod, is seen by the watch within less."""

MOST_US = 60_000_000
"""Long enough to spare a server that goes on refusing, short enough once it does not any more."""

DOUBLED_MOST = 10
"""More refusals than this lengthen no pause: it has long reached its limit."""


class BindPauses:
    """By uid how many binds in a row were refused, and by row until when the pod pauses."""

    def __init__(self) -> None:
        self.dues: list[tuple[int, int, int]] = []
        self.refusals: dict[PodUid, int] = {}
        self.recalled: dict[PodUid, int] = {}
        self.unreported: dict[PodUid, BindPaused] = {}

    @property
    def are_pending(self) -> bool:
        """True if something is known of a pod that pauses, paused or will pause."""
        return bool(self.dues or self.refusals or self.recalled or self.unreported)

    def begin(self, row: int, sequence: int, uid: PodUid, at_us: int) -> None:
        """A bind was refused. ``sequence`` is the number of the pod's arrival."""
        until_us = at_us + pause_us(refusals := self.refusals.get(uid, 0) + 1)
        self.refusals[uid] = refusals
        self.unreported[uid] = BindPaused(uid, until_us, refusals)
        heapq.heappush(self.dues, (until_us, sequence, row))

    def recall(self, happened: BindRefusalRecalled, at_us: int) -> None:
        """What was written down before counts for no longer than usual."""
        refusals = max(1, min(happened.refusals, DOUBLED_MOST))
        until_us = min(happened.until_us, at_us + pause_us(refusals))
        if until_us > at_us:
            self.recalled[happened.uid] = until_us
            self.refusals[happened.uid] = refusals

    def resume(self, row: int, sequence: int, uid: PodUid, at_us: int) -> bool:
        """A pod has come: whether it still pauses since before a restart."""
        until_us = self.recalled.pop(uid, at_us)
        if until_us > at_us:
            heapq.heappush(self.dues, (until_us, sequence, row))
        return until_us > at_us

    def take_over(self, at_us: int) -> list[tuple[int, int]]:
        """(Row, number of its arrival) of the pauses that are over."""
        found = []
        while self.dues and self.dues[0][0] <= at_us:
            _, sequence, row = heapq.heappop(self.dues)
            found.append((row, sequence))
        return found

    def next_due_us(self) -> int | None:
        """When the first pause ends."""
        return self.dues[0][0] if self.dues else None

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        self.refusals.pop(uid, None)
        self.recalled.pop(uid, None)
        self.unreported.pop(uid, None)

    def take_instructions(self) -> list[AnyInstruction]:
        """The pauses that began since the last call."""
        told, self.unreported = self.unreported, {}
        return list(told.values())


def pause_us(refusals: int) -> int:
    """How long a pod pauses after so many refusals in a row."""
    return min(MOST_US, FIRST_US << min(refusals - 1, DOUBLED_MOST))
