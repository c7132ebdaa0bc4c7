"""How figures are written, how labels are placed, and which points a curve keeps."""

from itertools import pairwise

import pytest

from gpufleet.replay.report import figures
from gpufleet.replay.report.node_map import level_of
from gpufleet.replay.report.palette import PAGE_INKS, POLICY_INKS, css_variables, with_light_inks
from gpufleet.replay.report.policy_lines import Axis, label_heights
from gpufleet.replay.report.seed_spread import SpreadPoint, spread_over_seeds
from gpufleet.replay.results import Curve, MeanDeviation


def test_absent_is_a_dash_and_zero_is_zero() -> None:
    for written in (figures.count, figures.amount, figures.percent, figures.duration):
        assert written(None) == figures.ABSENT
        assert "0" in written(0.0)
    assert figures.mean_deviation(None) == figures.ABSENT


def test_one_seed_has_no_deviation() -> None:
    assert figures.mean_deviation(MeanDeviation(95.234, None, 1)) == "95.23"
    assert figures.mean_deviation(MeanDeviation(95.234, 0.1, 2)) == "95.23 ± 0.10"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0 s"),
        (42.0, "42 s"),
        (59.96, "60 s"),
        (90.0, "1.5 min"),
        (7200.0, "2.0 h"),
        (172800.0, "2.0 d"),
    ],
)
def test_durations_have_the_unit_a_person_would_choose(seconds: float, written: str) -> None:
    assert figures.duration(seconds) == written


def test_names_are_listed_as_in_a_sentence() -> None:
    assert [figures.listed(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def curve(loads: list[int], alloc: list[float]) -> Curve:
    return Curve(loads, alloc, alloc, alloc)


def test_a_spread_is_mean_lowest_and_highest_where_every_seed_has_a_point() -> None:
    curves = [curve([0, 1, 2], [0.0, 1.0, 2.0]), curve([0, 1], [0.0, 3.0])]
    assert spread_over_seeds(curves, lambda one: one.alloc_pct) == [
        SpreadPoint(0, 0.0, 0.0, 0.0),
        SpreadPoint(1, 2.0, 1.0, 3.0),
    ]


def test_labels_of_lines_that_end_together_do_not_overlap_and_stay_in_view() -> None:
    axis = Axis("", 0.0, 100.0)
    for ends in ([95.0, 95.1, 95.2, 94.0], [0.5, 0.1, 0.2], [50.0]):
        heights = sorted(label_heights(ends, axis, 100))
        assert all(high - low >= 13.99 for low, high in pairwise(heights))
        assert heights[0] >= axis.low
        assert heights[-1] <= axis.high


def test_levels_of_use() -> None:
    assert [level_of(used) for used in (1000, 999, 750, 500, 250, 1, 0)] == [0, 1, 1, 2, 3, 4, 5]


def luminance(ink: str) -> float:
    parts = (int(ink[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_inks_are_readable_on_their_page(theme: int) -> None:
    for ground in ("page", "surface"):
        for name, at_least in (("text", 7.0), ("muted", 4.5), ("accent", 4.5)):
            assert contrast(PAGE_INKS[name][theme], PAGE_INKS[ground][theme]) >= at_least, name
    # The inks of policies write the labels at the lines too.
    assert all(contrast(ink[theme], PAGE_INKS["surface"][theme]) >= 4.5 for ink in POLICY_INKS)


def test_themes_define_the_same_variables_and_files_have_none_left() -> None:
    names = [[part.split(":")[0] for part in css_variables(dark=dark).split(";")] for dark in (False, True)]
    assert names[0] == names[1]
    assert with_light_inks("var(--policy-3) var(--no-such)") == f"{POLICY_INKS[3][0]} var(--no-such)"
