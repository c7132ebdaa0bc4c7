"""What is served as a number, and what never is: the old, the unknown, what is no number, and half a sum."""

import asyncio
import math

import pytest

from gpufleet.kube.codec.selector_text import read_selector
from gpufleet.metrics.catalogue import Together
from gpufleet.metrics.reading import ObjectKey, Reading
from gpufleet.metrics.served_values import ExternalValue, FoundValues, NoValueError
from gpufleet.metrics.wire.questions import AboutNothing, AboutObjects
from tests.metrics.values_at_hand import NOW_S, OLD_AFTER_S, Objects, Values, measured, metric, served

QUEUE = "queue_length"
ONE, TWO = ObjectKey("pods", "default", "one"), ObjectKey("pods", "default", "two")
PODS = Objects({ONE: {"app": "a"}, TWO: {"app": "b"}})
ALL = AboutObjects("v1beta2", QUEUE, "pods", "*", "default")
FIRST = AboutObjects("v1beta2", QUEUE, "pods", "one", "default")
WITHOUT = AboutNothing(QUEUE, "default")


def amounts(asked: AboutObjects, together: Together = Together.SUM, **found: FoundValues) -> dict[str, float]:
    """What is served of the pods, which have these values."""
    values = Values({(QUEUE, ObjectKey("pods", "default", name)): one for name, one in found.items()})
    everything = served(PODS, values, metric(QUEUE, together))
    return {one.name: one.amount for one in asyncio.run(everything.about_objects(asked))}


def external(found: FoundValues, selector: str = "") -> list[ExternalValue]:
    """What is served without an object."""
    everything = served(PODS, Values(external={QUEUE: found}), metric(QUEUE, external=True))
    asked = AboutNothing(QUEUE, "default", read_selector(selector))
    return asyncio.run(everything.about_nothing(asked))


def test_a_pod_without_a_value_is_left_out() -> None:
    assert amounts(ALL, one=measured(3)) == {"one": 3}


def test_a_value_is_served_until_it_is_old() -> None:
    assert amounts(ALL, one=measured(3, age_s=OLD_AFTER_S), two=measured(4, age_s=OLD_AFTER_S + 1)) == {
        "one": 3
    }


@pytest.mark.parametrize("amount", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_not_served(amount: float) -> None:
    assert amounts(ALL, one=measured(amount), two=measured(1)) == {"two": 1}


@pytest.mark.parametrize(
    ("age_s", "why"),
    [
        (-60.0, "a time that is not reached yet"),
        (-math.inf, "a time that is not reached"),
        (math.nan, "no time"),
    ],
)
def test_a_time_that_cannot_be_is_not_believed(age_s: float, why: str) -> None:
    with pytest.raises(NoValueError, match=f"its value has {why}"):
        amounts(FIRST, one=measured(1, age_s=age_s))


def test_if_nothing_is_left_the_reason_is_told() -> None:
    sentence = (
        "the server could not find the metric queue_length for pods: "
        "its value is 90 s old, and none older than 25 s is served"
    )
    with pytest.raises(NoValueError, match=sentence):
        amounts(ALL, one=measured(3, age_s=90))


def test_a_part_that_is_unknown_makes_the_whole_unknown() -> None:
    half = FoundValues((Reading(3, NOW_S),), "one of its GPUs tells nothing of it")
    with pytest.raises(NoValueError, match="one of its GPUs tells nothing of it"):
        amounts(FIRST, one=half)
    old = FoundValues((Reading(3, NOW_S), Reading(3, NOW_S - 90)))
    with pytest.raises(NoValueError, match="90 s old"):
        amounts(FIRST, one=old)


@pytest.mark.parametrize(
    ("together", "amount"), [(Together.SUM, 4.0), (Together.MEAN, 2.0), (Together.MOST, 3.0)]
)
def test_series_of_one_object_become_one_value(together: Together, amount: float) -> None:
    two = FoundValues((Reading(1, NOW_S), Reading(3, NOW_S)))
    assert amounts(FIRST, together, one=two) == {"one": amount}


def test_a_metric_that_nobody_has_is_named() -> None:
    for asked in (ALL, FIRST):
        with pytest.raises(NoValueError, match="could not find the metric queue_length for pods"):
            asyncio.run(served(PODS, Values()).about_objects(asked))
    with pytest.raises(NoValueError, match="could not find the metric queue_length for namespace default"):
        asyncio.run(served(PODS, Values()).about_nothing(WITHOUT))


def test_a_metric_of_objects_alone_is_not_served_without_one() -> None:
    everything = served(PODS, Values(external={QUEUE: measured(1)}), metric(QUEUE))
    with pytest.raises(NoValueError):
        asyncio.run(everything.about_nothing(WITHOUT))


def test_series_are_chosen_by_their_labels() -> None:
    found = FoundValues((Reading(1, NOW_S, {"model": "a"}), Reading(2, NOW_S, {"model": "b"})))
    assert [one.amount for one in external(found, "model=b")] == [2]
    assert external(found, "model=none") == []


def test_a_sum_without_one_of_its_parts_is_refused() -> None:
    """An autoscaler adds the series up: half of a queue would scale down what is needed."""
    with pytest.raises(NoValueError, match="pod two: it hangs"):
        external(FoundValues((Reading(1, NOW_S),), "pod two: it hangs"))
    with pytest.raises(NoValueError, match="26 s old"):
        external(FoundValues((Reading(1, NOW_S), Reading(1, NOW_S - 26))))


def test_the_age_of_what_was_asked_for_is_on_the_page_also_where_it_was_refused() -> None:
    everything = served(PODS, Values({(QUEUE, ONE): measured(3, age_s=90)}), metric(QUEUE))
    with pytest.raises(NoValueError):
        asyncio.run(everything.about_objects(FIRST))
    (family,) = everything.record.collect()
    assert [(one.labels["metric"], one.value) for one in family.samples] == [(QUEUE, 90.0)]
