"""What it costs to account for money: to take an event in, to work a month out, to answer by queue.

``python -m bench.pay [DAYS]`` makes up so many days of ``months`` (30 by default) and has each figure beside
its limit; with fewer days those of a month are less too. Rows are worked out in processes of their own, so
that the memory of one figure is not that of another.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from bench.figures import Figure, figure, publish
from bench.pay import events, months
from bench.pay.work import MIB, charges_of, span_of, spent, work_out, write
from gpufleet.cli.main import ExitCode, run_program
from gpufleet.cli.parameters import Whole
from gpufleet.ledger.charges import Charges

DAYS = 30
MONTHS_PER_YEAR = 365 / 30
ROUNDS = 5
EVENT_MS, ANSWER_MS, WORK_S, MEMORY_MIB, YEAR_MIB = 1.0, 200.0, 60.0, 512.0, 1024.0
"""Limits."""


def answer_ms(path: Path, days: int) -> float:
    """Milliseconds of an answer by queue from charges, the best of some."""

    def once() -> float:
        began_s = time.perf_counter()
        Charges([path]).cost(span_of(days), ("queue",))
        return 1000 * (time.perf_counter() - began_s)

    return min(once() for _ in range(ROUNDS))


def figures(path: Path, days: int) -> Iterator[Figure]:
    """All of them."""
    yield figure("event: CPU", events.cpu_ms_per_event(), "ms", "lower", EVENT_MS)
    seconds, peak_mib = spent(work_out, path, days)
    yield figure("month by queue, worked out: CPU", seconds, "s", "lower", WORK_S)
    yield figure("month by queue, worked out: memory", peak_mib, "MiB", "lower", MEMORY_MIB)
    seconds, peak_mib = spent(write, path, days)
    yield figure("month as charges: CPU", seconds, "s", "lower")
    yield figure("month as charges: memory", peak_mib, "MiB", "lower")
    charges = charges_of(path)
    yield figure("month by queue from charges", answer_ms(charges, days), "ms", "lower", ANSWER_MS)
    year_mib = charges.stat().st_size * MONTHS_PER_YEAR / MIB
    yield figure("charges of a year", year_mib, "MiB", "lower", YEAR_MIB)


@click.command()
@click.argument("days", type=Whole(1, 31), default=DAYS)
def main(days: int) -> int:
    """Make the month up, measure, and publish."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-pay-") as folder:
        path = Path(folder, "2026-10.ledger")
        months.write_month(path, days)
        found = list(figures(path, days))
    pods, rows = f"{days * months.PODS_PER_DAY:,}", f"{days * months.PODS_PER_DAY * 34 // 10:,}"
    publish(
        "pay", found, [f"{days} days, {months.NODES * months.CARDS:,} GPUs, {pods} pods, {rows} pod-hours"]
    )
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.pay"))
