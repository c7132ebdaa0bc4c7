"""What reservations have to do with a wait, in plain words: their holders, and until when."""

from gpufleet.engine.instruction import ReservationHint, Verdict
from gpufleet.model.gang import gang_title

SECOND_US = 1_000_000
DAY_S = 86_400
YEAR_2001_US = 1_000_000_000 * SECOND_US
"""A live engine counts from the epoch; one in virtual time counts from the beginning of its story."""
# The calendar is worked out here because the engine imports no clock (``datetime`` is one).
LATEST_YEAR = 9999
LEAP_MONTH = 2
LEAP_DAYS = 366
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def reservation_words(verdict: Verdict) -> list[str]:
    """The holder hears what it waits for, other work for which holder it waits."""
    said = []
    if verdict.reserved is not None:
        start = "to start when the work there ends, at a time that is not known"
        if verdict.reserved.start_us is not None:
            start = f"expected to start {moment_words(verdict.reserved.start_us)}"
        said.append(f"holds a reservation of {nodes_words(verdict.reserved)}, {start}")
        said += guest_words(verdict.reserved)
    if verdict.kept_off_by is not None:
        other = verdict.kept_off_by
        until = "its start is not known"
        if other.start_us is not None:
            until = f"expected to start {moment_words(other.start_us)}"
        holder = gang_title(other.name) if other.holder == other.name else f"pod {other.name}"
        said.append(
            f"waits for {holder} of queue {other.queue}, which holds a reservation of "
            f"{nodes_words(other)}, {until}; work with a run time that ends before, or that may be "
            "interrupted, may run there"
        )
    return said


def guest_words(hint: ReservationHint) -> list[str]:
    """Which guests end for the holder's sake, nothing if there are none."""
    if not hint.guests:
        return []
    ending = "1 guest ends" if hint.guests == 1 else f"{hint.guests} guests end"
    return [f"{ending} for its sake as soon as it can start"]


def nodes_words(hint: ReservationHint) -> str:
    """How many nodes."""
    return f"{hint.nodes} node{'' if hint.nodes == 1 else 's'}"


def moment_words(at_us: int) -> str:
    """A moment of engine time: in UTC, or since the beginning where time is virtual."""
    if at_us < YEAR_2001_US:
        return f"after {at_us / SECOND_US:.12g} s"
    days, second = divmod(at_us // SECOND_US, DAY_S)
    return f"at {second // 3600:02}:{second // 60 % 60:02} UTC on {date_words(days)}"


def date_words(days: int) -> str:
    """The date so many days after 1970 began, by the Gregorian calendar."""
    year = 1970
    # At most some eight thousand rounds, for words that are made when they are asked for.
    while year < LATEST_YEAR and days >= days_of(year):
        days -= days_of(year)
        year += 1
    for month, length in enumerate(MONTH_DAYS, start=1):
        in_month = length + int(month == LEAP_MONTH and days_of(year) == LEAP_DAYS)
        if days < in_month:
            return f"{year}-{month:02}-{days + 1:02}"
        days -= in_month
    return "a day after the year 9999"


def days_of(year: int) -> int:
    """How many days a year has."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return LEAP_DAYS if is_leap else LEAP_DAYS - 1
