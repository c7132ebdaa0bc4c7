"""Times put together: cut to another time, and joined where they touch."""

from collections.abc import Iterable

from gpufleet.ledger.buckets import Span

NEVER_US = 2**62
"""Stands for the end of what has none, as no stamp reaches it."""


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


def end_us(span: Span) -> int:
    """The end, as a number also where there is none."""
    return NEVER_US if span.until_us is None else span.until_us
