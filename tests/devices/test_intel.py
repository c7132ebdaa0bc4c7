"""Intel's GPUs as the files of their drivers show them; the trees are those of the kernel's documents."""

from pathlib import Path

import pytest

from gpufleet.devices.backend import Changed
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.facts import Link
from gpufleet.devices.intel.backend import IntelBackend
from gpufleet.devices.sample import Memory
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.gpu_model import find
from gpufleet.model.identifiers import DeviceId
from tests.devices.kernel_files import KernelFiles

MAX_1550 = {
    "vendor": "0x8086",
    "device": "0x0bd5",
    "numa_node": 1,
    "tile0/physical_vram_size_bytes": 68719476736,
    "tile1/physical_vram_size_bytes": 68719476736,
    "tile0/gt0/freq0/act_freq": 1550,
    "tile1/gt1/freq0/act_freq": 600,
    "hwmon/hwmon3/name": "xe",
    "hwmon/hwmon3/energy1_input": 5_000_000,
    "hwmon/hwmon3/energy1_label": "card",
    "hwmon/hwmon3/temp2_input": 45_600,
    "hwmon/hwmon3/temp2_label": "pkg",
    "hwmon/hwmon3/temp3_input": 51_000,
    "hwmon/hwmon3/temp3_label": "vram",
}
FLEX_170 = {
    "vendor": "0x8086",
    "device": "0x56c0",
    "numa_node": -1,
    "drm/card1/lmem_total_bytes": 17179869184,
    "drm/card1/gt/gt0/rps_act_freq_mhz": 0,
    "hwmon/hwmon1/name": "i915",
    "hwmon/hwmon1/energy1_input": 7_000_000,
    "hwmon/hwmon2/name": "i915_gt0",
    "hwmon/hwmon2/energy1_input": 1,
}
INTEGRATED = {"vendor": "0x8086", "device": "0x46a6", "numa_node": 0}


def no_time() -> float:
    """The time of a backend that is asked for no sample."""
    raise AssertionError


