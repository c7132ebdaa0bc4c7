"""The simulated machine answers like a driver: what is on it, what it draws, what is broken."""

import threading

import pytest

from gpufleet.devices.backend import Changed, XidEvent
from gpufleet.devices.clock_events import ThrottleReason
from gpufleet.devices.device_errors import DriverError, GpuLostError, MachineError
from gpufleet.devices.facts import Link
from gpufleet.devices.health import Recovery
from gpufleet.devices.sample import LinkErrorKind
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.model.gpu_catalogue import Vendor

EIGHT = """
driver: {version: "580.95.05", runtime: "13.0"}
gpus:
  - {model: H100-80GB, count: 8, numaNodes: 2}
"""
CUT = "gpus: [{model: A100-40GB, mig: [{profile: 3g.20gb, start: 4}, {profile: 1g.5gb, start: 0}]}]"


class Lab:
    """A machine on a clock that a test moves, with the processes that it puts there."""

    def __init__(self, text: str = EIGHT) -> None:
        self.now_s = 100.0
        self.users: list[User] = []
        self.machine = Machine(read_description(text), lambda: self.now_s, lambda: self.users)
        self.backend = SimulatedBackend(self.machine)
        self.first = next(iter(self.machine.gpus))


def test_the_fleet_is_the_one_described() -> None:
    fleet = Lab().backend.fleet()
    assert (fleet.driver.version, fleet.driver.runtime_version) == ("580.95.05", "13.0")
    assert [gpu.index for gpu in fleet.gpus] == list(range(8))
    assert [gpu.numa_node for gpu in fleet.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.memory_mib for gpu in fleet.gpus} == {80 * 1024}
    assert {gpu.compute_capability for gpu in fleet.gpus} == {(9, 0)}
    assert fleet.gpus[3].device_nodes == ("/dev/nvidia3",)
    assert fleet.link(fleet.gpus[0].uuid, fleet.gpus[7].uuid) is Link.DIRECT


def test_the_same_machine_always_has_the_same_ids() -> None:
    uuids = [[gpu.uuid for gpu in Lab().backend.fleet().gpus] for _ in range(2)]
    assert uuids[0] == uuids[1]
    assert len(set(uuids[0])) == 8


def test_a_cut_card_has_its_instances_with_the_memory_of_their_profile() -> None:
    gpu = Lab(CUT).backend.fleet().gpus[0]
    assert gpu.mig_enabled is True
    assert [(one.profile, one.start, one.memory_mib) for one in gpu.mig] == [
        ("1g.5gb", 0, 4864),
        ("3g.20gb", 4, 19968),
    ]


def test_readings_follow_who_is_on_the_card() -> None:
    lab = Lab()
    assert lab.backend.sample(lab.first).gpu_busy_pct == 0
    lab.users = [User(7, lab.first, 60, 1000), User(8, lab.first, 30, 500)]
    sample = lab.backend.sample(lab.first)
    assert (sample.gpu_busy_pct, sample.memory.used_mib) == (90, 1500)
    assert sample.memory.free_mib == 80 * 1024 - 512 - 1500
    assert lab.backend.processes(lab.first) is not None
    other = lab.backend.fleet().gpus[1].uuid
    assert lab.backend.sample(other).gpu_busy_pct == 0


def test_energy_is_power_over_time() -> None:
    lab = Lab()
    lab.backend.sample(lab.first)
    lab.users = [User(7, lab.first, 100)]
    lab.backend.sample(lab.first)
    lab.now_s += 10
    sample = lab.backend.sample(lab.first)
    assert sample.power_w == pytest.approx(700)
    assert sample.energy_mj == pytest.approx(7_000_000)


def test_an_xid_is_an_event_and_the_card_asks_for_what_it_needs() -> None:
    lab = Lab()
    lab.machine.raise_xid("0", 95)
    assert lab.backend.wait_event(0) == XidEvent(95, lab.first)
    assert lab.backend.sample(lab.first).recovery is Recovery.RESET
    lab.machine.reset("0")
    assert lab.backend.wait_event(0) == Changed(lab.first)
    sample = lab.backend.sample(lab.first)
    assert (sample.recovery, sample.resets) == (Recovery.NONE, 1)
    assert lab.backend.wait_event(0) is None


