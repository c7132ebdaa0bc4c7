"""The operator's page of metrics: what it says of policies, parking and projects, and what it leaves out."""

import datetime as dt

from prometheus_client import generate_latest

from gpufleet.operator.figures import OperatorFigures, OperatorMetrics, RolloutFigures
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase
from gpufleet.operator.parking.tally import ParkingFigures
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


def test_parking_and_projects_that_are_not_kept_are_left_out() -> None:
    assert page(OperatorFigures({}, ())) == ["gpufleet_operator_leader 1.0"]


def test_parked_work_is_counted_with_what_it_gives_back() -> None:
    hour_us = 3600 * US_PER_S
    parking = ParkingFigures({ParkingPhase.PARKED: 2}, 3, 4, 5, {ParkingCause.IDLE: 6}, 1, 8 * hour_us)
    found = page(OperatorFigures({}, (), parking))
    assert 'gpufleet_operator_parking_work{phase="Parked"} 2.0' in found
    assert 'gpufleet_operator_parking_work{phase="Warned"} 0.0' in found
    assert "gpufleet_operator_parked_gpus 3.0" in found
    assert "gpufleet_operator_parking_unmeasured_work 4.0" in found
    assert "gpufleet_operator_parking_refused_work 5.0" in found
    assert 'gpufleet_operator_parks_total{cause="Idle"} 6.0' in found
    assert "gpufleet_operator_parks_soon_undone_total 1.0" in found
    assert "gpufleet_operator_parked_gpu_seconds_total 28800.0" in found


def test_projects_are_counted_by_the_reason_of_their_condition() -> None:
    found = page(OperatorFigures({}, (), projects={"AsTheProjectSays": 2, "NamespaceTaken": 1}))
    assert 'gpufleet_operator_projects{reason="AsTheProjectSays"} 2.0' in found
    assert 'gpufleet_operator_projects{reason="NamespaceTaken"} 1.0' in found
