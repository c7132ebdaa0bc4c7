"""Marks of an axis are evenly apart, round in their unit, and hold all that is shown."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.dashboards.board import Unit
from manual.axis_ticks import PARTS_MAX, ticks
from manual.board_values import written

GIB = 2.0**30
UNITS = (Unit.COUNT, Unit.RATIO, Unit.SECONDS, Unit.BYTES, Unit.WATTS, Unit.CELSIUS, Unit.HOURS)


@pytest.mark.parametrize(
    ("low", "high", "unit", "is_whole", "marks"),
    [
        (0, 24, Unit.COUNT, True, ["0", "5", "10", "15", "20", "25"]),
        (0, 8, Unit.COUNT, True, ["0", "2", "4", "6", "8"]),
        (0, 1, Unit.COUNT, True, ["0", "1"]),
        (-1, 1, Unit.COUNT, True, ["-1", "0", "1"]),
        (0, 0.93, Unit.RATIO, False, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (0, 0.093, Unit.SECONDS, False, ["0 s", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"]),
        (0, 200, Unit.SECONDS, False, ["0 s", "1 min", "2 min", "3 min", "4 min"]),
        (0, 80 * GIB, Unit.BYTES, False, ["0 B", "16 GiB", "32 GiB", "48 GiB", "64 GiB", "80 GiB"]),
        (0, 5_600, Unit.WATTS, False, ["0 W", "2 kW", "4 kW", "6 kW"]),
    ],
)
def test_marks_are_round(low: float, high: float, unit: Unit, *, is_whole: bool, marks: list[str]) -> None:
    assert [written(one, unit) for one in ticks(low, high, unit, is_whole=is_whole)] == marks


def test_an_axis_with_an_end_of_its_own_is_divided_evenly() -> None:
    assert ticks(0, 16, Unit.COUNT, is_whole=True, ends_there=True) == (0, 4, 8, 12, 16)
    assert ticks(0, 1, Unit.RATIO, ends_there=True) == pytest.approx((0, 0.2, 0.4, 0.6, 0.8, 1))


@given(st.floats(-1e6, 0), st.floats(0, 1e9), st.sampled_from(UNITS), st.booleans())
def test_marks_are_evenly_apart_and_hold_everything(low: float, high: float, unit: Unit, whole: bool) -> None:
    marks = ticks(low, high, unit, is_whole=whole)
    assert 2 <= len(marks) <= PARTS_MAX + 1
    slack = 1e-6 * (high - low) + 1e-9
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack
    steps = [after - before for before, after in pairwise(marks)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-6)
