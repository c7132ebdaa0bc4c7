"""NVIDIA_REQUIRE_ expressions as libnvidia-container judges them; cases follow its src/cli/dsl.c."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cuda.legacy_rules import legacy_outcomes
from gpufleet.cuda.outcome import EITHER, INVALID, REFUSES, STARTS, Facts, ImageOutcome

TESLA_550 = Facts(cuda="12.4", driver="550.54.15", arch="8.0", brand="Tesla")
CUDA_11_2 = "cuda>=11.2 brand=tesla,driver>=418,driver<419 brand=tesla,driver>=440,driver<441 driver>=450"
WORDS = st.sampled_from(
    ["cuda", "driver", "arch", "brand", "foo", ">=", "<", "=", "!", "12.4", "tesla", ",", " "]
)
EXPRESSIONS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=20).map("".join))


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("", STARTS),
        ("cuda>=12.4", STARTS),
        ("cuda>=12.5", REFUSES),
        ("cuda>=12.5 driver>=550", STARTS),
        ("cuda>=12.5 driver>=550,driver<551", STARTS),
        ("cuda>=12.5 driver>=550,brand=geforce", REFUSES),
        ("CUDA=12.4.0 ", STARTS),
        ("driver>=550.54.14,driver<550.54.16,driver!=550.54", STARTS),
        ("driver<=550", REFUSES),
        ("brand=TESLA", STARTS),
        ("brand!=tesla", REFUSES),
        ("arch>=8,arch<9", STARTS),
        (CUDA_11_2, STARTS),
    ],
)
def test_spaces_are_or_and_commas_are_and(expression: str, outcome: ImageOutcome) -> None:
    assert legacy_outcomes(expression, TESLA_550) == {outcome}


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        # What stands behind what already decided is not read.
        ("cuda>=12.4 rubbish", STARTS),
        ("cuda>=13,rubbish brand=tesla", STARTS),
        ("cuda>=13 rubbish", INVALID),
        ("rubbish cuda>=12.4", INVALID),
        # An alternative of commas ends the search with what was found so far.
        (", cuda>=13", STARTS),
        ("cuda>=13 , cuda>=12", REFUSES),
        # A lone exclamation mark is as good as !=.
        ("cuda!13", STARTS),
        ("cuda==12.4", INVALID),
        ("cuda=>12", INVALID),
        ("brand==", INVALID),
        ("brand<tesla", INVALID),
        ("foo=1", INVALID),
        ("cuda>=12..4", STARTS),
        ("cuda>=.4", INVALID),
        ("cuda>=v12", INVALID),
        ("brand=" + "x" * 130, INVALID),
    ],
)
def test_its_odd_ways_are_kept(expression: str, outcome: ImageOutcome) -> None:
    assert legacy_outcomes(expression, TESLA_550) == {outcome}


def test_what_is_not_known_leaves_both_open() -> None:
    assert legacy_outcomes("cuda>=12.4", Facts(driver="550.54.15")) == EITHER
    assert legacy_outcomes("cuda>=12.4 driver>=550", Facts(driver="550.54.15")) == {STARTS}
    assert legacy_outcomes("cuda>=12.4,driver>=560", Facts(driver="550.54.15")) == {REFUSES}
    assert legacy_outcomes("cuda>=12.4 rubbish", Facts()) == {STARTS, INVALID}


@given(EXPRESSIONS, st.sets(st.sampled_from(sorted(TESLA_550))))
def test_knowing_less_only_leaves_more_open(expression: str, forgotten: set[str]) -> None:
    sure = legacy_outcomes(expression, TESLA_550)
    assert len(sure) == 1
    some = Facts({name: value for name, value in TESLA_550.items() if name not in forgotten})
    assert sure <= legacy_outcomes(expression, some)
