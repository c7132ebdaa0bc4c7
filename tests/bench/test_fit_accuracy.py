"""The figures about fit's nearness: what is judged, and against which rows."""

from bench.fit_accuracy import MEDIAN_LIMITS, accuracy_figures
from gpufleet.fit.evidence import evidence


def test_false_fits_come_first_and_none_is_allowed() -> None:
    first = accuracy_figures()[0]
    assert first.name == f"fit, false fits of {len(evidence())} measurements"
    assert (first.target, first.met) == (0, True)


def test_only_rows_that_were_not_in_view_are_judged() -> None:
    judged = [one for one in accuracy_figures()[1:] if one.target is not None]
    assert len(judged) >= len(MEDIAN_LIMITS) - 1
    assert all("checked only" in one.name and one.met for one in judged)
