"""Which write follows: warned, parked, woken; gangs whole; one deadline, also after a kill at any write."""

from typing import Any

import msgspec
import pytest

from gpufleet.operator.parking.activity import Activity, Judgement
from gpufleet.operator.parking.parking_step import (
    ParkingAction,
    ParkingWrite,
    SeenWorkload,
    parking_step,
)
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase, ParkingStamp
from tests.operator.parking.measured import (
    BUSY,
    HOUR_US,
    MINUTE_US,
    NOT_KNOWN,
    NOW_US,
    parked,
    warned,
    workload,
)


def actions(*seen: SeenWorkload, now_us: int = NOW_US) -> list[tuple[str, str]]:
    """The writes of a step: action and name."""
    return [(one.action.value, one.key.name) for one in parking_step(seen, now_us).writes]


def the_write(*seen: SeenWorkload) -> ParkingWrite:
    """The one write of a step."""
    (found,) = parking_step(seen, NOW_US).writes
    return found


def test_idle_work_is_warned_with_the_moment_at_which_it_is_parked() -> None:
    found = the_write(workload(replicas=3, gpus=6))
    assert found.action is ParkingAction.WARN
    assert found.stamp == ParkingStamp(
        ParkingPhase.WARNED, NOW_US, NOW_US + 15 * MINUTE_US, NOW_US - HOUR_US, 3, 6
    )


def test_warned_work_is_parked_at_its_deadline_and_remembers_its_replicas() -> None:
    found = the_write(workload(stamp=warned(), replicas=3, gpus=6))
    assert found.action is ParkingAction.PARK
    assert found.stamp == ParkingStamp(ParkingPhase.PARKED, NOW_US, 0, NOW_US - HOUR_US, 3, 6)


def test_nothing_is_written_before_the_deadline_and_the_step_says_when_it_is() -> None:
    deadline_us = NOW_US + 5 * MINUTE_US
    step = parking_step([workload(stamp=warned(deadline_us))], NOW_US)
    assert (step.writes, step.wake_at_us) == ((), deadline_us)


@pytest.mark.parametrize("activity", [Activity.WORKING, Activity.QUIET])
def test_work_that_did_anything_since_is_warned_no_more(activity: Activity) -> None:
    assert actions(workload(stamp=warned(), judgement=Judgement(activity))) == [("NotIdle", "lab")]


def test_what_is_unknown_is_neither_warned_nor_parked_nor_calmed() -> None:
    assert actions(workload(judgement=NOT_KNOWN)) == []
    assert actions(workload(stamp=warned(), judgement=NOT_KNOWN)) == []


@pytest.mark.parametrize(
    "field", [{"rule": None}, {"problem": "volumes would be lost"}, {"keep_until_us": NOW_US + 1}]
)
def test_work_without_a_rule_with_a_problem_or_kept_is_not_parked(field: dict[str, Any]) -> None:
    assert actions(workload(**field)) == []
    assert actions(workload(stamp=warned(), **field)) == [("NotIdle", "lab")]


def test_keeping_ends() -> None:
    assert actions(workload(keep_until_us=NOW_US)) == [("IdleWarning", "lab")]


def test_work_at_rest_that_somebody_scaled_to_zero_is_left_alone() -> None:
    assert actions(workload(replicas=0, is_stopped=True)) == []


def test_parked_work_stays_until_somebody_wants_it() -> None:
    resting = workload(stamp=parked(replicas=3), replicas=0, is_stopped=True)
    assert actions(resting) == []
    found = the_write(msgspec.structs.replace(resting, wake_asked=True))
    assert found.stamp == ParkingStamp(ParkingPhase.WAKING, NOW_US, replicas=3)


def test_waking_work_is_back_when_all_of_its_pods_run() -> None:
    stamp = ParkingStamp(ParkingPhase.WAKING, NOW_US - MINUTE_US, replicas=3)
    assert actions(workload(stamp=stamp, is_ready=False)) == []
    assert actions(workload(stamp=stamp)) == [("Woken", "lab")]


def test_parked_work_that_something_else_scaled_up_is_left_to_it() -> None:
    assert actions(workload(stamp=parked(replicas=3), replicas=2)) == [("ScaledByOthers", "lab")]


def gang(**fields: object) -> list[SeenWorkload]:
    """Two workloads of one gang."""
    return [workload(name, unit="gang", **fields) for name in ("ps", "worker")]


