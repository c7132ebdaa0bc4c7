"""Which steps of a rollout are told as Events, and in which words."""

import msgspec

from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, RolloutState, Stamp
from gpufleet.operator.rollout.windows import US_PER_S
from gpufleet.operator.rollout_events import node_sentence, progress_sentence

NOON_US = 1_767_268_800 * US_PER_S
"""The first of January 2026, noon UTC."""

STAMP = Stamp(FleetPolicyName("p"), "image", "", RolloutPhase.CHANGING, NOON_US, NOON_US)


def test_a_phase_is_told_once_with_its_deadline() -> None:
    assert (
        node_sentence(None, STAMP)
        == "its driver or toolkit changes (image), at the latest until 2026-01-01T12:00:00Z"
    )
    assert node_sentence(STAMP, STAMP) == ""


def test_what_keeps_work_from_leaving_is_told_again_when_it_is_another_thing() -> None:
    stuck = msgspec.structs.replace(STAMP, phase=RolloutPhase.STUCK, reason="the budget a allows none")
    other = msgspec.structs.replace(stuck, reason="the budget b allows none")
    assert node_sentence(STAMP, stuck).endswith(": the budget a allows none")
    assert node_sentence(stuck, stuck) == ""
    assert node_sentence(stuck, other).endswith(": the budget b allows none")


def test_a_node_that_is_back_has_no_deadline() -> None:
    back = msgspec.structs.replace(STAMP, phase=RolloutPhase.RETURNED)
    assert node_sentence(STAMP, back) == "it is back in service with the new image (image)"


def test_the_state_of_a_rollout_is_told_with_its_reason() -> None:
    stopped = Progress("image", RolloutState.STOPPED, NOON_US, "canary a: nvidia-smi: no devices were found")
    words = "no further node begins (image): canary a: nvidia-smi: no devices were found"
    assert progress_sentence(stopped) == words
