"""What NVIDIA's driver reports by itself, and what becomes of it."""

import itertools
from collections.abc import Callable

import pytest

from gpufleet.devices.backend import Changed, XidEvent
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.health import Health, Missing, Reading, Recovery, Verdict, XidSeen, step
from gpufleet.devices.nvidia.backend import NvidiaBackend
from gpufleet.devices.sample import Sample
from tests.devices.nvidia.machine import XID, Machine

SOON_S = 0.02
LONG_S = 10.0
YEAR_S = 365 * 86_400.0


@pytest.fixture
def clock_s() -> Callable[[], float]:
    """A clock on which half of ``SOON_S`` goes by between two questions."""
    asked = itertools.count()
    return lambda: next(asked) * SOON_S / 2


@pytest.mark.usefixtures("library")
def test_a_wait_lasts_as_long_as_its_clock_says(machine: Machine) -> None:
    machine.add()
    backend = NvidiaBackend(machine.folder, clock_s=iter([0.0, YEAR_S]).__next__, wall_s=lambda: 0.0)
    backend.open()
    backend.fleet()
    assert backend.wait_event(YEAR_S) is None
    backend.close()


def test_an_xid_names_its_card(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    uuid = machine.add()
    backend.fleet()
    machine.event(1, XID, 79)
    assert backend.wait_event(LONG_S) == XidEvent(79, uuid)
    assert backend.wait_event(SOON_S) is None


def test_an_xid_of_no_card_is_of_no_card(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    backend.fleet()
    machine.event(-1, XID, 45)
    assert backend.wait_event(LONG_S) == XidEvent(45, None)


def test_an_xid_of_an_instance_names_it(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(mig_mode=1)
    machine.instance(0, 0)
    mig_uuid = machine.instance(0, 1)
    backend.fleet()
    machine.event(0, XID, 94, gi=8, ci=0)
    machine.event(0, XID, 94, gi=77, ci=0)
    assert backend.wait_event(LONG_S) == XidEvent(94, uuid, mig_uuid)
    assert backend.wait_event(LONG_S) == XidEvent(94, uuid, None)


@pytest.mark.parametrize("kind", [0x2, 0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000])
def test_all_other_events_say_look_again(backend: NvidiaBackend, machine: Machine, kind: int) -> None:
    uuid = machine.add()
    backend.fleet()
    machine.event(0, kind)
    assert backend.wait_event(LONG_S) == Changed(uuid)


def test_a_driver_that_knows_fewer_events_reports_those(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(events=0xA)
    machine.add(events=None)
    backend.fleet()
    machine.event(0, 0x8000)
    machine.event(1, XID, 48)
    machine.event(0, XID, 48)
    assert backend.wait_event(LONG_S) == XidEvent(48, uuid)


def test_without_cards_a_wait_only_waits(backend: NvidiaBackend) -> None:
    assert backend.wait_event(SOON_S) is None


def test_cards_that_are_listed_later_report_too(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    backend.fleet()
    backend.wait_event(SOON_S)
    uuid = machine.add()
    backend.fleet()
    machine.event(1, XID, 48)
    assert backend.wait_event(LONG_S) == XidEvent(48, uuid)


def test_a_lost_card_is_told_once_and_the_others_go_on(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    well = machine.add()
    backend.fleet()
    backend.wait_event(SOON_S)
    machine.card(0, lost=1)
    assert backend.wait_event(LONG_S) == Changed()
    assert backend.wait_event(SOON_S) is None
    machine.event(1, XID, 48)
    assert backend.wait_event(LONG_S) == XidEvent(48, well)


def test_a_wait_that_fails_says_why_and_the_next_begins_anew(
    backend: NvidiaBackend, machine: Machine
) -> None:
    machine.add()
    backend.fleet()
    machine.tells(**{"fail.nvmlEventSetWait": 999})
    with pytest.raises(DriverError, match="does not explain"):
        backend.wait_event(LONG_S)
    machine.tells(**{"fail.nvmlEventSetWait": None})
    assert backend.wait_event(SOON_S) is None


def seen(sample: Sample) -> Reading:
    return Reading(sample.recovery, sample.remaps.failed, sample.resets)


def test_an_xid_takes_the_card_out_until_the_driver_asks_for_nothing_more(
    backend: NvidiaBackend, machine: Machine
) -> None:
    uuid = machine.add()
    backend.fleet()
    health = step(Health(), seen(backend.sample(uuid)), 0)
    machine.card(0, {"field.230": "1u"})
    machine.event(0, XID, 95)
    event = backend.wait_event(LONG_S)
    assert isinstance(event, XidEvent)
    health = step(health, XidSeen(event.code), 1)
    assert (health.verdict, "Xid 95" in health.reason) == (Verdict.UNHEALTHY, True)
    health = step(health, seen(backend.sample(uuid)), 2)
    assert "the driver asks: reset" in health.reason
    machine.card(0, {"field.230": "0u"})
    health = step(health, seen(backend.sample(uuid)), 3)
    assert health.verdict is Verdict.UNHEALTHY
    assert step(health, seen(backend.sample(uuid)), 100).verdict is Verdict.HEALTHY


def test_a_card_off_the_bus_comes_back_when_it_is_found_again(
    backend: NvidiaBackend, machine: Machine
) -> None:
    uuid = machine.add()
    backend.fleet()
    health = step(Health(), seen(backend.sample(uuid)), 0)
    assert backend.wait_event(SOON_S) is None
    machine.card(0, lost=1)
    machine.event(0, XID, 79)
    assert backend.wait_event(LONG_S) == XidEvent(79, uuid)
    health = step(health, XidSeen(79), 1)
    with pytest.raises(GpuLostError):
        backend.sample(uuid)
    health = step(health, Missing(), 2)
    machine.card(0, lost=None)
    health = step(health, seen(backend.sample(uuid)), 3)
    assert health.verdict is Verdict.UNHEALTHY
    health = step(health, seen(backend.sample(uuid)), 100)
    assert (health.verdict, health.recovery) == (Verdict.HEALTHY, Recovery.NONE)
