"""Selectors say and cost what they say and cost in Kubernetes: its own compiler's answers are at hand.

``make selectors-reference`` asks it anew.
"""

from typing import Any

import pytest

from gpufleet.device_selectors.cel_errors import ExpressionError
from gpufleet.device_selectors.selector import DeviceView, Features, selector
from tests.device_selectors.reference_questions import DEVICES, WITH_LISTS, answers, expressions

ANSWERS = answers()


def answer(text: str, has_lists: bool, device: DeviceView) -> list[Any]:
    """What gpufleet says, in the words of the record."""
    try:
        found = selector(text, Features(has_list_attributes=has_lists)).verdict(device)
    except ExpressionError:
        return ["invalid"]
    return ["no value" if found.error else found.is_match, found.cost]


@pytest.mark.parametrize("text", expressions())
def test_verdict_and_cost_are_those_of_kubernetes(text: str) -> None:
    views = [device.view() for device in DEVICES]
    assert [answer(text, lists, view) for lists in WITH_LISTS for view in views] == ANSWERS[text]


def test_the_record_has_every_expression_and_answers_of_each_kind() -> None:
    assert list(ANSWERS) == expressions()
    kinds = [str(one[0]) for row in ANSWERS.values() for one in row]
    assert {"invalid", "no value", "True", "False"} <= set(kinds)
