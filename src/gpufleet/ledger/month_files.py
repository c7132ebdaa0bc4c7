"""A folder of months: of each open one a file that grows, of each sealed one Parquet with a checksum.

The file of a month can be read alone: it begins with all that the months before it have to say about its
time. An observation goes to every month that is open, so that a month which has just ended still learns of
what comes late. All steps may be broken off at any moment and are made again by the next process: a file is
a set of observations, and a month is sealed to equal bytes.
"""

from pathlib import Path

from gpufleet.files.atomic_write import make_folder
from gpufleet.files.lines import BoundedLines
from gpufleet.files.locked_file import locked_to_append
from gpufleet.files.regular import open_regular
from gpufleet.ledger import log_file
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.months import begin_us, end_us
from gpufleet.ledger.sealed_month import ENDING, read_sealed, write_sealed
from gpufleet.ledger.stamps import US_PER_S

OPEN_ENDING = ".ledger"
"""How the name of a month that still grows ends."""

SEAL_AFTER_US = 86_400 * US_PER_S
"""A month stays open for a day after its end, for what comes late."""

BEGINNING_BYTES = 4096
"""The first line of a file is shorter."""

THIS_FOLDER = "the folder of the ledger"
"""How a message names what an observation is put together with."""


class MonthFiles:
    """The months of one cluster, with all that open ones have seen in memory."""

    def __init__(self, folder: Path, cluster: str) -> None:
        """Read what is there. Raises InputError for files of another cluster, and FileWriteError."""
        self.folder = folder
        self.cluster = cluster
        make_folder(folder)
        self._logs = {month: self._read(month) for month in self.open_months()}

    def open_months(self) -> list[str]:
        """The months that still grow, oldest first."""
        paths = self.folder.glob(f"????-??{OPEN_ENDING}")
        return sorted(path.name.removesuffix(OPEN_ENDING) for path in paths)

    def sealed_months(self) -> list[str]:
        """The months that change no more, oldest first."""
        paths = self.folder.glob(f"????-??{ENDING}")
        return sorted(path.name.removesuffix(ENDING) for path in paths)

    def size_bytes(self) -> int:
        """How much the files of all months hold."""
        paths = [self._open(month) for month in self.open_months()]
        paths += [self._sealed(month) for month in self.sealed_months()]
        return sum(path.stat().st_size for path in paths)

    @property
    def log(self) -> IntervalLog:
        """What the newest month has seen, and what months before have to say about its time."""
        return self._logs[max(self._logs)]

    def begin(self, month: str) -> None:
        """Make the file of a month have all that older ones say about its time, unless it has it."""
        carried = IntervalLog()
        for older in sorted(self._logs):
            if older < month:
                carried.merge(self._logs[older])
        # Where no month is open, the newest sealed one has what goes on into this month.
        if not self._logs and (sealed := self.sealed_months()):
            carried.merge(read_sealed(self._sealed(sealed[-1]))[0])
        carried.forget(begin_us(month))
        self._logs.setdefault(month, IntervalLog())
        self._append(month, carried)

    def add(self, news: IntervalLog) -> int:
        """Add what is new to every open month; how many observations that was. Raises FileWriteError."""
        return sum([self._append(month, news) for month in sorted(self._logs)])

    def seal(self, now_us: int) -> list[str]:
        """Seal the months that are over, beside the newest one; those that were sealed."""
        done = []
        for month in sorted(self._logs)[:-1]:
            if end_us(month) + SEAL_AFTER_US <= now_us:
                write_sealed(self._sealed(month), self._logs[month], self.cluster)
                # Last, so that a seal that was broken off is made again.
                self._open(month).unlink()
                del self._logs[month]
                done.append(month)
        return done

    def _append(self, month: str, news: IntervalLog) -> int:
        lines = list(log_file.added(self._logs[month], news))
        with locked_to_append(self._open(month)) as file:
            file.drop_cut_off_line()
            begun = log_file.is_begun(file.beginning(BEGINNING_BYTES), self.cluster)
            heading = [] if begun else [log_file.heading_line(self.cluster)]
            if heading or lines:
                file.append(b"".join([*heading, *lines]))
        return len(lines)

    def _read(self, month: str) -> IntervalLog:
        log = IntervalLog()
        path = self._open(month)
        with open_regular(path, expected=log_file.EXPECTED) as file:
            beginning = file.read(BEGINNING_BYTES)
        if log_file.is_begun(beginning, self.cluster):
            origin = log_file.Origin(self.cluster, THIS_FOLDER)
            with BoundedLines(path, expected=log_file.EXPECTED) as lines:
                log_file.read_log(lines, str(path), log, origin)
        return log

    def _open(self, month: str) -> Path:
        return self.folder / f"{month}{OPEN_ENDING}"

    def _sealed(self, month: str) -> Path:
        return self.folder / f"{month}{ENDING}"
