"""Each way in which a card can be sick has a class of its own; the sentences are health's own."""

import pytest

from gpufleet.agent.gpus.health_reason import CLASSES, reason_class, reason_slug
from gpufleet.devices.health import (
    Evidence,
    Health,
    Missing,
    NoAnswer,
    Reading,
    Recovery,
    Verdict,
    XidSeen,
    step,
)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ([XidSeen(79)], "xid"),
        ([XidSeen(48)], "xid"),
        ([Missing()], "missing"),
        ([Reading(recovery=Recovery.RESET)], "recovery_action"),
        ([Reading(remap_failed=True)], "row_remap"),
        ([XidSeen(48), Reading(recovery=Recovery.NONE)], "recovering"),
        ([NoAnswer("no answer to a sample for 5 s")], "no_answer"),
        ([NoAnswer("the library cannot be loaded")], "no_answer"),
        ([Reading()], "none"),
        ([XidSeen(13)], "none"),
    ],
)
def test_the_class_of_what_health_says(evidence: list[Evidence], expected: str) -> None:
    health = Health()
    for at_s, one in enumerate(evidence):
        health = step(health, one, float(at_s))
    assert reason_class(health.verdict, health.reason) == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ([XidSeen(79)], "xid-79"),
        ([Missing(), XidSeen(79)], "xid-79"),
        ([Missing()], "missing"),
        ([XidSeen(48), Reading(recovery=Recovery.NONE)], "recovering"),
        ([NoAnswer("no answer to a sample for 5 s")], "no_answer"),
    ],
)
def test_a_slug_tells_the_xid_where_there_is_one(evidence: list[Evidence], expected: str) -> None:
    health = Health()
    for at_s, one in enumerate(evidence):
        health = step(health, one, float(at_s))
    assert reason_slug(health.verdict, health.reason) == expected


def test_what_no_class_fits_is_other_and_not_the_sentence_itself() -> None:
    assert reason_class(Verdict.UNHEALTHY, "Something new") == "other"
    assert len({*CLASSES.values()}) == len(CLASSES)
