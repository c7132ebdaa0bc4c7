"""When the windows of a rollout open, by calendar, clock and zone.

A start that the clock leaps over in spring happens right after the leap; one that it strikes twice in autumn
happens once: so does Debian's cron, whose rules cronsim keeps. ``rollout_step`` asks before a node begins.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from gpufleet.model.model_errors import InputError
from gpufleet.model.rollout_settings import Window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US_PER_S = 10**6
CRON_FIELDS = 5
"""A sixth field would be the second, which no window needs and which programs read differently."""


def check(window: Window) -> None:
    """Raises InputError where a window has no times that a calendar knows, or no zone."""
    try:
        ZoneInfo(window.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        expected = "a name such as Europe/Berlin"
        raise InputError("not a time zone", field="timeZone", value=window.zone, expected=expected) from error
    expected = "five fields of cron, such as 0 22 * * 5"
    if len(window.cron.split()) != CRON_FIELDS:
        raise InputError("not five fields", field="schedule", value=window.cron, expected=expected)
    try:
        # One time is asked for: a schedule such as that of 31 February has none.
        next(CronSim(window.cron, EPOCH))
    except (CronSimError, StopIteration) as error:
        problem = f"no time of a calendar: {error}" if str(error) else "no day of any year"
        raise InputError(problem, field="schedule", value=window.cron, expected=expected) from error


def opening(window: Window, now_us: int) -> int:
    """When the window that is open opened, or the next one opens; microseconds since 1970."""
    # The start of a window that is still open lies less than its length back, in whole seconds. cronsim tells
    # moments that come after the one that is given, hence the whole length.
    since = EPOCH + timedelta(microseconds=now_us) - timedelta(seconds=window.duration_s)
    found = next(CronSim(window.cron, since.astimezone(ZoneInfo(window.zone))))
    return round((found.astimezone(UTC) - EPOCH) / timedelta(microseconds=1))


def is_open(window: Window, now_us: int) -> bool:
    """Whether nodes may begin now."""
    opened_us = opening(window, now_us)
    return opened_us <= now_us < opened_us + window.duration_s * US_PER_S


def may_begin(windows: Sequence[Window], now_us: int) -> bool:
    """Whether a node may begin at this moment; without windows at any."""
    return not windows or any(is_open(one, now_us) for one in windows)


def next_opening(windows: Sequence[Window], now_us: int) -> int | None:
    """When a window opens next; None where there are none, or one is open."""
    if may_begin(windows, now_us):
        return None
    return min(opening(one, now_us) for one in windows)
