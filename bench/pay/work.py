"""The work that is measured: a month from its file of observations to sums, and to a file of charges."""

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.pay import months
from gpufleet.files.lines import BoundedLines
from gpufleet.ledger.charges import ChargesHeading, write_charges
from gpufleet.ledger.cost_rows import CostRow, hours_of, rows_of
from gpufleet.ledger.costs import cost_of
from gpufleet.ledger.interval_log import ByNode, IntervalLog
from gpufleet.ledger.log_file import EXPECTED, read_log
from gpufleet.ledger.spans import Span

MIB = 1 << 20
Spent = tuple[float, float]
"""Seconds of a core, and MiB of memory at the most."""


def span_of(days: int) -> Span:
    """The time of the month."""
    return Span(months.START_US, months.START_US + days * months.DAY_US)


def intervals_of(path: Path) -> ByNode:
    """The intervals of a file of observations."""
    log = IntervalLog()
    with BoundedLines(path, expected=EXPECTED) as lines:
        read_log(lines, str(path), log)
    return log.by_node()


def work_out(path: Path, days: int) -> None:
    """The sums of a month by queue, from its file, as ``gpufleet cost`` works them out."""
    cost_of(intervals_of(path), months.book(), span_of(days), ("queue",))


def write(path: Path, days: int) -> None:
    """The charges of a month, from its file."""
    span = span_of(days)
    heading = ChargesHeading(months.CLUSTER, "USD", span.from_us, span.until_us or 0)
    write_charges(charges_of(path), rows_in(intervals_of(path), days), heading)


def charges_of(path: Path) -> Path:
    """Where the charges of a month are."""
    return path.with_suffix(".parquet")


def rows_in(intervals: ByNode, days: int) -> Iterator[CostRow]:
    """All rows of the month."""
    for node in intervals.each():
        records, pods = node.records, node.pods
        for hour in hours_of(records, months.book(), span_of(days)):
            yield from rows_of(hour, records.priced_as.gpu_model, pods)


def spent(work: Callable[[Path, int], None], path: Path, days: int) -> Spent:
    """What a work spends in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (work, path, days))


def _measured(work: Callable[[Path, int], None], path: Path, days: int) -> Spent:
    began_s = time.process_time()
    work(path, days)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    return time.process_time() - began_s, peak_mib
