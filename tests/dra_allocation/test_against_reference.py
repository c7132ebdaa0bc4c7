"""Claims are allocated as Kubernetes' own allocator does it: its answers are at hand.

``make allocations-reference`` asks it anew. An allocation of the reference counts only where the validator
accepts it: the reference gives devices of a pool that has moved on to another generation, and counters of a
device that is held but gone from its slice.
"""

import json
from collections import Counter
from typing import Any

import pytest

from tests.dra_allocation.questions import (
    RANDOM_COUNT,
    answer,
    normal,
    published_questions,
    random_questions,
    reference_answers,
)
from tests.dra_allocation.validator import problems

OF_CLOSED_GATES = {
    "compatibility-groups-disabled-skips-grouped-pool": "fit",
    "compatibility-groups-disabled-skips-ungrouped-device-in-grouped-pool": "fit",
    "list-attributes-disabled-match-constraint-with-lists": "fit",
    "optional-node-operations": "none",
    "optional-node-operations-missing-feature": "none",
}
"""Cases of closed gates, whose fields the API server drops: what is written counts here."""

DIFFERENT = {
    # The comment of the table: "We'd like this to *not* be allocated".
    "multi-host-resource-pool-complete-update-from-node-1-to-node-2",
    "multi-host-resource-pool-incomplete-update-from-node-1-to-node-2",
}
"""Cases where the reference gives what the validator refuses, as it says itself."""

PARTS = 10
"""The random questions are judged in so many tests, which may run side by side."""


def judged(question: dict[str, Any], reference: dict[str, Any]) -> str:
    """What is to be said of our answer: "same", or in which way it may differ. It fails where it may not."""
    ours = answer(question)
    if ours["outcome"] == "fit":
        assert not problems(question, ours["results"])
    if reference["outcome"] != "fit":
        return "more" if ours["outcome"] == "fit" else "same"
    if ours["outcome"] == "fit" and normal(ours["results"]) == reference.get("results", []):
        return "same"
    if problems(question, reference["results"]):
        return "invalid"
    assert ours["outcome"] == "fit", ours["error"]
    # Access for administration draws no counters here, and one overbooked counter leaves the others of its
    # pool usable: other devices may come first.
    assert asks_for_administration(question) or is_overbooked(question)
    return "other"


def asks_for_administration(question: dict[str, Any]) -> bool:
    requests = [one for claim in question["claims"] or () for one in claim["spec"]["devices"]["requests"]]
    return any((one.get("exactly") or {}).get("adminAccess") for one in requests)


def is_overbooked(question: dict[str, Any]) -> bool:
    """True if holders have more of a slot, of which there is one, than there is."""
    results = [
        one for holder in question["holders"] for one in holder["status"]["allocation"]["devices"]["results"]
    ]
    held = {(one["driver"], one["pool"], one["device"]) for one in results if not one.get("adminAccess")}
    slots = Counter(
        (spec["driver"], spec["pool"]["name"], use["counterSet"], counter)
        for spec in (one["spec"] for one in question["slices"])
        for device in spec.get("devices", ())
        if (spec["driver"], spec["pool"]["name"], device["name"]) in held
        for use in device.get("consumesCounters", ())
        for counter in use["counters"]
        if counter.startswith("slot-")
    )
    return any(count > 1 for count in slots.values())


@pytest.mark.parametrize(
    ("question", "reference"),
    [
        pytest.param(question, json.loads(reference), id=question["name"])
        for question, reference in zip(published_questions(), reference_answers(), strict=False)
    ],
)
def test_published_cases_end_as_in_the_reference(question: dict[str, Any], reference: dict[str, Any]) -> None:
    if question["name"] in OF_CLOSED_GATES:
        assert answer(question)["outcome"] == OF_CLOSED_GATES[question["name"]]
        return
    found = judged(question, reference)
    assert found == "same" or question["name"] in DIFFERENT, found


@pytest.mark.parametrize("part", range(PARTS))
def test_random_claims_get_the_devices_that_the_reference_gives(part: int) -> None:
    seeds = range(part, RANDOM_COUNT, PARTS)
    answers = reference_answers()[-RANDOM_COUNT:]
    found = Counter(
        judged(question, json.loads(answers[seed]))
        for seed, question in zip(seeds, random_questions(seeds), strict=True)
    )
    assert found["same"] > len(seeds) * 0.97
