"""What tasks of a trace held, as the cost ledger accounts for it: quantities that were worked out by hand."""

from collections import Counter
from pathlib import Path

from gpufleet.engine.preempt.by_name import BY_PRIORITY
from gpufleet.ledger.costs import cost_of
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import read_log
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.replay.ledger_log import ledger_lines
from gpufleet.replay.trace import Trace
from tests.replay.small_traces import trace_of_rows
from tests.replay.test_timeline import played

HOUR = 3_600_000_000
BEGIN_US = 500_000 * HOUR
GPU_HOUR = 1000 * HOUR


def held_of(trace: Trace) -> tuple[IntervalLog, int]:
    """The log of a trace that evicts by priority, and its length."""
    play = played(trace, BY_PRIORITY)
    length_us = play.measured.engine.at_us
    log = IntervalLog()
    lines = list(ledger_lines(trace.nodes, play.all_held(), "a trace", BEGIN_US, length_us))
    assert read_log(lines, "lines", log).cluster == "a trace"
    return log, length_us


def hours_by(log: IntervalLog, length_us: int, by: str) -> Counter[str]:
    cost = cost_of(log.by_node(), PriceBook(()), Span(BEGIN_US, BEGIN_US + length_us), (by,))
    found: Counter[str] = Counter()
    for group in cost.groups:
        # Rows of hosts have no hours of GPUs.
        if group.quantity:
            found[group.key[0] or "free"] = group.quantity
    return found


def test_each_run_of_a_task_is_held_from_its_begin_to_its_end_and_the_rest_is_free(tmp_path: Path) -> None:
    """a holds a GPU for 2 h, b half of one for 4 h; 2 GPUs x 4 h are 8 GPU-hours."""
    trace = trace_of_rows(
        tmp_path,
        ("n,64000,1024,2,T4",),
        "queue,creation_time,duration_s",
        "a,1,1,1,1000,red,0,7200",
        "b,1,1,1,500,blue,0,14400",
    )
    log, length_us = held_of(trace)
    assert length_us == 4 * HOUR
    assert log.known_until_us() == BEGIN_US + 4 * HOUR
    assert hours_by(log, length_us, "queue") == {
        "red": 2 * GPU_HOUR,
        "blue": 2 * GPU_HOUR,
        "free": 4 * GPU_HOUR,
    }
    assert hours_by(log, length_us, "bucket") == {"unmeasured": 4 * GPU_HOUR, "idle-free": 4 * GPU_HOUR}


def test_a_task_that_was_evicted_held_twice(tmp_path: Path) -> None:
    """low runs an hour, makes room for high for one, and then runs for its two hours anew."""
    trace = trace_of_rows(
        tmp_path,
        ("n,64000,1024,1,T4",),
        "priority,creation_time,duration_s",
        "low,1,1,1,1000,0,0,7200",
        "high,1,1,1,1000,9,3600,3600",
    )
    log, length_us = held_of(trace)
    assert length_us == 4 * HOUR
    assert hours_by(log, length_us, "pod") == {
        "default/low": 3 * GPU_HOUR,
        "default/high": 1 * GPU_HOUR,
    }
