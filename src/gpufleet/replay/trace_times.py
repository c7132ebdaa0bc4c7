"""When a recorded task was created and how long it ran.

A list may say it in one of three ways: not at all, as the time of creation with a duration, or
as the times of creation, start and end. A task that has a place for its start but none written
in it never started; how long it would have run is then unknown, not zero, and its end is when it
was withdrawn.
"""

from collections.abc import Set as AbstractSet

import msgspec

from gpufleet.model.model_errors import InputError
from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.trace_cells import time_us


class Times(msgspec.Struct, frozen=True):
    """The times of one task in microseconds; None if the trace does not say, or it does not apply."""

    created_at_us: int
    duration_us: int | None = None
    withdrawn_at_us: int | None = None


class RecordedTimes(msgspec.Struct, frozen=True):
    """Reads the time cells of a list that has these columns."""

    has_creation: bool
    has_start: bool

    def read(self, cells: tuple[str, ...]) -> Times:
        """The times in ``cells``: creation_time, scheduled_time, deletion_time and duration_s."""
        created, scheduled, deleted, duration = cells
        created_us = time_us(created, "creation_time") if self.has_creation else 0
        if duration:
            return Times(created_us, _stated_us(duration, deleted))
        start_us, start, start_column = created_us, created, "creation_time"
        if scheduled:
            start_us, start, start_column = (
                time_us(scheduled, "scheduled_time"),
                scheduled,
                "scheduled_time",
            )
            if start_us < created_us:
                raise _out_of_order("scheduled_time", scheduled, "creation_time", created)
        if not deleted:
            return Times(created_us)
        end_us = time_us(deleted, "deletion_time")
        if end_us < start_us:
            raise _out_of_order("deletion_time", deleted, start_column, start)
        if self.has_start and not scheduled:
            return Times(created_us, withdrawn_at_us=end_us)
        return Times(created_us, end_us - start_us)


def check_time_columns(present: AbstractSet[str], file: str) -> None:
    """Raises if a list says when tasks started or ended but not when they were created."""
    for column in ("scheduled_time", "deletion_time"):
        if column in present and "creation_time" not in present:
            raise TraceError(
                "column missing: creation_time",
                file=file,
                column="creation_time",
                expected=f"creation_time beside {column}, or duration_s alone",
            )


def _stated_us(duration: str, deleted: str) -> int:
    if deleted:
        raise InputError(
            "a duration and an end",
            field="duration_s",
            value=duration,
            expected="only one of duration_s and deletion_time in a row",
        )
    return time_us(duration, "duration_s")


def _out_of_order(column: str, value: str, earlier: str, since: str) -> InputError:
    return InputError(f"is before {earlier}", field=column, value=value, expected=f"{since} or later")
