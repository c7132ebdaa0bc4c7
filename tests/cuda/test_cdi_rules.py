"""NVIDIA_REQUIRE_ expressions as nvidia-container-toolkit judges them itself; some cases are of its own
internal/requirements/constraints/factory_test.go.
"""

import pytest
from hypothesis import given

from gpufleet.cuda.cdi_rules import cdi_outcomes
from gpufleet.cuda.outcome import EITHER, INVALID, REFUSES, STARTS, Facts, ImageOutcome
from tests.cuda.test_legacy_rules import EXPRESSIONS

TESLA_550 = Facts(cuda="12.4", driver="550.54.15", arch="8.0", brand="tesla")


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("", STARTS),
        ("notvalid", INVALID),
        ("foo=45", STARTS),
        ("cuda=foo", INVALID),
        ("cuda>=11.6 foo=bar", STARTS),
        ("cuda>=11.6 arch=5.3", STARTS),
        ("cuda>=11.6,arch=5.3", REFUSES),
        ("cuda<11.6 cuda>=11.6,arch=8.0", STARTS),
        ("cuda>11.6", STARTS),
        ("cuda<=11.6", REFUSES),
        ("cuda!=11.6", STARTS),
        # Unlike the other: all is read, case counts, what is unknown is left out.
        ("cuda>=12.4 rubbish", INVALID),
        ("CUDA>=99", STARTS),
        ("brand=Tesla", REFUSES),
        ("brand=tesla", STARTS),
        ("brand>=tesla", STARTS),
        # Semantic versions: three numbers at most, none with a zero before it.
        ("driver>=550.54.15", STARTS),
        ("driver>=550.54.015", INVALID),
        ("cuda>=12.4.0.1", INVALID),
        ("cuda>=v12", STARTS),
        ("cuda!12", INVALID),
    ],
)
def test_an_expression_is_judged(expression: str, outcome: ImageOutcome) -> None:
    assert cdi_outcomes(expression, TESLA_550) == {outcome}


def test_what_is_not_known_leaves_both_open() -> None:
    assert cdi_outcomes("cuda>=12.4", Facts()) == EITHER
    assert cdi_outcomes("cuda>=12.4 driver>=550", Facts(driver="550.54.15")) == {STARTS}
    assert cdi_outcomes("cuda>=12.4,driver>=560", Facts(driver="550.54.15")) == {REFUSES}


@given(EXPRESSIONS)
def test_one_node_has_one_outcome(expression: str) -> None:
    sure = cdi_outcomes(expression, TESLA_550)
    assert len(sure) == 1
    assert sure <= cdi_outcomes(expression, Facts())