class Machine:
    """A Max 1550 under xe, a Flex 170 under i915 and a processor's own graphics, on a test's clock."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 10.0
        self.files = KernelFiles(folder)
        self.files.card(0, "devices/pci0000:00/0000:00:02.0", "i915", dict(INTEGRATED))
        self.files.card(1, "devices/pci0000:40/0000:40:01.0/0000:42:00.0", "i915", dict(FLEX_170))
        self.files.card(2, "devices/pci0000:80/0000:80:01.0/0000:83:00.0", "xe", dict(MAX_1550))
        self.backend = IntelBackend(self.files.roots, lambda: self.now_s)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


FLEX = DeviceId("0000:42:00.0-0x56c0")
MAX = DeviceId("0000:83:00.0-0x0bd5")


def test_the_fleet_is_what_the_drivers_show(machine: Machine) -> None:
    machine.backend.open()
    fleet = machine.backend.fleet()
    assert (fleet.driver.vendor, fleet.driver.version) == (Vendor.INTEL, "6.18.0")
    assert [(gpu.product, gpu.memory_mib, gpu.numa_node) for gpu in fleet.gpus] == [
        ("Intel GPU 0x46a6", None, 0),
        ("Intel Data Center GPU Flex 170", 16 * 1024, None),
        ("Intel Data Center GPU Max 1550", 128 * 1024, 1),
    ]
    assert [gpu.uuid for gpu in fleet.gpus][1:] == [FLEX, MAX]
    assert fleet.gpus[2].device_nodes == ("/dev/dri/card2", "/dev/dri/renderD130")
    assert fleet.gpus[2].pci_bus_id == "0000:83:00.0"


def test_the_catalogue_knows_the_data_centre_cards_by_the_names_they_get(machine: Machine) -> None:
    names = [gpu.product for gpu in machine.backend.fleet().gpus]
    assert [str(model.name) for model in map(find, names) if model is not None] == ["Flex-170", "Max-1550"]


def test_readings_of_xe_are_by_label_and_power_is_energy_over_time(machine: Machine) -> None:
    first = machine.backend.sample(MAX)
    assert (first.gpu_celsius, first.memory_celsius, first.sm_clock_mhz) == (46, 51, 1550)
    assert (first.energy_mj, first.power_w) == (5000, None)
    machine.now_s += 10
    machine.files.write(
        "devices/pci0000:80/0000:80:01.0/0000:83:00.0/hwmon/hwmon3/energy1_input", 4_005_000_000
    )
    assert machine.backend.sample(MAX).power_w == pytest.approx(400)


def test_energy_that_goes_back_is_no_power(machine: Machine) -> None:
    machine.backend.sample(MAX)
    machine.now_s += 10
    machine.files.write("devices/pci0000:80/0000:80:01.0/0000:83:00.0/hwmon/hwmon3/energy1_input", 0)
    assert machine.backend.sample(MAX).power_w is None


def test_readings_of_i915_are_of_the_card_and_what_it_does_not_show_is_absent(machine: Machine) -> None:
    sample = machine.backend.sample(FLEX)
    assert (sample.energy_mj, sample.sm_clock_mhz) == (7000, 0)
    absent = (sample.gpu_busy_pct, sample.gpu_celsius, sample.memory_celsius, sample.uncorrected_errors)
    assert absent == (None, None, None, None)
    assert sample.memory == Memory()
    assert machine.backend.processes(FLEX) is None


def test_files_that_cannot_be_read_are_absent_readings(machine: Machine) -> None:
    folder = machine.files.sysfs / "devices/pci0000:80/0000:80:01.0/0000:83:00.0"
    (folder / "hwmon/hwmon3/temp2_input").write_text("\x00garbage", encoding="ascii")
    (folder / "hwmon/hwmon3/energy1_input").unlink()
    (folder / "tile1/physical_vram_size_bytes").unlink()
    sample = machine.backend.sample(MAX)
    assert (sample.gpu_celsius, sample.energy_mj, sample.memory_celsius) == (None, None, 51)
    assert machine.backend.fleet().gpus[2].memory_mib is None


def test_virtual_functions_are_left_out_beside_their_card_and_are_cards_without_it(machine: Machine) -> None:
    virtual = machine.files.card(
        3, "devices/pci0000:80/0000:80:01.0/0000:83:00.1", "xe", {"vendor": "0x8086", "device": "0x0bd5"}
    )
    (virtual / "physfn").symlink_to(virtual.parent / "0000:83:00.0")
    assert len(machine.backend.fleet().gpus) == 3
    (virtual / "physfn").unlink()
    assert [gpu.pci_bus_id for gpu in machine.backend.fleet().gpus][3] == "0000:83:00.1"


def test_other_makers_cards_and_displays_are_none_of_ours(machine: Machine) -> None:
    machine.files.card(
        4, "devices/pci0000:c0/0000:c1:00.0", "nvidia", {"vendor": "0x10de", "device": "0x2330"}
    )
    machine.files.card(5, "devices/platform/simpledrm", "simpledrm", {}, render=False)
    (machine.files.sysfs / "class/drm/card1-DP-1").mkdir()
    assert len(machine.backend.fleet().gpus) == 3


def test_a_card_that_goes_is_an_event_and_is_lost(machine: Machine) -> None:
    machine.backend.fleet()
    assert machine.backend.wait_event(0) is None
    machine.files.remove(2)
    assert machine.backend.wait_event(0) == Changed()
    assert machine.backend.wait_event(0) is None
    with pytest.raises(GpuLostError, match="does not show"):
        machine.backend.sample(MAX)


def test_a_wait_for_events_ends_when_the_backend_is_closed(machine: Machine) -> None:
    machine.backend.close()
    assert machine.backend.wait_event(1e9) is None


def test_a_node_without_the_driver_says_so(tmp_path: Path) -> None:
    backend = IntelBackend(KernelFiles(tmp_path).roots, no_time)
    with pytest.raises(DriverError, match="neither xe nor i915"):
        backend.open()
    with pytest.raises(DriverError):
        backend.fleet()


def test_a_driver_of_its_own_version_shows_that(tmp_path: Path) -> None:
    files = KernelFiles(tmp_path)
    files.load("i915", "1.24.8.10")
    assert IntelBackend(files.roots, no_time).fleet().driver.version == "1.24.8.10"


@pytest.mark.parametrize(
    ("other", "link"),
    [
        ("devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", Link.SINGLE_SWITCH),
        (
            "devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:01.0/0000:07:00.0",
            Link.MULTIPLE_SWITCHES,
        ),
        ("devices/pci0000:00/0000:00:03.0/0000:09:00.0", Link.HOST_BRIDGE),
        ("devices/pci0000:20/0000:20:01.0/0000:21:00.0", Link.NUMA_NODE),
        ("devices/pci0000:80/0000:80:01.0/0000:81:00.0", Link.SYSTEM),
    ],
)
def test_the_way_between_two_cards_is_the_way_between_their_slots(
    tmp_path: Path, other: str, link: Link
) -> None:
    files = KernelFiles(tmp_path)
    first = "devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"
    numa_node = int(link is Link.SYSTEM)
    files.card(0, first, "xe", {"vendor": "0x8086", "device": "0xe211", "numa_node": 0})
    files.card(1, other, "xe", {"vendor": "0x8086", "device": "0xe211", "numa_node": numa_node})
    fleet = IntelBackend(files.roots, no_time).fleet()
    assert fleet.link(fleet.gpus[0].uuid, fleet.gpus[1].uuid) is link
