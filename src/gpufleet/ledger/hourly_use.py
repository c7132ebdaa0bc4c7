"""Measured use for a ledger that runs: each hour of the clock is asked of a Prometheus once it is over.

What was measured before is in the months, so a ledger that is started again goes on from there. A day is
made up for at most: a Prometheus that was away for longer leaves time unmeasured, and ``gpufleet cost
--prometheus`` can still ask for it.
"""

from collections.abc import Callable, Iterator

from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.measured_use import measured_use
from gpufleet.ledger.months import end_us as month_end_us
from gpufleet.ledger.months import month_of
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.ledger.spans import Span, end_us
from gpufleet.ledger.stamps import DAY_US, US_PER_S
from gpufleet.usage.prometheus.client import Source

LATE_US = 600 * US_PER_S
"""So long after an hour's end all of its samples are there."""

AGAIN_US = 300 * US_PER_S
"""After a server did not answer."""


class HourlyUse:
    """Measures hours in their order."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._done_us: int | None = None
        self._not_before_us = 0

    def is_due(self, now_us: int) -> bool:
        """Whether an hour is over that has not been measured."""
        return now_us >= self._not_before_us and _over_us(now_us) > (self._done_us or 0)

    def measure(self, log_of: Callable[[str], IntervalLog | None], now_us: int) -> IntervalLog:
        """The measurements of all hours that are over; ``log_of`` is what a month has seen.

        Raises InputError and WorldError: then nothing is measured, and the next call is for later.
        """
        self._not_before_us = now_us + AGAIN_US
        found = IntervalLog()
        until_us = _over_us(now_us)
        for span in _by_month(self._from_us(log_of, until_us), until_us):
            log = log_of(month_of(span.from_us))
            if log is not None:
                for one in measured_use(self._source, log.by_node(), span):
                    found.measure(one)
        self._done_us = until_us
        return found

    def _from_us(self, log_of: Callable[[str], IntervalLog | None], until_us: int) -> int:
        """The end of what is measured, at most a day ago."""
        if self._done_us is not None:
            return max(self._done_us, until_us - DAY_US)
        log = log_of(month_of(until_us - 1))
        ends = [] if log is None else [end_us(one.span) for one in log.busy()]
        last_us = max(ends, default=0)
        # An hour whose end was measured is whole; of another one all is measured again.
        return max(last_us // HOUR_US * HOUR_US, until_us - DAY_US)


def _over_us(now_us: int) -> int:
    """The end of the last hour of which all samples are there."""
    return (now_us - LATE_US) // HOUR_US * HOUR_US


def _by_month(from_us: int, until_us: int) -> Iterator[Span]:
    while from_us < until_us:
        end = min(until_us, month_end_us(month_of(from_us)))
        yield Span(from_us, end)
        from_us = end
