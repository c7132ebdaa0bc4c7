"""What the engine decides on a snapshot: the first round of a scheduler that is started on that cluster.

The decisions come from the live scheduler's events and engine, at the moment of the snapshot. They stand in
the file, so that a reader of it can find out whether another version decides otherwise.
"""

import datetime as dt
from collections.abc import Iterator

from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.document import Snapshot, engine_time_us, step_line
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.instruction import AnyInstruction


class Moment:
    """A clock that stands still; nothing that is read from a snapshot waits."""

    def __init__(self, at: dt.datetime) -> None:
        self.at = at

    def monotonic_s(self) -> float:
        """No time has passed."""
        return 0.0

    def now(self) -> dt.datetime:
        """The moment of the snapshot."""
        return self.at

    async def sleep(self, duration_s: float) -> None:
        """A clock that stands still does not wait."""


def first_decisions(
    picture: Picture, settings: Settings, taken_at: dt.datetime
) -> list[list[AnyInstruction]]:
    """What the engine says to each wave of events."""
    engine = engine_of(settings)
    at_us = engine_time_us(taken_at)
    waves = Facts(picture, settings, Moment(taken_at)).waves
    return [engine.step(at_us, wave) for wave in waves]


def moment_of(snapshot: Snapshot) -> dt.datetime:
    """When it was taken."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=snapshot.header.taken_at_us)


def rerun(snapshot: Snapshot) -> Iterator[tuple[int, bytes, bytes]]:
    """Decide again: (number of the step, what the file says, what the engine says now) for every step."""
    decided = first_decisions(snapshot.picture, snapshot.settings, moment_of(snapshot))
    now = [step_line(number, said) for number, said in enumerate(decided, 1)]
    for number in range(1, max(len(now), len(snapshot.steps)) + 1):
        before = snapshot.steps[number - 1] if number <= len(snapshot.steps) else b""
        yield number, before, now[number - 1] if number <= len(now) else b""
