"""The operator's page of metrics: what it says of policies and rollouts, and what it leaves out."""

import datetime as dt

from prometheus_client import generate_latest

from gpufleet.operator.figures import OperatorFigures, OperatorMetrics, RolloutFigures
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, RolloutState
from gpufleet.operator.rollout.windows import US_PER_S

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
NOW_US = round(NOW.timestamp()) * US_PER_S


def page(figures: OperatorFigures | None) -> list[str]:
    """The samples of a page."""
    text = generate_latest(OperatorMetrics(lambda: figures, lambda: NOW).registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_process_that_does_not_lead_knows_of_no_policy() -> None:
    assert page(None) == ["gpufleet_operator_leader 0.0"]


def test_a_rollout_grows_old_and_its_nodes_are_counted_by_phase() -> None:
    progress = Progress("image", RolloutState.ROLLING, NOW_US - 90 * US_PER_S)
    phases = {RolloutPhase.CHANGING: 2, RolloutPhase.FAILED: 1}
    deadlines_us = (NOW_US - 1, NOW_US + US_PER_S)
    rollout = RolloutFigures("gpus", progress, phases, 3, deadlines_us)
    found = page(OperatorFigures({("gpus", "RollingOut"): 2}, (rollout,)))
    assert 'gpufleet_operator_nodes{phase="RollingOut",policy="gpus"} 2.0' in found
    assert 'gpufleet_operator_rollout_state_seconds{policy="gpus",state="Rolling"} 90.0' in found
    assert 'gpufleet_operator_rollout_nodes{phase="Changing",policy="gpus"} 2.0' in found
    assert 'gpufleet_operator_rollout_nodes{phase="Stuck",policy="gpus"} 0.0' in found
    assert 'gpufleet_operator_rollout_blocked_nodes{policy="gpus"} 3.0' in found
    assert 'gpufleet_operator_rollout_overdue_nodes{policy="gpus"} 1.0' in found
