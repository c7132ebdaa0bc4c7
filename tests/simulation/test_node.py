"""The node agent keeps every promise, whichever of its writes it dies at and whatever the kubelet forgets.

A failing seed is seen again with ``python -m gpufleet.cli.sim_node --seed N``. GPUFLEET_EFFORT and
``make soak`` run many more.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpufleet.agent.device_plugin.whole_device_allocator import WholeDeviceAllocator
from gpufleet.agent.reports import node_report
from gpufleet.agent.state.disk import replace_file
from gpufleet.cli.sim_node import story
from gpufleet.simulation.node.crashes import Crashes, CrashingDisk, ProcessKilledError
from gpufleet.simulation.node.run import NodeOutcome, run_node
from tests.engine.effort import EFFORT

SEEDS = range(1, 12 * EFFORT + 1)


@cache
def outcome_of(seed: int) -> NodeOutcome:
    """What comes of a seed: one run of it serves all tests of the unchanged agent."""
    return run_node(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.held, story(outcome)


def test_the_seeds_reach_what_they_are_for() -> None:
    outcomes = [outcome_of(seed) for seed in range(1, 9)]
    assert {outcome.shares for outcome in outcomes} == {False, True}
    deaths = {words.partition(" ")[0] for outcome in outcomes for words in outcome.crashes}
    assert deaths == {"before", "after"}
    written = " ".join(words for outcome in outcomes for words in outcome.crashes)
    assert all(one in written for one in ("holders.json", "nodedevices", "gpufleet.io-share-"))
    assert sum(outcome.kubelet_starts > 1 for outcome in outcomes) >= 6
    assert sum(outcome.started for outcome in outcomes) > 100


def test_one_seed_is_one_run() -> None:
    assert run_node(3) == outcome_of(3)


def broken(outcomes: list[NodeOutcome]) -> set[str]:
    return {one.invariant for outcome in outcomes for one in outcome.broken}


def test_a_device_that_is_given_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator that gives whatever the kubelet offers, as one without a memory of holders does."""

    async def allocate(self: WholeDeviceAllocator, units: Any) -> Any:
        wanted = [self.units[name] for name in units]
        return self.delivery.give(self._known.gpus.value, wanted)

    async def prefer(_: WholeDeviceAllocator, available: Any, __: Any, size: int) -> list[str]:
        return sorted(available)[:size]

    monkeypatch.setattr(WholeDeviceAllocator, "allocate", allocate)
    monkeypatch.setattr(WholeDeviceAllocator, "prefer", prefer)
    assert any("I1" in broken([run_node(seed)]) for seed in range(1, 13))


def test_a_report_that_forgets_holders_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_report, "report_holders", lambda *_: ())
    assert any("I4" in broken([run_node(seed)]) for seed in range(1, 4))


def test_a_process_dies_at_the_step_that_was_chosen(tmp_path: Path) -> None:
    killed: list[str] = []
    crashes = Crashes(killed.append)
    disk = CrashingDisk(crashes)
    crashes.left = 2
    with pytest.raises(ProcessKilledError):
        replace_file(disk, tmp_path / "state", b"new")
    assert killed == ["after it replaced state"]
    assert (tmp_path / "state").read_bytes() == b"new"
