"""Times: what lies in one, and times put together, cut into pieces, cut to another time, and joined."""

import itertools
from collections.abc import Iterable, Iterator

import msgspec

NEVER_US = 2**62
"""Stands for the end of what has none, as no stamp reaches it."""


class Span(msgspec.Struct, frozen=True):
    """Time from a moment until before another one, in microseconds since 1970; no end means still so."""

    from_us: int
    until_us: int | None = None

    def covers(self, at_us: int) -> bool:
        """True at its moments."""
        return self.from_us <= at_us and (self.until_us is None or at_us < self.until_us)

    def bounds(self) -> tuple[int, ...]:
        """The moments at which something changes by it."""
        return (self.from_us,) if self.until_us is None else (self.from_us, self.until_us)


def pieces(start: int, end: int, changes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """A time, cut wherever something changes in it."""
    inner = {at for at in changes if start < at < end}
    # Most hours of a card have no change.
    return itertools.pairwise(sorted({start, end, *inner}) if inner or start >= end else (start, end))


def joined(spans: Iterable[Span]) -> list[Span]:
    """Spans that touch or overlap as one, in order; empty ones are left out."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.from_us, end_us(one))):
        if span.from_us >= end_us(span):
            continue
        if found and span.from_us <= end_us(found[-1]):
            end = max(end_us(found[-1]), end_us(span))
            found[-1] = Span(found[-1].from_us, None if end == NEVER_US else end)
        else:
            found.append(span)
    return found


def within(span: Span, outer: Span) -> Span:
    """The part of a time that lies in another one; it may be empty, with its end before its begin."""
    end = min(end_us(span), end_us(outer))
    return Span(max(span.from_us, outer.from_us), None if end == NEVER_US else end)


def outside(spans: Iterable[Span], outer: Span) -> list[Span]:
    """The parts of a time that lie in none of the spans."""
    found, start = [], outer.from_us
    for span in joined(within(one, outer) for one in spans):
        if start < span.from_us:
            found.append(Span(start, span.from_us))
        start = end_us(span)
    if start < end_us(outer):
        found.append(Span(start, outer.until_us))
    return found


def end_us(span: Span) -> int:
    """The end, as a number also where there is none."""
    return NEVER_US if span.until_us is None else span.until_us
