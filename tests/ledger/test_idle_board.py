"""Jobs by what of their GPUs was idle: only measured time counts, and what costs most is first."""

from gpufleet.ledger.buckets import Bucket, BusySpan
from gpufleet.ledger.costs import cost_of
from gpufleet.ledger.idle_board import IDLE_BY, IdleJob, idle_jobs
from gpufleet.ledger.interval_log import Intervals
from gpufleet.ledger.price_book import PriceBook
from tests.ledger.test_costs import CARDS, DAY, GPU_HOUR, PODS, held, hours, node, price

BUSY_QUARTER = 250_000


def board(book: PriceBook) -> tuple[IdleJob, ...]:
    """A job computes a quarter of 8 of its 10 hours, one is idle for 2, and one is not measured."""
    holdings = held(0, hours(0, 10)), held(2, hours(0, 2), CARDS[1]), held(3, hours(12, 14), CARDS[1])
    busy = (
        BusySpan(CARDS[0], PODS[0].uid, hours(0, 8), BUSY_QUARTER),
        BusySpan(CARDS[1], PODS[2].uid, hours(0, 2), 0),
    )
    found = cost_of(Intervals((node(*holdings, busy=busy),), PODS), book, DAY, IDLE_BY)
    assert any(one.key[3] == Bucket.UNMEASURED for one in found.groups)
    return idle_jobs(found.groups)


def test_jobs_are_ranked_by_the_money_of_their_idle_time() -> None:
    """Four dollars for a GPU and hour: three quarters of eight hours are 24, two hours are 8."""
    first, second = board(PriceBook([price(10_000_000, 8_000_000)]))
    expected = IdleJob(
        "team", "team/Job/one", "H100-80GB", 10 * GPU_HOUR, 8 * GPU_HOUR, 6 * GPU_HOUR, 24_000_000
    )
    assert first == expected
    assert (second.job, second.idle, second.measured, second.idle_micro) == (
        "team/Job/two",
        2 * GPU_HOUR,
        2 * GPU_HOUR,
        8_000_000,
    )
    assert first.command == "gpufleet advise sharing --prometheus URL --namespace team"


def test_without_prices_hours_rank() -> None:
    assert [(one.job, one.idle_micro) for one in board(PriceBook([]))] == [
        ("team/Job/one", None),
        ("team/Job/two", None),
    ]
