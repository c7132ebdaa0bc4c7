"""Charges in Parquet answer as the rows do that they were written from, whatever they are put together by."""

import datetime as dt
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from gpufleet.ledger.buckets import Bucket, BusySpan, FreeState
from gpufleet.ledger.charges import Charges, ChargesHeading, heading_of, write_charges
from gpufleet.ledger.cost_rows import CostRow, hours_of, rows_of
from gpufleet.ledger.costs import COLUMNS, cost_of
from gpufleet.ledger.interval_log import Intervals
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError
from tests.ledger.test_costs import CARDS, DAY, PODS, START, held, hours, node, price

BOOK = PriceBook([price(7_000_001, 3_333_333, hours(0, 9)), price(11_999_999, 10_000_007, hours(10, 24))])
"""An hour between both has no price."""


def intervals() -> Intervals:
    """Two nodes with shares, use, an ill card, and a time in which pods were not followed."""
    holdings = [
        held(0, hours(1, 7.5), CARDS[0], Fraction(3, 7)),
        held(1, hours(2, 20), CARDS[0], Fraction(1, 3)),
    ]
    busy = BusySpan(CARDS[0], PODS[0].uid, hours(2, 6), 123_457)
    state = FreeState(CARDS[1], Bucket.OUT, hours(3, 4.25), "it's ill")
    nodes = (
        node(*holdings, busy=(busy,), free_states=(state,)),
        node(held(2, hours(0, 24)), unseen=(hours(5, 6),)),
    )
    return Intervals(nodes, PODS)


def rows(span: Span = DAY) -> list[CostRow]:
    pods = {pod.uid: pod for pod in PODS}
    return [
        row
        for records in intervals().nodes
        for hour in hours_of(records, BOOK, span)
        for row in rows_of(hour, records.priced_as.gpu_model, pods)
    ]


def written(path: Path, span: Span = DAY, cluster: str = "c-1") -> Path:
    write_charges(path, rows(span), ChargesHeading(cluster, "USD", span.from_us, span.until_us or 0))
    return path


def test_every_grouping_of_the_file_is_that_of_the_rows(tmp_path: Path) -> None:
    charges = Charges([written(tmp_path / "day.parquet")])
    for by in [(), *((name,) for name in COLUMNS), ("queue", "day", "label:cost"), ('label:it\'s "odd"',)]:
        assert charges.cost(DAY, by) == cost_of(intervals(), BOOK, DAY, by), by


def test_a_part_of_the_time_is_answered_by_whole_hours(tmp_path: Path) -> None:
    charges = Charges([written(tmp_path / "day.parquet")])
    span = hours(3, 9)
    assert charges.cost(span, ("queue",)) == cost_of(intervals(), BOOK, span, ("queue",))
    with pytest.raises(InputError, match="a time within an hour"):
        charges.cost(hours(3, 8.5), ("queue",))


def test_two_times_are_put_together_and_one_time_is_not_counted_twice(tmp_path: Path) -> None:
    first, second = (
        written(tmp_path / "a.parquet", hours(0, 12)),
        written(tmp_path / "b.parquet", hours(12, 24)),
    )
    both = Charges([second, first])
    assert (both.span, both.currency) == (DAY, "USD")
    assert both.cost(DAY, ("day",)) == cost_of(intervals(), BOOK, DAY, ("day",))
    with pytest.raises(InputError, match="charges of the same time"):
        Charges([first, written(tmp_path / "c.parquet", hours(11, 13))])
    with pytest.raises(InputError, match="another cluster or currency"):
        Charges([first, written(tmp_path / "d.parquet", hours(12, 13), "c-2")])


def test_a_time_without_rows_costs_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    write_charges(empty, (), ChargesHeading("c-1", "USD", START, START + HOUR_US))
    found = Charges([empty]).cost(Span(START, START + HOUR_US), ("queue",))
    assert (found.groups, found.total.quantity, found.total.amount_micro) == ((), 0, None)


def test_equal_rows_make_equal_bytes_that_other_programs_read(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.parquet"), written(tmp_path / "b.parquet")
    assert first.read_bytes() == second.read_bytes()
    question = "SELECT min(hour), sum(amount_micro), max(queue) FROM read_parquet(?)"
    with duckdb.connect(":memory:") as database:
        (hour, amount, queue), *_ = database.execute(question, [str(first)]).fetchall()
    # Two nodes for nine hours at the one price and for fourteen at the other.
    assert (hour, amount) == (dt.datetime(2024, 10, 4), 2 * (9 * 7_000_001 + 14 * 11_999_999))  # noqa: DTZ001
    assert queue == "b"


def test_another_file_in_parquet_has_no_charges(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS a) TO '{other}'")
    assert heading_of(other) is None
    with pytest.raises(InputError, match="has no charges"):
        Charges([other])
    other.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot be read"):
        heading_of(other)
