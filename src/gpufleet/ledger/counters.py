"""Counters of pods and cards as Prometheus has them: what each grew within a time, step by step.

A counter that became less began anew. What a counter had before it was first seen counts only where it is
known to have begun within the time: of any other it may be older. A gap changes nothing, since the next value
goes on.
"""

from collections.abc import Hashable, Iterator, Mapping

from gpufleet.ledger.spans import Span, end_us
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.usage.prometheus.answer import CLUSTER
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.window import Window

STEP_S = 300
POINTS_MAX = 2000
"""A longer time has longer steps: a month has some of 22 minutes."""

Reading = tuple[Mapping[str, str], int, float]
"""Labels, the end of a step, and the last value within it."""


class Growth:
    """What counters grew, each by the key that tells it from others."""

    def __init__(self, span: Span) -> None:
        self._from_us = span.from_us
        self._last: dict[Hashable, int] = {}

    def of(self, key: Hashable, at_us: int, now: int, *, is_new: bool) -> int:
        """What the counter grew since its last value; ``is_new`` where it began within the time."""
        before = self._last.get(key)
        self._last[key] = now
        if at_us <= self._from_us:
            return 0
        if before is None:
            return now if is_new else 0
        return now if now < before else now - before


def readings(source: Source, metric: str, labels: str, span: Span) -> Iterator[Reading]:
    """The values of counters with these labels, in order. Raises WorldError."""
    window = window_of(span)
    # The last value of a step, so that a pod that ended within it counts until its last scrape. The largest,
    # as what is scraped twice is one counter.
    promql = f"max by ({labels},{CLUSTER}) (last_over_time({metric}[{window.step_s}s]))"
    for answer in source.over(promql, window, metric):
        for series in answer.series:
            for at_s, value in zip(series.times_s, series.values, strict=True):
                yield series.labels, at_s * US_PER_S, value


def window_of(span: Span) -> Window:
    """Steps of the time, and one before it, from which the first one grows."""
    length_s = (end_us(span) - span.from_us) // US_PER_S
    step_s = max(STEP_S, -(-length_s // (POINTS_MAX * STEP_S)) * STEP_S)
    first_s = span.from_us // US_PER_S // step_s * step_s
    return Window(first_s, max(first_s, end_us(span) // US_PER_S // step_s * step_s), step_s)
