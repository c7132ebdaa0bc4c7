"""The monitor tells how each GPU is as soon as it can be known, and never more than that."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from gpufleet.agent.gpus.gpu_monitor import (
    LOOKING,
    NEW_S,
    RENEWED_WITHIN_S,
    GpuMonitor,
    read_boot_id,
)
from gpufleet.agent.gpus.plans import Plans
from gpufleet.agent.gpus.vendor_monitor import LIST_EVERY_S, Pace
from gpufleet.agent.state.node_state import GpuReading
from gpufleet.devices.backend import XidEvent
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import QUIET_FIRST_S, Verdict
from gpufleet.devices.sample import Sample
from gpufleet.devices.sharing.plan import Exclusive, Mig, SharingPlan, TimeSlice
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from gpufleet.simulation.node.threadless_backend import ThreadlessBackend
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.agent.machine_room import EIGHT, Room, in_room

CUT = "gpus: [{model: A100-40GB, count: 2, mig: [{profile: 3g.20gb, start: 4}, {profile: 1g.5gb, start: 0}]}]"
WELL = [Verdict.HEALTHY] * 8


def but(index: int, verdict: Verdict) -> list[Verdict]:
    """Eight GPUs of which one is otherwise."""
    return [verdict if at == index else Verdict.HEALTHY for at in range(8)]


def test_all_gpus_are_told_at_once() -> None:
    async def story(room: Room) -> None:
        assert [value.problems for _, value in room.published] == [(LOOKING,), ()]
        assert room.verdicts() == WELL
        assert [gpu.plan.mode for gpu in room.now.gpus] == [Exclusive()] * 8
        assert [driver.version for driver in room.now.drivers] == ["580.95.05"]
        assert (room.now.node, room.now.boot_id) == ("node-1", "boot-1")
        assert len(room.now.links) == 28

    in_room(story)


def test_a_card_that_needs_a_reset_is_out_within_a_second_and_no_other() -> None:
    async def story(room: Room) -> None:
        room.machine.raise_xid("3", 95)
        await room.after(1)
        assert room.verdicts() == but(3, Verdict.UNHEALTHY)
        assert "Xid 95" in room.gpu(3).reason
        assert room.gpu(3).last_xid == 95

    in_room(story)


def test_it_is_back_when_it_was_reset_and_quiet_with_nothing_restarted() -> None:
    async def story(room: Room) -> None:
        room.machine.raise_xid("3", 95)
        await room.after(5)
        room.machine.reset("3")
        await room.after(QUIET_FIRST_S - 2)
        assert room.verdicts() == but(3, Verdict.UNHEALTHY)
        await room.after(4)
        assert room.verdicts() == WELL
        assert room.backend.opened == 1

    in_room(story)


def test_a_lost_card_stays_listed_as_out_of_service_without_readings() -> None:
    async def story(room: Room) -> None:
        lost = room.gpu(0).uuid
        room.machine.lose("0")
        await room.after(1)
        assert room.verdicts() == but(0, Verdict.UNHEALTHY)
        assert room.monitor.readings.value[lost] == GpuReading()
        await room.after(3 * LIST_EVERY_S)
        assert len(room.now.gpus) == 8
        room.machine.reset("0")
        await room.after(QUIET_FIRST_S + 2)
        assert room.verdicts() == WELL

    in_room(story)


def test_a_card_that_vanishes_without_a_word_is_noticed_with_its_next_sample() -> None:
    async def story(room: Room) -> None:
        room.machine.gpus[room.gpu(2).uuid].lost = True
        await room.after(11)
        assert room.verdicts() == but(2, Verdict.UNHEALTHY)
        assert room.gpu(2).reason == "the driver does not find it any more"

    in_room(story)


def test_an_error_that_names_no_card_is_held_against_nobody_who_answers() -> None:
    async def story(room: Room) -> None:
        room.machine._happened(XidEvent(79, None))
        await room.after(60)
        assert [value.problems for _, value in room.published] == [(LOOKING,), ()]
        assert room.verdicts() == WELL

    in_room(story)


def test_an_error_that_names_no_card_finds_the_one_that_is_lost() -> None:
    async def story(room: Room) -> None:
        room.machine.gpus[room.gpu(5).uuid].lost = True
        room.machine._happened(XidEvent(79, None))
        await room.after(1)
        assert room.verdicts() == but(5, Verdict.UNHEALTHY)

    in_room(story)


def test_an_error_of_an_instance_concerns_that_instance_alone() -> None:
    async def story(room: Room) -> None:
        small, large = room.gpu(0).facts.mig
        room.machine.raise_xid("0", 95, small.uuid)
        await room.after(0.1)
        assert [gpu.health for gpu in room.now.gpus] == [Verdict.HEALTHY] * 2
        assert list(room.gpu(0).sick_instances) == [small.uuid]
        reasons = [value.gpus[0].sick_instances.get(small.uuid, "") for _, value in room.published[1:]]
        assert any("Xid 95" in reason for reason in reasons)
        await room.after(QUIET_FIRST_S + 2)
        assert room.gpu(0).sick_instances == {}
        room.machine.raise_xid("0", 79, large.uuid)
        await room.after(1)
        assert room.gpu(0).health is Verdict.UNHEALTHY

    in_room(story, CUT)


def test_instances_that_were_made_anew_are_seen_and_old_verdicts_forgotten() -> None:
    async def story(room: Room) -> None:
        before = [one.uuid for one in room.gpu(0).facts.mig]
        assert isinstance(room.gpu(0).plan.mode, Mig)
        room.machine.raise_xid("0", 95, before[0])
        await room.after(1)
        room.machine.gpus[room.gpu(0).uuid].cut([MigInstance(0, "7g.40gb")])
        await room.after(2)
        assert [one.profile for one in room.gpu(0).facts.mig] == ["7g.40gb"]
        assert room.gpu(0).sick_instances == {}
        reading = room.monitor.readings.value[room.gpu(0).uuid]
        assert list(reading.instances) == [room.gpu(0).facts.mig[0].uuid]

    in_room(story, CUT)


def test_a_driver_that_cannot_be_used_at_first_is_tried_until_it_can() -> None:
    async def tell(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        machine = Machine(read_description(EIGHT), loop.time, list)
        machine.break_driver("no libnvidia-ml.so.1")
        backend = ThreadlessBackend(machine, clock)
        monitor = GpuMonitor("node-1", {Vendor.NVIDIA: lambda: backend}, clock, Random(1), pace=Pace())
        running = asyncio.create_task(monitor.run())
        await clock.sleep(300)
        assert list(monitor.gpus.value.gpus) == []
        assert list(monitor.gpus.value.problems) == ["NVIDIA: no libnvidia-ml.so.1"]
        assert 10 <= backend.opened <= 25, "pauses grow up to half a minute"
        machine.mend_driver()
        await clock.sleep(31)
        assert len(monitor.gpus.value.gpus) == 8
        assert list(monitor.gpus.value.problems) == []
        running.cancel()
        await asyncio.wait([running])

    run(tell)


def test_where_no_hardware_is_no_library_is_opened_and_nothing_is_wrong() -> None:
    async def tell(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        there: set[Vendor] = set()
        backend = ThreadlessBackend(Machine(read_description(EIGHT), loop.time, list), clock)
        monitor = GpuMonitor(
            "node-1",
            {Vendor.NVIDIA: lambda: backend},
            clock,
            Random(1),
            pace=Pace(),
            present=lambda vendor: vendor in there,
        )
        running = asyncio.create_task(monitor.run())
        await clock.sleep(100)
        assert (backend.opened, monitor.gpus.value.problems) == (0, ())
        there.add(Vendor.NVIDIA)
        await clock.sleep(31)
        assert len(monitor.gpus.value.gpus) == 8
        running.cancel()
        await asyncio.wait([running])

    run(tell)


def test_a_new_plan_is_told_at_once_and_its_problems_with_it() -> None:
    async def story(room: Room) -> None:
        first = room.gpu(0).uuid
        shared = Plans({first: SharingPlan(first, TimeSlice(4))}, ("config: no such resource",))
        room.monitor.planner.publish(lambda _: shared)
        await room.after(0)
        assert [gpu.plan.mode for gpu in room.now.gpus] == [TimeSlice(4)] + [Exclusive()] * 7
        assert room.now.problems == ("config: no such resource",)

    in_room(story)


def test_for_the_plan_a_card_of_claims_is_whole() -> None:
    """It is cut as claims come and go, and a configuration for whole cards is not refused because of it."""

    async def story(room: Room) -> None:
        first, second = (room.gpu(number).uuid for number in range(2))
        room.monitor.is_for_claims = lambda card: card.uuid == first
        seen: list[dict[DeviceId, bool | None]] = []

        def plan(cards: Sequence[GpuFacts]) -> Plans:
            seen.append({one.uuid: one.mig_enabled for one in cards})
            return Plans()

        room.monitor.planner.publish(plan)
        await room.after(1)
        assert seen[-1] == {first: False, second: True}

    in_room(story, CUT)


def test_a_planner_that_fails_changes_no_plan_and_hides_no_sick_card() -> None:
    def fail(_: object) -> Plans:
        raise ValueError("no such plan")

    async def story(room: Room) -> None:
        first = room.gpu(0).uuid
        room.monitor.planner.publish(lambda _: Plans({first: SharingPlan(first, TimeSlice(4))}))
        await room.after(0)
        room.monitor.planner.publish(fail)
        room.machine.raise_xid("1", 95)
        await room.after(1)
        assert room.gpu(0).plan.mode == TimeSlice(4)
        assert room.verdicts() == but(1, Verdict.UNHEALTHY)
        assert room.now.problems == ("the sharing plan could not be made: 'no such plan'",)

    in_room(story)


def test_cards_are_sampled_at_the_pace_that_was_asked_for() -> None:
    async def story(room: Room) -> None:
        uuid = room.gpu(0).uuid
        times = set()
        for _ in range(120):
            await room.after(0.5)
            sample = room.monitor.readings.value[uuid].sample
            assert sample is not None
            times.add(round(sample.at_s, 1))
        assert len(times) in (12, 13)
        assert room.monitor.readings.value[uuid].processes is None

    in_room(story, pace=Pace(sample_every_s=5))


def ages_s(room: Room) -> list[float]:
    """How old the readings of each card are."""
    now_s, readings = room.clock.monotonic_s(), room.monitor.readings.value.values()
    return [now_s - one.sample.at_s for one in readings if one.sample is not None]


def test_who_wants_new_readings_gets_them_at_once() -> None:
    async def story(room: Room) -> None:
        await room.after(8)
        assert max(ages_s(room)) > NEW_S
        before_s = room.clock.monotonic_s()
        await room.monitor.renew()
        assert room.clock.monotonic_s() - before_s < RENEWED_WITHIN_S
        assert len(ages_s(room)) == 8
        assert max(ages_s(room)) <= NEW_S
        known = room.monitor.readings.value
        await room.monitor.renew()
        assert room.monitor.readings.value is known

    in_room(story)


def test_a_card_that_hangs_does_not_keep_who_wants_new_readings() -> None:
    async def story(room: Room) -> None:
        await room.after(8)
        room.machine.hang("3")
        before_s = room.clock.monotonic_s()
        await room.monitor.renew()
        assert room.clock.monotonic_s() - before_s <= RENEWED_WITHIN_S
        assert sum(age > NEW_S for age in ages_s(room)) <= 1
        room.machine.release("3")

    in_room(story)


def test_processes_are_asked_for_where_somebody_wants_them() -> None:
    async def story(room: Room) -> None:
        uuid = room.gpu(0).uuid
        room.users.append(User(4711, uuid, 50, 1000))
        await room.after(11)
        processes = room.monitor.readings.value[uuid].processes
        assert processes is not None
        assert [(one.pid, one.memory_mib) for one in processes] == [(4711, 1000)]

    in_room(story, pace=Pace(processes=True))


def test_a_card_with_a_thousand_errors_is_looked_at_no_more_than_five_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(room: Room) -> None:
        asked: list[DeviceId] = []
        answer = room.backend.backend.sample

        def sample(uuid: DeviceId) -> Sample:
            asked.append(uuid)
            return answer(uuid)

        monkeypatch.setattr(room.backend.backend, "sample", sample)
        for _ in range(1000):
            room.machine.raise_xid("0", 31)
        await room.after(60)
        assert asked.count(room.gpu(0).uuid) <= 300
        assert room.verdicts() == WELL

    in_room(story)


def test_a_bug_of_one_vendor_leaves_the_other_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        nvidia = ThreadlessBackend(Machine(read_description(EIGHT), loop.time, list), clock)
        other = Machine(read_description("gpus: [{model: MI300X, count: 2}]"), loop.time, list, "other")
        amd = ThreadlessBackend(other, clock)
        monkeypatch.setattr(amd.backend, "fleet", lambda: 1 // 0)
        vendors = {Vendor.NVIDIA: lambda: nvidia, Vendor.AMD: lambda: amd}
        monitor = GpuMonitor("node-1", vendors, clock, Random(1), pace=Pace())
        running = asyncio.create_task(monitor.run())
        await clock.sleep(5)
        assert len(monitor.gpus.value.gpus) == 8
        (problem,) = monitor.gpus.value.problems
        assert problem.startswith("AMD: a bug of ours: 'integer division")
        monkeypatch.undo()
        await clock.sleep(31)
        assert len(monitor.gpus.value.gpus) == 10
        running.cancel()
        await asyncio.wait([running])

    run(tell)


def test_a_machine_that_tells_no_boot_id_has_none(tmp_path: Path) -> None:
    assert read_boot_id(tmp_path) == ""
