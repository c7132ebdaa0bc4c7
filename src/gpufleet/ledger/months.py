"""Months of UTC, by which files are kept and bills are made."""

import datetime as dt

from gpufleet.ledger.stamps import US_PER_S

DECEMBER = 12
"""The month after it is of the next year."""


def month_of(at_us: int) -> str:
    """The month of a moment, as "2026-11"."""
    return dt.datetime.fromtimestamp(at_us // US_PER_S, dt.UTC).strftime("%Y-%m")


def begin_us(month: str) -> int:
    """When a month begins."""
    return int(dt.datetime.fromisoformat(f"{month}-01T00:00:00+00:00").timestamp()) * US_PER_S


def end_us(month: str) -> int:
    """When a month ends."""
    year, number = map(int, month.split("-"))
    following = (year + 1, 1) if number == DECEMBER else (year, number + 1)
    return begin_us(f"{following[0]:04}-{following[1]:02}")