def test_readings_that_are_set() -> None:
    lab = Lab()
    well = lab.backend.sample(lab.first)
    assert (well.uncorrected_errors, well.pcie_width, well.slowdown_celsius) == (0, 16, 90)
    assert set(well.throttled_ns.values()) == {0}
    assert well.nvlink_errors[LinkErrorKind.REPLAY] == 0
    for reading, value in (
        ("celsius", 95),
        ("uncorrected-errors", 2),
        ("remap-pending", 1),
        ("nvlink-replay", 5),
        ("pcie-width", 4),
        ("throttle-hw-thermal", 50),
    ):
        lab.machine.set_reading("0", reading, value)
    lab.now_s += 10
    told = lab.backend.sample(lab.first)
    assert (told.gpu_celsius, told.uncorrected_errors, told.remaps.pending, told.pcie_width) == (
        95,
        2,
        True,
        4,
    )
    assert told.nvlink_errors[LinkErrorKind.REPLAY] == 5
    assert told.throttled_ns[ThrottleReason.HW_THERMAL] == 5_000_000_000
    assert told.throttled_ns[ThrottleReason.SW_THERMAL] == 0
    lab.machine.reset("0")
    lab.now_s += 10
    after = lab.backend.sample(lab.first)
    assert (after.gpu_celsius, after.uncorrected_errors, after.remaps.pending) == (30, 0, False)
    # What the driver counted since it was loaded outlives a reset.
    assert after.throttled_ns[ThrottleReason.HW_THERMAL] == 5_000_000_000
    assert after.nvlink_errors[LinkErrorKind.REPLAY] == 5


def test_cards_without_nvlink_or_of_other_makers_tell_no_such_errors() -> None:
    for text in ("gpus: [{model: L40S, links: system}]", "gpus: [{model: MI300X}]"):
        lab = Lab(text)
        assert lab.backend.sample(lab.first).nvlink_errors == {}


@pytest.mark.parametrize(
    ("reading", "value", "problem"),
    [
        ("heat", 1, "reading: no such reading, found 'heat'; expected one of celsius"),
        ("celsius", 201, "celsius: not possible, found 201; expected 0 to 200"),
        ("pcie-width", 0, "pcie-width: not possible, found 0; expected 1 to 16"),
    ],
)
def test_readings_that_cannot_be_set(reading: str, value: int, problem: str) -> None:
    with pytest.raises(MachineError, match=problem):
        Lab().machine.set_reading("0", reading, value)


def test_a_card_off_the_bus_is_not_listed_and_not_answered_for() -> None:
    lab = Lab()
    lab.machine.lose("0")
    assert lab.first not in [gpu.uuid for gpu in lab.backend.fleet().gpus]
    with pytest.raises(GpuLostError):
        lab.backend.sample(lab.first)
    lab.machine.reset("0")
    assert len(lab.backend.fleet().gpus) == 8


def test_a_card_that_hangs_answers_when_it_is_released() -> None:
    lab = Lab()
    lab.machine.hang("0")
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(lab.backend.sample(lab.first)))
    asking.start()
    asking.join(0.05)
    assert answers == []
    lab.machine.release("0")
    asking.join(10)
    assert len(answers) == 1


def test_instances_do_not_outlive_a_reset() -> None:
    lab = Lab(CUT)
    lab.machine.reset("0")
    assert lab.backend.fleet().gpus[0].mig == ()


def test_a_driver_that_does_not_fit_its_library_answers_nothing() -> None:
    lab = Lab()
    lab.machine.break_driver("Driver/library version mismatch")
    with pytest.raises(DriverError, match="version mismatch"):
        lab.backend.fleet()
    lab.machine.mend_driver()
    assert len(lab.backend.fleet().gpus) == 8


def test_other_vendors_cards_have_their_own_device_nodes() -> None:
    lab = Lab("gpus: [{model: MI300X, count: 2}]")
    assert lab.machine.description.vendor is Vendor.AMD
    assert lab.backend.fleet().gpus[1].device_nodes == ("/dev/dri/renderD129",)
    assert lab.backend.fleet().gpus[1].mig_enabled is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gpus: [{modell: H100-80GB}]", "did you mean model"),
        ("gpus: [{model: H100-81GB}]", "did you mean H100-80GB"),
        ("gpus: [{model: A100}]", "may mean several models"),
        ("gpus: [{model: L4, mig: []}]", "cannot be cut"),
        ("gpus: [{model: A100-40GB, mig: [{profile: 1g.5gb, start: 7}]}]", "no placement"),
        ("gpus: [{model: H100-80GB, count: 65}]", "at most 64"),
        ("gpus: [{model: H100-80GB, count: true}]", "Expected `int`, got `bool`"),
        ("gpus: [{model: H100-80GB, count: no}]", "means different things"),
        ("gpus: [{model: H100-80GB}, {model: MI300X}]", "several vendors"),
        ("gpus: [{model: H100-80GB, reservedMiB: 90000}]", "reservedMiB"),
        ("gpus: {", "not YAML"),
        ("gpus:\n\t- model: H100-80GB", "not YAML"),
        ("", "Expected `object`"),
    ],
)
def test_a_machine_that_cannot_be_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(MachineError, match=problem):
        read_description(text)


def test_a_command_for_no_gpu_says_which_there_are() -> None:
    with pytest.raises(MachineError, match="an index from 0 to 7 or a UUID"):
        Lab().machine.lose("8")
