"""What ``gpufleet cost`` answers from: prices, logs or a cluster, and the time that is asked for."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gpufleet.cli.cost_output import stamp
from gpufleet.cli.parameters import LogSource
from gpufleet.files.lines import BoundedLines
from gpufleet.files.locked_file import locked_to_append
from gpufleet.files.regular import MEBIBYTE, open_regular, read_regular
from gpufleet.files.unpacking import MAGIC
from gpufleet.kube.codec.times import EXPECTED, microseconds
from gpufleet.kube.connection import ClusterChoice
from gpufleet.ledger import log_file
from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.cluster_reading import RIGHTS, cluster_in, seen_in
from gpufleet.ledger.costs import COLUMNS, LABEL
from gpufleet.ledger.interval_log import ByNode, IntervalLog
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.price_files.recognised import book_of, read_prices
from gpufleet.ledger.spans import Span
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError

if TYPE_CHECKING:
    from gpufleet.ledger.database.address import DatabaseAddress
    from gpufleet.ledger.past import Past

Asked = tuple[int | None, int | None]
"""The begin and the end of a time as they were typed; None where none was."""

PRICES_BYTES_MAX = 1024 * MEBIBYTE
"""The price list of AWS for a region has some hundred MiB."""

DAY_US = 86_400_000_000
"""What is asked about where no begin is named."""

SPAN_DAYS_MAX = 3660
"""Ten years: a longer time is a slip of the pen, and hours are worked out one by one."""

ASKED = "the cluster that was asked"
"""How a message names the cluster beside the name of a file."""

BEGINNING_BYTES = 4096
"""The first line of a file of observations is shorter."""

UNPACKED = "a file that can be added to; gunzip it first"
"""What is expected of a file that grows."""

SEALED_MAGIC = b"PAR1"
"""How a sealed month, which is a file in Parquet, begins."""

DATE_LENGTH = len("2026-01-31")
"""A text of this length is a day, which begins at midnight."""


class Known(msgspec.Struct, frozen=True):
    """What happened, until the last moment of which all is known.

    ``cluster`` is the UID of the namespace kube-system; "" where this person may not get it.
    """

    log: IntervalLog
    intervals: ByNode
    until_us: int
    cluster: str
    notes: tuple[str, ...] = ()

    def with_use(self, spans: Iterable[BusySpan], save: Path | None) -> "Known":
        """With measurements of use, which are added to the file where one is named."""
        for span in spans:
            self.log.measure(span)
        if save is not None:
            saved(save, self.log, log_file.Origin(self.cluster, str(save)))
        return msgspec.structs.replace(self, intervals=self.log.by_node())


def groupings(text: str) -> tuple[str, ...]:
    """What the rows are put together by. Raises InputError."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COLUMNS and not (name.startswith(LABEL) and len(name) > len(LABEL)):
            near = nearest(name, COLUMNS)
            words = f"{', '.join(COLUMNS)}, or label:KEY{f'; did you mean {near}?' if near else ''}"
            raise InputError("no such grouping", field="--by", value=name, expected=words)
    return names


def priced(paths: Iterable[Path]) -> tuple[PriceBook, tuple[str, ...]]:
    """The book of all files, and notes on what in them is no price."""
    read = [read_prices(read_regular(path, PRICES_BYTES_MAX, field="--prices"), str(path)) for path in paths]
    return book_of(read), tuple(note for one in read for note in one.notes)


