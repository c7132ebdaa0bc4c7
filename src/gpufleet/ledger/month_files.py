"""A folder of months: of each open one a file that grows, of each sealed one Parquet with a checksum."""

from collections.abc import Sequence
from pathlib import Path

from gpufleet.files.atomic_write import make_folder
from gpufleet.files.lines import BoundedLines
from gpufleet.files.locked_file import locked_to_append
from gpufleet.files.regular import open_regular
from gpufleet.ledger import log_file
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.sealed_month import ENDING, read_sealed, write_sealed

OPEN_ENDING = ".ledger"
"""How the name of a month that still grows ends."""

BEGINNING_BYTES = 4096
"""The first line of a file is shorter."""

THIS_FOLDER = "the folder of the ledger"
"""How a message names what an observation is put together with."""


class MonthFiles:
    """The months of one cluster as files. Writing raises FileWriteError."""

    def __init__(self, folder: Path, cluster: str) -> None:
        """Make the folder if it is not there. Raises FileWriteError."""
        self.folder = folder
        self.cluster = cluster
        make_folder(folder)

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

    def read_open(self, month: str) -> IntervalLog:
        """What a month that grows has seen. Raises InputError for one of another cluster."""
        log = IntervalLog()
        path = self._open(month)
        with open_regular(path, expected=log_file.EXPECTED) as file:
            beginning = file.read(BEGINNING_BYTES)
        if log_file.is_begun(beginning, self.cluster):
            origin = log_file.Origin(self.cluster, THIS_FOLDER)
            with BoundedLines(path, expected=log_file.EXPECTED) as lines:
                log_file.read_log(lines, str(path), log, origin)
        return log

    def read_sealed(self, month: str) -> IntervalLog:
        """What a sealed month has seen. Raises InputError for one that was changed."""
        return read_sealed(self._sealed(month))[0]

    def append(self, month: str, lines: Sequence[bytes]) -> bool:
        """Add lines to a month, which begins with the first; false for one that is sealed and gone."""
        path = self._open(month)
        if not path.exists() and self._sealed(month).exists():
            return False
        with locked_to_append(path) as file:
            file.drop_cut_off_line()
            begun = log_file.is_begun(file.beginning(BEGINNING_BYTES), self.cluster)
            heading = [] if begun else [log_file.heading_line(self.cluster)]
            if heading or lines:
                file.append(b"".join([*heading, *lines]))
        return True

    def seal(self, month: str, log: IntervalLog) -> None:
        """Write the month as Parquet, and remove the file that grew."""
        write_sealed(self._sealed(month), log, self.cluster)
        # Last, so that a seal that was broken off is made again.
        self._open(month).unlink()

    def close(self) -> None:
        """Nothing is held open."""

    def _open(self, month: str) -> Path:
        return self.folder / f"{month}{OPEN_ENDING}"

    def _sealed(self, month: str) -> Path:
        return self.folder / f"{month}{ENDING}"
