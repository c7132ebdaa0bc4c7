"""The node agent keeps every promise if it dies before or after any single write or call of the kubelet.

``test_node`` draws the steps of death by seed, in stories that differ; here each step of one story is tried.
CI tries the moment after each step, GPUFLEET_EFFORT=24 the one before it too, as ``make soak`` does.
"""

from pathlib import Path

import pytest

from gpufleet.agent.reports import node_report
from gpufleet.simulation.node.crashes import CrashingDisk
from gpufleet.simulation.node.every_death import StoryOutcome, run_every_death, run_story
from tests.engine.effort import EFFORT


def told(outcome: StoryOutcome) -> str:
    """What broke, and what happened before."""
    return "\n".join((f"it died {outcome.deaths}", *map(str, outcome.broken), *outcome.story))


@pytest.mark.parametrize("shares", [False, True], ids=["whole", "shares"])
def test_every_promise_is_kept_whichever_step_is_the_last(shares: bool) -> None:
    for step, outcome in run_every_death(shares=shares, only_after=EFFORT == 1):
        assert outcome.deaths == (step,)
        assert not outcome.broken, told(outcome)


@pytest.mark.parametrize(
    ("shares", "written"),
    [
        (
            False,
            ("holders.json", "checkpoint.json", "gpu-health.json", "nodedevices", "nodes/node-1", "events"),
        ),
        (True, ("holders.json", "gpufleet.io-share-", "nodedevices", "sharing-plans.json")),
    ],
    ids=["whole", "shares"],
)
def test_the_story_reaches_what_it_is_for(shares: bool, written: tuple[str, ...]) -> None:
    outcome = run_story(shares=shares)
    assert not outcome.broken, told(outcome)
    steps = set(outcome.steps)
    called = ("registers", "answers prefer", "answers allocate", "asks for the list")
    for what in (*written, *called, *(("answers prepare", "removes") if shares else ())):
        assert any(step.startswith("before") and what in step for step in steps), what
    assert {step.partition(" ")[0] for step in steps} == {"before", "after"}
    assert outcome.running > 1


def test_a_report_that_forgets_holders_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_report, "report_holders", lambda *_: ())
    assert "I4" in {one.invariant for one in run_story(shares=False).broken}


def test_a_record_of_holders_that_never_comes_to_the_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the next agent does not know of a container whose pod has left the API."""
    move = CrashingDisk.move

    def lose(self: CrashingDisk, source: Path, target: Path) -> None:
        if target.name != "holders.json":
            move(self, source, target)

    monkeypatch.setattr(CrashingDisk, "move", lose)
    steps = range(0, len(run_story(shares=False).steps), 5)
    assert any(run_story(shares=False, dies_at=step).broken for step in steps)
