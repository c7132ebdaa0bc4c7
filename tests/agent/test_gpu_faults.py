"""Faults 32 to 34 of GPUs: each kind of error gets its own answer, and one bad card harms no other."""

import pytest

from gpufleet.agent.state.node_state import GpuReading
from gpufleet.devices.health import QUIET_FIRST_S, Verdict
from gpufleet.devices.xid import XidAction, xid
from tests.agent.machine_room import Room, in_room
from tests.agent.test_gpu_monitor import WELL, but


@pytest.mark.parametrize(
    ("code", "action", "verdict"),
    [
        (79, XidAction.GONE, Verdict.UNHEALTHY),
        (48, XidAction.RESET, Verdict.UNHEALTHY),
        (95, XidAction.RESET, Verdict.UNHEALTHY),
        (94, XidAction.POD, Verdict.HEALTHY),
        (13, XidAction.POD, Verdict.HEALTHY),
        (31, XidAction.POD, Verdict.HEALTHY),
        (43, XidAction.NOTHING, Verdict.HEALTHY),
    ],
)
def test_fault_32_each_kind_of_xid_gets_its_own_answer(
    code: int, action: XidAction, verdict: Verdict
) -> None:
    async def story(room: Room) -> None:
        assert xid(code).action is action
        room.machine.raise_xid("1", code)
        await room.after(1)
        assert room.verdicts() == but(1, verdict)
        assert room.gpu(1).last_xid == code
        room.machine.reset("1")
        await room.after(QUIET_FIRST_S + 2)
        assert room.verdicts() == WELL

    in_room(story)


def test_fault_33_a_card_that_hangs_is_unknown_and_the_others_go_on() -> None:
    async def story(room: Room) -> None:
        stuck, other = room.gpu(0).uuid, room.gpu(1).uuid
        room.machine.hang("0")
        await room.after(20)
        assert room.verdicts() == but(0, Verdict.UNKNOWN)
        assert "has not come back yet" in room.gpu(0).reason
        await room.after(30)
        readings = room.monitor.readings.value
        assert readings[stuck] == GpuReading(), "what is old is absent, not 0"
        sample = readings[other].sample
        assert sample is not None
        assert room.clock.monotonic_s() - sample.at_s <= 10.5
        room.machine.release("0")
        await room.after(2)
        assert room.verdicts() == WELL

    in_room(story)


def test_fault_33_an_error_of_a_card_is_heard_while_another_hangs() -> None:
    async def story(room: Room) -> None:
        room.machine.hang("0")
        await room.after(20)
        room.machine.raise_xid("7", 95)
        await room.after(1)
        assert room.verdicts()[7] is Verdict.UNHEALTHY

    in_room(story)


def test_fault_33_a_driver_that_was_updated_makes_all_unknown_until_it_fits() -> None:
    async def story(room: Room) -> None:
        room.machine.break_driver("Driver/library version mismatch")
        await room.after(3)
        assert room.verdicts() == [Verdict.UNKNOWN] * 8
        assert list(room.now.problems) == ["NVIDIA: Driver/library version mismatch"]
        assert room.gpu(4).reason == "Driver/library version mismatch"
        room.machine.update_driver("590.44.01")
        await room.after(31)
        assert room.verdicts() == WELL
        assert list(room.now.problems) == []
        assert [driver.version for driver in room.now.drivers] == ["590.44.01"]

    in_room(story)


def test_fault_33_a_driver_that_is_another_one_at_once_is_opened_anew() -> None:
    async def story(room: Room) -> None:
        room.machine.update_driver("590.44.01")
        await room.after(5)
        assert room.backend.opened == 2
        assert [driver.version for driver in room.now.drivers] == ["590.44.01"]
        assert room.verdicts() == WELL

    in_room(story)


def test_fault_33_a_card_that_is_lost_while_it_hangs_is_out_of_service() -> None:
    async def story(room: Room) -> None:
        room.machine.hang("0")
        await room.after(20)
        room.machine.lose("0")
        await room.after(1)
        assert room.verdicts() == but(0, Verdict.UNHEALTHY)

    in_room(story)


def test_fault_34_a_card_that_flaps_ten_times_a_minute_leaves_once_and_comes_back_once() -> None:
    async def story(room: Room) -> None:
        for _ in range(10 * 60):
            room.machine.raise_xid("2", 95)
            await room.after(3)
            room.machine.reset("2")
            await room.after(3)
        assert [verdict for _, verdict in room.changes(2)] == [Verdict.HEALTHY, Verdict.UNHEALTHY]
        await room.after(QUIET_FIRST_S + 2)
        assert room.verdicts() == WELL
        for other in (0, 1, 3, 4, 5, 6, 7):
            assert [verdict for _, verdict in room.changes(other)] == [Verdict.HEALTHY]

    in_room(story)


def test_fault_34_a_card_that_flaps_slowly_stays_out_longer_each_time() -> None:
    async def story(room: Room) -> None:
        for _ in range(60):
            room.machine.raise_xid("2", 95)
            room.machine.reset("2")
            await room.after(65)
        outs = [at_s for at_s, verdict in room.changes(2) if verdict is Verdict.UNHEALTHY]
        assert len(outs) == 3, "30 s and 60 s of quiet were enough to come back, 120 s never were"

    in_room(story)
