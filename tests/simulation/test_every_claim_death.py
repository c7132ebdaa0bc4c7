"""Claims keep every promise if the agent dies before or after any single write or call of the kubelet.

CI tries some of the steps, and all writes of one claim. GPUFLEET_EFFORT=24 tries all, as ``make soak`` does.
"""

import pytest

from gpufleet.agent.dra.claim_files import ClaimFiles
from gpufleet.agent.dra.claim_preparer import ClaimPreparer
from gpufleet.agent.dra.prepared_claims import ClaimRecord
from gpufleet.simulation.node.claim_story import run_claim_story, run_every_claim_death
from gpufleet.simulation.node.every_death import StoryOutcome
from tests.engine.effort import EFFORT

ONE_IN = 24
"""Each run of the story takes a third of a second, and there are some 180 steps."""


def told(outcome: StoryOutcome) -> str:
    """What broke, and what happened before."""
    return "\n".join((f"it died {outcome.deaths}", *map(str, outcome.broken), *outcome.story))


def broken(*dies_at: int | None) -> set[str]:
    """The promises that broke where the agent died at these steps."""
    return {one.invariant for step in dies_at for one in run_claim_story(step).broken}


@pytest.fixture(scope="module")
def undisturbed() -> StoryOutcome:
    """The story without a death."""
    return run_claim_story()


def test_the_story_reaches_what_it_is_for(undisturbed: StoryOutcome) -> None:
    assert not undisturbed.broken, told(undisturbed)
    parts = ("gpufleet.io-claim-", "gpu.nvidia.com.json", "prepare of claim", "take back of claim")
    for what in (*parts, "registers gpu.nvidia.com", "removes gpufleet.io-claim-", "resourceslices"):
        assert any(what in step for step in undisturbed.steps), what
    refused = [line for line in undisturbed.story if " is refused: " in line]
    assert any("is held by claim" in line for line in refused)
    assert len(refused) == 3


def test_every_promise_is_kept_whichever_step_is_the_last() -> None:
    for step, outcome in run_every_claim_death(max(1, ONE_IN // EFFORT)):
        assert outcome.deaths == (step,)
        assert not outcome.broken, told(outcome)


def test_every_write_of_a_claim_may_be_the_last(undisturbed: StoryOutcome) -> None:
    """The steps at which most is at stake: the record and the file of one claim, each written and removed."""
    claim = next(
        line.rpartition(" ")[2] for line in undisturbed.steps if "replaced gpufleet.io-claim-" in line
    )
    uid = claim.removeprefix("gpufleet.io-claim-").partition("-gpu.nvidia.com")[0]
    steps = [number for number, step in enumerate(undisturbed.steps) if uid in step]
    assert len(steps) >= 8
    for number in steps:
        outcome = run_claim_story(number)
        assert outcome.deaths == (undisturbed.steps[number],)
        assert not outcome.broken, told(outcome)


def test_a_card_that_is_given_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimPreparer, "_refuse_taken", lambda *_: None)
    assert "I1" in broken(None)


def test_a_record_that_never_comes_to_the_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent that comes next does not know of the claims: their cards are given once more."""
    monkeypatch.setattr(ClaimRecord, "keep", lambda *_: None)
    assert broken(None)


def test_a_file_that_stays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimFiles, "remove", lambda *_: None)
    assert "I4" in broken(None)
