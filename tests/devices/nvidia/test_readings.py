"""One moment of NVIDIA's cards: what they tell is there, and what they do not tell is not."""

import pytest

from gpufleet.devices.clock_events import NOTHING, ClockEvent, ThrottleReason
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.health import Recovery
from gpufleet.devices.nvidia.backend import NvidiaBackend
from gpufleet.devices.sample import Activity, LinkErrorKind, Memory, Remaps, Sample
from gpufleet.model.identifiers import DeviceId
from tests.devices.nvidia.machine import Machine

MIB = 1024 * 1024


def test_a_card_that_tells_everything(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(license=1)
    backend.sample(uuid)
    assert backend.sample(uuid) == Sample(
        at_s=5.0,
        gpu_busy_pct=60,
        memory_busy_pct=20,
        encoder_busy_pct=0,
        decoder_busy_pct=3,
        memory=Memory(1000, 80008, 551),
        power_w=351.5,
        energy_mj=7_000_000,
        gpu_celsius=45,
        memory_celsius=55,
        sm_clock_mhz=1980,
        memory_clock_mhz=2619,
        clock_events=ClockEvent.POWER_CAP | ClockEvent.SW_THERMAL,
        throttled_ns={
            ThrottleReason.POWER_CAP: 5_000_000_000,
            ThrottleReason.THERMAL: 7_000_000,
            ThrottleReason.HW_THERMAL: 6_000_000,
        },
        slowdown_celsius=87,
        pcie_replays=2,
        pcie_width=16,
        nvlink_bytes=30 * 1024,
        nvlink_errors={LinkErrorKind.REPLAY: 11, LinkErrorKind.RECOVERY: 2, LinkErrorKind.CHECKSUM: 7},
        remaps=Remaps(correctable=3, uncorrectable=1, pending=True, failed=False),
        uncorrected_errors=4,
        recovery=Recovery.NONE,
        vgpu_license=1,
        activity=Activity(0.5, 0.25, 0.125, 2 * MIB, 3 * MIB),
    )


def test_what_a_card_does_not_tell_is_absent_and_never_0(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add()
    machine.bare(0)
    backend.sample(uuid)
    assert backend.sample(uuid) == Sample(at_s=5.0)


@pytest.mark.parametrize("code", [2, 3, 4, 6, 10, 13, 25, 999])
def test_a_call_that_fails_hides_only_its_own_value(
    backend: NvidiaBackend, machine: Machine, code: int
) -> None:
    uuid = machine.add(**{"fail.nvmlDeviceGetPowerUsage": code})
    sample = backend.sample(uuid)
    assert (sample.power_w, sample.gpu_celsius) == (None, 45)


def test_a_card_that_answers_nothing_has_failed(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add()
    machine.bare(0)
    machine.card(0, {"fail.nvmlDeviceGetMemoryInfo": 999})
    with pytest.raises(DriverError, match="an error that the driver does not explain"):
        backend.sample(uuid)


@pytest.mark.parametrize(
    ("keys", "power_w"), [({"field.186": "99000u"}, 99.0), ({"field.185": "98500u", "field.186": 1}, 98.5)]
)
def test_boards_that_tell_their_power_only_as_a_field(
    backend: NvidiaBackend, machine: Machine, keys: dict[str, object], power_w: float
) -> None:
    uuid = machine.add(power_mw=None, **keys)
    assert backend.sample(uuid).power_w == power_w


def test_older_drivers_have_another_call_for_the_temperature(
    backend: NvidiaBackend, machine: Machine
) -> None:
    uuid = machine.add(celsius=None, celsius_old=51)
    assert backend.sample(uuid).gpu_celsius == 51


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"clock_events": 0}, NOTHING),
        ({"clock_events": 0x801}, ClockEvent.GPU_IDLE),
        ({"clock_events": None, "clock_events_old": 0x8}, ClockEvent.HW_SLOWDOWN),
        ({"clock_events": None}, None),
    ],
    ids=["none", "newer than we know", "older driver", "not told"],
)
def test_why_clocks_are_lowered(
    backend: NvidiaBackend, machine: Machine, keys: dict[str, object], expected: ClockEvent | None
) -> None:
    uuid = machine.add(**keys)
    assert backend.sample(uuid).clock_events == expected


def test_the_fifth_nvlink_is_summed_link_by_link(backend: NvidiaBackend, machine: Machine) -> None:
    keys = {"field.138.4294967295": None, "field.91": "2u"}
    by_link = {"field.202": 100, "field.202.1": 200, "field.204": 3000, "field.204.1": 4000}
    uuid = machine.add(**keys, **by_link)
    assert backend.sample(uuid).nvlink_bytes == 7300


def test_errors_of_the_fifth_nvlink_are_summed_link_by_link(backend: NvidiaBackend, machine: Machine) -> None:
    keys = {"field.138.4294967295": None, "field.91": "2u"}
    older = {"field.52": None, "field.59": None, "field.38": None, "field.45": None}
    by_link = {"field.215": 1, "field.215.1": 2, "field.208.1": 40, "field.211": 0, "field.211.1": 0}
    sample = backend.sample(machine.add(**keys, **older, **by_link))
    assert sample.nvlink_bytes is None
    assert sample.nvlink_errors == {
        LinkErrorKind.RECOVERY: 3,
        LinkErrorKind.RECEIVED: 40,
        LinkErrorKind.INTEGRITY: 0,
    }


