"""Of two checkouts that were measured in turns, only what is more than noise counts as slower."""

import pytest

from bench.compare import Compared, compared, table


def test_the_least_of_all_rounds_counts() -> None:
    (one,) = compared([({"a": 3.0}, {"a": 2.0}), ({"a": 2.0}, {"a": 4.0}), ({"a": 5.0}, {"a": 2.2})])
    assert (one.before, one.after) == (2.0, 2.0)
    assert one.noise == pytest.approx(0.5), "before, the second least is half as much again"


def test_what_one_side_does_not_measure_is_left_out() -> None:
    assert [one.name for one in compared([({"a": 1.0, "b": 1.0}, {"b": 1.0, "c": 1.0})])] == ["b"]


@pytest.mark.parametrize(
    ("before", "after", "noise", "is_slower"),
    [(1.0, 1.04, 0.0, False), (1.0, 1.06, 0.0, True), (1.0, 1.06, 0.1, False), (1.0, 0.5, 0.0, False)],
)
def test_slower_is_what_is_more_than_noise(
    before: float, after: float, noise: float, is_slower: bool
) -> None:
    assert Compared("a", before, after, noise).is_slower == is_slower


def test_the_table_has_units() -> None:
    lines = list(table([Compared("a", 2.0, 2.5, 0.1), Compared("b (MiB)", 200.0, 100.0, 0.0)]))
    assert lines[2:] == [
        "| a | 2 s | 2.5 s | 1.25 | 10% | slower |",
        "| b (MiB) | 200 MiB | 100 MiB | 0.50 | 0% |  |",
    ]
    assert "250 us" in next(line for line in table([Compared("c", 0.00025, 0.1, 0.0)]) if "| c |" in line)
