"""What is counted of parking, look by look."""

import pytest

from gpufleet.model.gpu_project import MINUTE_US
from gpufleet.operator.parking.activity import Activity, Judgement
from gpufleet.operator.parking.parking_step import SeenWorkload, WorkloadKey
from gpufleet.operator.parking.rule import IdleRule
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase, ParkingStamp
from gpufleet.operator.parking.tally import ParkingTally

LAB = WorkloadKey("Notebook", "team-a", "lab")
RULE = IdleRule(60 * MINUTE_US)
BEGIN_US = 1_800_000_000 * 10**6


def at(minutes: float) -> int:
    """A moment of the story."""
    return BEGIN_US + round(minutes * MINUTE_US)


def seen(
    phase: ParkingPhase | None = None, since: float = 0, *, cause: ParkingCause = ParkingCause.IDLE
) -> SeenWorkload:
    """The notebook with two GPUs in a phase since a minute; it runs without one."""
    stamp = None if phase is None else ParkingStamp(phase, at(since), gpus=2, cause=cause)
    return SeenWorkload(LAB, "lab", RULE, stamp=stamp, is_stopped=phase is ParkingPhase.PARKED, gpus=2)


def test_a_park_is_counted_once() -> None:
    tally = ParkingTally()
    tally.count([seen()], 0, at(0))
    for minute in (1, 2, 3):
        found = tally.count([seen(ParkingPhase.PARKED, 0.5)], 0, at(minute))
    assert found.parks == {ParkingCause.IDLE: 1}
    assert found.phases == {ParkingPhase.PARKED: 1}
    assert found.parked_gpus == 2


def test_what_is_parked_when_the_process_begins_was_counted_by_the_one_before() -> None:
    tally = ParkingTally()
    assert tally.count([seen(ParkingPhase.PARKED)], 0, at(600)).parks == {}
    found = tally.count([seen(ParkingPhase.PARKED)], 0, at(601))
    assert found.parks == {}
    assert found.gpu_us == 2 * MINUTE_US


@pytest.mark.parametrize("phase", [ParkingPhase.WAKING, None])
def test_gpu_time_counts_from_the_park_to_the_way_back(phase: ParkingPhase | None) -> None:
    tally = ParkingTally()
    tally.count([seen()], 0, at(0))
    tally.count([seen(ParkingPhase.PARKED, 1)], 0, at(11))
    found = tally.count([seen(phase, 31)], 0, at(31))
    assert found.gpu_us == 2 * 30 * MINUTE_US
    assert tally.count([seen(phase, 31)], 0, at(40)).gpu_us == found.gpu_us


@pytest.mark.parametrize(("back", "soon"), [(15, 1), (16, 0)])
def test_idle_work_that_is_back_within_a_quarter_is_told(back: int, soon: int) -> None:
    tally = ParkingTally()
    tally.count([seen(ParkingPhase.PARKED)], 0, at(1))
    found = tally.count([seen(ParkingPhase.WAKING, back)], 0, at(20))
    assert found.soon_back == soon
    assert tally.count([seen()], 0, at(21)).soon_back == soon


def test_work_that_a_person_parked_is_no_mistake_when_it_is_soon_back() -> None:
    tally = ParkingTally()
    tally.count([seen(ParkingPhase.PARKED, cause=ParkingCause.ASKED)], 0, at(1))
    assert tally.count([seen()], 0, at(2)).soon_back == 0


def test_work_that_is_deleted_does_not_come_back() -> None:
    tally = ParkingTally()
    tally.count([seen(ParkingPhase.PARKED)], 0, at(1))
    found = tally.count([], 0, at(2))
    assert (found.soon_back, found.gpu_us) == (0, 0)


def test_a_second_park_between_two_looks_is_a_park() -> None:
    tally = ParkingTally()
    tally.count([seen(ParkingPhase.PARKED, 0)], 0, at(1))
    assert tally.count([seen(ParkingPhase.PARKED, 5)], 0, at(6)).parks == {ParkingCause.IDLE: 1}


def test_work_of_which_nothing_is_known_is_told_and_idle_work_is_not() -> None:
    idle = SeenWorkload(LAB, "lab", RULE, gpus=1, judgement=Judgement(Activity.IDLE))
    unknown = SeenWorkload(WorkloadKey("Deployment", "team-a", "server"), "server", RULE, gpus=1)
    without_gpus = SeenWorkload(WorkloadKey("Deployment", "team-a", "page"), "page", RULE)
    found = ParkingTally().count([idle, unknown, without_gpus], 3, at(0))
    assert (found.unmeasured, found.refused) == (1, 3)