def known(
    logs: Sequence[LogSource],
    save: Path | None,
    choice: ClusterChoice,
    asked: Asked = (None, None),
    past: "Past | None" = None,
) -> Known:
    """What the files say, and of a database the months of the time that is asked for.

    Without either what the cluster says, together with what was saved before; with a past that alone.
    """
    log = IntervalLog()
    notes: tuple[str, ...] = ()
    origin = None
    if logs:
        for source in logs:
            origin = (
                _read(source, log, origin)
                if isinstance(source, Path)
                else _stored(source, asked, log, origin)
            )
    elif past is None:
        seen = seen_in(choice)
        notes = seen.notes
        origin = None if seen.cluster is None else log_file.Origin(seen.cluster, ASKED)
        for one in seen.observations:
            log.take(one)
    elif save is not None and (cluster := cluster_in(choice)) is not None:
        origin = log_file.Origin(cluster, ASKED)
    if past is not None:
        notes = (*notes, *past.notes)
        for one in past.observations:
            log.take(one)
    if save is not None:
        if origin is None:
            raise InputError(
                "you may not get the namespace kube-system, whose UID tells clusters apart",
                field="--save",
                expected=RIGHTS,
            )
        log = saved(save, log, origin)
    cluster = "" if origin is None else origin.cluster
    return Known(log, log.by_node(), log.known_until_us(), cluster, notes)


def saved(save: Path, log: IntervalLog, origin: log_file.Origin) -> IntervalLog:
    """What a file has, with all of a log that it had not: that is added to it."""
    together = IntervalLog()
    with locked_to_append(save) as file:
        beginning = file.beginning(BEGINNING_BYTES)
        if beginning.startswith(MAGIC):
            raise InputError("is packed", field="--save", where=str(save), expected=UNPACKED)
        is_begun = log_file.is_begun(beginning, origin.cluster)
        if is_begun:
            _read(save, together, origin)
        # Only now it is certain that the file is one of ours.
        file.drop_cut_off_line()
        lines = [] if is_begun else [log_file.heading_line(origin.cluster)]
        file.append(b"".join([*lines, *log_file.added(together, log)]))
    return together


def _stored(
    address: "DatabaseAddress", asked: Asked, log: IntervalLog, before: log_file.Origin | None
) -> log_file.Origin:
    from gpufleet.ledger.database.stored_months import read_months

    return read_months(address, *asked, log, before)


def _read(path: Path, log: IntervalLog, before: log_file.Origin | None) -> log_file.Origin:
    if is_parquet(path):
        # DuckDB is loaded for a third of a second, and most answers need no sealed month.
        from gpufleet.ledger.sealed_month import sealed_lines

        return log_file.read_log(sealed_lines(path), str(path), log, before)
    with BoundedLines(path, expected=log_file.EXPECTED) as lines:
        return log_file.read_log(lines, str(path), log, before)


def is_parquet(path: Path) -> bool:
    """Whether a file begins as one in Parquet: a sealed month, or charges."""
    with open_regular(path, expected=log_file.EXPECTED) as file:
        return file.read(len(SEALED_MAGIC)) == SEALED_MAGIC


def span_of(begin_us: int | None, until_us: int | None, known_until_us: int) -> Span:
    """The time that is asked for; nothing after what is known, as it has not been seen. Raises InputError."""
    end_us = known_until_us if until_us is None else min(until_us, known_until_us)
    if begin_us is None:
        begin_us = max(0, end_us - DAY_US)
    if begin_us > end_us:
        expected = "a time before the end, and before the last moment that is known"
        raise InputError(
            "nothing is known since then", field="--from", value=stamp(begin_us), expected=expected
        )
    if end_us - begin_us > SPAN_DAYS_MAX * DAY_US:
        expected = f"at most {SPAN_DAYS_MAX} days before the end"
        raise InputError("too long a time", field="--from", value=stamp(begin_us), expected=expected)
    return Span(begin_us, end_us)


def moment_of(text: str | None, field: str) -> int | None:
    """A time as it was typed, or a day, which begins at midnight; None without one. Raises InputError."""
    if text is None:
        return None
    try:
        return microseconds(f"{text}T00:00:00Z" if len(text) == DATE_LENGTH else text)
    except InputError as error:
        expected = f"{EXPECTED}, or a day such as 2026-01-31"
        raise InputError("not a time", field=field, value=text, expected=expected) from error