def test_errors_of_boards_that_tell_only_the_field(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(uncorrected=None, **{"field.4": 6})
    assert backend.sample(uuid).uncorrected_errors == 6


@pytest.mark.parametrize(("license_held", "told"), [(None, None), (0, 0), (1, 1)])
def test_only_a_virtual_gpu_has_a_license(
    backend: NvidiaBackend, machine: Machine, license_held: int | None, told: int | None
) -> None:
    assert backend.sample(machine.add(license=license_held)).vgpu_license == told


@pytest.mark.parametrize(
    ("action", "recovery"),
    [
        ("1u", Recovery.RESET),
        ("2u", Recovery.REBOOT),
        ("3u", Recovery.DRAIN_P2P),
        ("4u", Recovery.DRAIN_AND_RESET),
        ("5u", Recovery.IMEX),
        ("7u", Recovery.REBOOT),
        ("99u", Recovery.RESET),
        (None, None),
    ],
)
def test_what_the_driver_asks_for(
    backend: NvidiaBackend, machine: Machine, action: str | None, recovery: Recovery | None
) -> None:
    assert backend.sample(machine.add(**{"field.230": action})).recovery is recovery


def test_counters_need_two_readings(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(**{"gpm.10": "nan"})
    assert backend.sample(uuid).activity == Activity()
    second = backend.sample(uuid).activity
    assert (second.graphics_engine_ratio, second.dram_ratio) == (0.5, None)


def test_counters_begin_anew_after_a_gap(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add()
    backend.sample(uuid)
    machine.card(0, {"fail.nvmlGpmSampleGet": 999})
    assert backend.sample(uuid).activity == Activity()
    machine.card(0, {"fail.nvmlGpmSampleGet": None})
    assert backend.sample(uuid).activity == Activity()
    assert backend.sample(uuid).activity.tensor_ratio == 0.25


def test_cards_before_hopper_have_no_counters(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(gpm=0)
    backend.sample(uuid)
    assert backend.sample(uuid).activity == Activity()


def test_an_instance_has_its_own_memory_and_counters(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(mig_mode=1, **{"gi.8.gpm.1": 80.0})
    machine.instance(0, 0)
    second = machine.instance(0, 1)
    backend.sample_instance(uuid, second)
    sample = backend.sample_instance(uuid, second)
    assert sample == Sample(5.0, memory=Memory(100, 9884, 0), activity=Activity(0.8))
    machine.card(0, {"mig.1.gi": None})
    with pytest.raises(GpuLostError, match="has no instance MIG-"):
        backend.sample_instance(uuid, second)
    assert backend.sample(uuid).resets == 0


def test_a_lost_card_is_an_error_and_the_others_answer(backend: NvidiaBackend, machine: Machine) -> None:
    lost, well = machine.add(), machine.add()
    backend.sample(lost)
    machine.card(0, lost=1)
    with pytest.raises(GpuLostError, match=f"{lost}: the GPU is lost"):
        backend.sample(lost)
    with pytest.raises(GpuLostError, match="the driver does not find it"):
        backend.sample(DeviceId("GPU-of-another-machine"))
    assert backend.sample(well).gpu_busy_pct == 60


def test_a_card_that_is_found_again_was_reset(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add()
    assert backend.sample(uuid).resets == 0
    machine.card(0, lost=1)
    with pytest.raises(GpuLostError):
        backend.sample(uuid)
    machine.card(0, lost=None)
    assert [backend.sample(uuid).resets for _ in range(2)] == [1, 1]


def test_a_card_that_was_not_listed_for_a_while_was_reset(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add()
    backend.fleet()
    machine.card(0, lost=1)
    backend.fleet()
    machine.card(0, lost=None)
    backend.fleet()
    assert backend.sample(uuid).resets == 1


@pytest.mark.parametrize("key", ["energy_mj", "uncorrected"])
def test_a_count_that_went_back_was_reset(backend: NvidiaBackend, machine: Machine, key: str) -> None:
    uuid = machine.add()
    backend.sample(uuid)
    machine.card(0, {key: 8_000_000})
    assert backend.sample(uuid).resets == 0
    machine.card(0, {key: 1})
    assert backend.sample(uuid).resets == 1


def test_resets_are_remembered_while_the_library_is_closed(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add()
    backend.sample(uuid)
    backend.close()
    with pytest.raises(DriverError, match="the library is not open"):
        backend.sample(uuid)
    machine.card(0, energy_mj=1)
    backend.open()
    assert backend.sample(uuid).resets == 1


def test_a_card_that_refuses_until_it_is_reset_says_so(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(**{"field.230": None})
    machine.card(0, reset_needed=1)
    sample = backend.sample(uuid)
    assert (sample.recovery, sample.gpu_busy_pct, sample.resets) == (Recovery.RESET, None, 0)
    machine.card(0, reset_needed=None)
    sample = backend.sample(uuid)
    assert (sample.recovery, sample.gpu_busy_pct, sample.resets) == (None, 60, 1)