def test_a_gang_is_warned_whole_or_not_at_all() -> None:
    assert actions(*gang()) == [("IdleWarning", "ps"), ("IdleWarning", "worker")]
    ps, worker = gang()
    for field in ({"judgement": BUSY}, {"judgement": NOT_KNOWN}, {"problem": "a Job"}, {"rule": None}):
        assert actions(ps, msgspec.structs.replace(worker, **field)) == []


def test_a_gang_is_parked_whole_or_calmed_whole() -> None:
    ps, worker = gang(stamp=warned())
    assert actions(ps, worker) == [("Parked", "ps"), ("Parked", "worker")]
    busy = msgspec.structs.replace(worker, judgement=BUSY)
    assert actions(ps, busy) == [("NotIdle", "ps"), ("NotIdle", "worker")]


def test_a_gang_comes_back_whole() -> None:
    ps, worker = gang(stamp=parked(replicas=1), replicas=0, is_stopped=True)
    assert actions(msgspec.structs.replace(ps, wake_asked=True), worker) == [
        ("Waking", "ps"),
        ("Waking", "worker"),
    ]


def test_the_member_that_a_person_parked_takes_its_gang_along() -> None:
    ps, worker = gang()
    stamp = parked(replicas=1, cause=ParkingCause.ASKED)
    ps = msgspec.structs.replace(ps, stamp=stamp, replicas=0, is_stopped=True)
    found = the_write(ps, worker)
    assert (found.key.name, found.action) == ("worker", ParkingAction.PARK)
    assert found.stamp is not None
    assert found.stamp.cause is ParkingCause.ASKED


class World:
    """Workloads that change as writes say, with a process that may end after each write."""

    def __init__(self) -> None:
        self.seen = {
            name: workload(name, unit="gang", replicas=replicas)
            for name, replicas in (("ps", 1), ("worker", 4))
        }
        self.now_us = NOW_US
        self.log: list[tuple[str, str]] = []

    def live(self, writes_before_end: int) -> None:
        """Processes one after the other, each of which ends after so many writes, until nothing follows."""
        for _ in range(20):
            writes = parking_step(self.seen.values(), self.now_us).writes
            for write in writes[:writes_before_end]:
                self.apply(write)
            if not writes:
                return
        raise AssertionError("it never comes to rest")

    def apply(self, write: ParkingWrite) -> None:
        """What an API server and controllers make of a write."""
        name = write.key.name
        one = msgspec.structs.replace(self.seen[name], stamp=write.stamp)
        if write.action is ParkingAction.PARK:
            one = msgspec.structs.replace(one, replicas=0, is_stopped=True, is_ready=False)
        if write.action is ParkingAction.WAKE:
            assert write.stamp is not None
            one = msgspec.structs.replace(
                one, replicas=write.stamp.replicas, is_stopped=False, is_ready=True, wake_asked=False
            )
            one = msgspec.structs.replace(one, judgement=BUSY)
        self.seen[name] = one
        self.log.append((write.action.value, name))
        self.now_us += 10**6


@pytest.mark.parametrize("writes_before_end", [1, 2])
def test_killed_after_any_write_a_gang_is_warned_parked_and_woken_once_with_one_deadline(
    writes_before_end: int,
) -> None:
    world = World()
    world.live(writes_before_end)
    deadlines = {one.stamp.park_at_us for one in world.seen.values() if one.stamp is not None}
    assert deadlines == {NOW_US + 15 * MINUTE_US}
    world.now_us = deadlines.pop()
    world.live(writes_before_end)
    assert [one.replicas for one in world.seen.values()] == [0, 0]
    world.seen["ps"] = msgspec.structs.replace(world.seen["ps"], wake_asked=True)
    world.live(writes_before_end)
    assert [one.replicas for one in world.seen.values()] == [1, 4]
    assert all(one.stamp is None for one in world.seen.values())
    assert len(world.log) == len(set(world.log)) == 8


def test_a_gang_that_works_again_while_half_of_it_is_parked_is_parked_whole() -> None:
    ps, worker = gang(stamp=warned())
    ps = msgspec.structs.replace(ps, stamp=parked(replicas=1), replicas=0, is_stopped=True)
    assert actions(ps, msgspec.structs.replace(worker, judgement=BUSY)) == [("Parked", "worker")]
