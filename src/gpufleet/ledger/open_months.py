"""Months of observations: those that grow are in memory too, those that are over are sealed.

A month can be read alone: it begins with all that the months before it have to say about its time. An
observation goes to every month that is open, so that a month which has just ended still learns of what comes
late. All steps may be broken off at any moment and are made again by the next process: a month is a set of
observations, and is sealed to equal bytes. ``month_files`` and ``database`` are the two places for months.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from gpufleet.ledger import log_file
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.months import begin_us, end_us
from gpufleet.ledger.stamps import US_PER_S

SEAL_AFTER_US = 86_400 * US_PER_S
"""A month stays open for a day after its end, for what comes late."""


class MonthStore(Protocol):
    """Where the months of one cluster are. Every method raises InputError and WorldError."""

    def open_months(self) -> list[str]:
        """The months that still grow, oldest first."""

    def sealed_months(self) -> list[str]:
        """The months that change no more, oldest first."""

    def size_bytes(self) -> int:
        """How much all months hold."""

    def read_open(self, month: str) -> IntervalLog:
        """What a month that grows has seen."""

    def read_sealed(self, month: str) -> IntervalLog:
        """What a sealed month has seen."""

    def append(self, month: str, lines: Sequence[bytes]) -> bool:
        """Add lines, all or none, also none to begin a month; false where another process has sealed it."""

    def seal(self, month: str, log: IntervalLog) -> None:
        """Seal a month of what it has seen."""

    def close(self) -> None:
        """Let go of what the store holds open."""


class OpenMonths:
    """The months of a store, with all that open ones have seen in memory."""

    def __init__(self, store: MonthStore) -> None:
        """Read what is there. Raises InputError for months of another cluster, and WorldError."""
        self.store = store
        self._logs = {month: store.read_open(month) for month in store.open_months()}
        self._unwritten: defaultdict[str, list[bytes]] = defaultdict(list)

    @property
    def log(self) -> IntervalLog:
        """What the newest month has seen, and what months before have to say about its time."""
        return self._logs[max(self._logs)]

    def open(self) -> list[str]:
        """The months that still grow, oldest first."""
        return sorted(self._logs)

    def log_of(self, month: str) -> IntervalLog | None:
        """What a month has seen; None for one that is not kept. Raises InputError and WorldError."""
        if month in self._logs:
            return self._logs[month]
        return self.store.read_sealed(month) if month in self.store.sealed_months() else None

    def begin(self, month: str) -> None:
        """Make a month have all that older ones say about its time, unless it has it. Raises WorldError."""
        carried = IntervalLog()
        for older in sorted(self._logs):
            if older < month:
                carried.merge(self._logs[older])
        # Where no month is open, the newest sealed one has what goes on into this month.
        if not self._logs and (sealed := self.store.sealed_months()):
            carried.merge(self.store.read_sealed(sealed[-1]))
        carried.forget(begin_us(month))
        self._take(self._logs.setdefault(month, IntervalLog()), month, carried)
        self._write(month)

    def add(self, news: IntervalLog) -> int:
        """Add what is new to every open month; how many observations that was.

        Raises WorldError: what was not written is written with the next news.
        """
        # All are taken before the first is written, as that may fail.
        for month, log in self._logs.items():
            self._take(log, month, news)
        return sum([self._write(month) for month in sorted(self._logs)])

    def seal(self, now_us: int) -> list[str]:
        """Seal the months that are over, beside the newest one; those that were sealed."""
        done = []
        for month in sorted(self._logs)[:-1]:
            if end_us(month) + SEAL_AFTER_US <= now_us:
                self.store.seal(month, self._logs[month])
                del self._logs[month]
                done.append(month)
        return done

    def _take(self, log: IntervalLog, month: str, news: IntervalLog) -> None:
        self._unwritten[month] += log_file.added(log, news)

    def _write(self, month: str) -> int:
        lines = self._unwritten[month]
        is_open = self.store.append(month, lines)
        del self._unwritten[month]
        if not is_open:
            # Another process led meanwhile. What this one knows alone is of a time that is sealed.
            del self._logs[month]
            return 0
        return len(lines)
