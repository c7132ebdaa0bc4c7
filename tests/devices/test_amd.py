"""AMD's GPUs as the files of amdgpu show them: an MI210 pair, an MI300X whole and in eight parts."""

import struct
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from gpufleet.devices.amd.backend import AmdBackend
from gpufleet.devices.amd.gpu_metrics import energy_mj
from gpufleet.devices.amd.smi import AmdSmi, ResetSeen, load_library
from gpufleet.devices.backend import Changed
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.facts import Link
from gpufleet.devices.sample import Memory, ProcessUse
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.gpu_model import find
from gpufleet.model.identifiers import DeviceId
from tests.devices.kernel_files import KernelFiles

GIB = 1024**3
MI210 = {
    "vendor": "0x1002",
    "device": "0x740f",
    "numa_node": 0,
    "unique_id": "1902e1b1a7c4f086",
    "mem_info_vram_total": 64 * GIB,
    "mem_info_vram_used": 3 * GIB,
    "gpu_busy_percent": 87,
    "mem_busy_percent": 40,
    "pcie_replay_count": 2,
    "hwmon/hwmon5/name": "amdgpu",
    "hwmon/hwmon5/power1_average": 241_000_000,
    "hwmon/hwmon5/temp1_label": "edge",
    "hwmon/hwmon5/temp1_input": 51_000,
    "hwmon/hwmon5/temp2_label": "junction",
    "hwmon/hwmon5/temp2_input": 60_000,
    "hwmon/hwmon5/temp3_label": "mem",
    "hwmon/hwmon5/temp3_input": 62_000,
    "hwmon/hwmon5/freq1_label": "sclk",
    "hwmon/hwmon5/freq1_input": 1_700_000_000,
    "hwmon/hwmon5/freq2_label": "mclk",
    "hwmon/hwmon5/freq2_input": 1_600_000_000,
    "ras/umc_err_count": "ue: 1\nce: 7",
    "ras/gfx_err_count": "ue: 2\nce: 0",
}
MI300X = {
    "vendor": "0x1002",
    "device": "0x74a1",
    "numa_node": 1,
    "unique_id": "55d2f5a8b1c3e7f9",
    "serial_number": "692440012345",
    "product_name": "AMD Instinct MI300X OAM",
    "mem_info_vram_total": 192 * GIB,
    "mem_info_vram_used": 0,
    "current_compute_partition": "SPX",
    "current_memory_partition": "NPS1",
    "hwmon/hwmon6/name": "amdgpu",
    "hwmon/hwmon6/power1_input": 139_000_000,
    "hwmon/hwmon6/temp2_label": "junction",
    "hwmon/hwmon6/temp2_input": 44_000,
}
ONE, OTHER = DeviceId("GPU-1902e1b1a7c4f086"), DeviceId("GPU-1902e1b1a7c4f087")
WHOLE = DeviceId("GPU-55d2f5a8b1c3e7f9")


class Machine(KernelFiles):
    """What the compute driver shows, beside the cards."""

    def node(self, number: int, links: dict[int, int] | None = None, memory: int = 0, **values: int) -> None:
        """A node of the compute driver, with its links (type by node) and its memory."""
        folder = f"class/kfd/kfd/topology/nodes/{number}"
        self.write(f"{folder}/properties", "\n".join(f"{name} {value}" for name, value in values.items()))
        if memory:
            self.write(f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {memory}\nflags 0")
        for at, (to, kind) in enumerate((links or {}).items()):
            self.write(f"{folder}/io_links/{at}/properties", f"type {kind}\nnode_from {number}\nnode_to {to}")

    def gpu_node(self, number: int, location: int, minor: int, links: dict[int, int], **values: int) -> None:
        """A node that is a GPU."""
        given = {"simd_count": 416, "simd_per_cu": 4, "gfx_target_version": 90010, **values}
        self.node(number, links, domain=0, location_id=location, drm_render_minor=minor, **given)

    def backend(self, library: object = None) -> AmdBackend:
        """The backend, with a library or without."""
        return AmdBackend(self.roots, lambda: 5.0, lambda: library)  # type: ignore[arg-type,return-value]


@pytest.fixture
def pair(tmp_path: Path) -> Machine:
    """Two MI210 with an XGMI bridge between them, and one that is only on the bus; node 0 is a processor."""
    machine = Machine(tmp_path)
    for number, (bus, last) in enumerate((("63", "6"), ("43", "7"), ("23", "8"))):
        files = MI210 | {"unique_id": f"1902e1b1a7c4f08{last}"}
        machine.card(
            number, f"devices/pci0000:{bus[0]}0/0000:{bus[0]}0:01.1/0000:{bus}:00.0", "amdgpu", files
        )
    machine.load("amdgpu", "6.10.5")
    machine.node(0, simd_count=0, cpu_cores_count=64)
    machine.gpu_node(1, 0x6300, 128, {0: 2, 2: 11})
    machine.gpu_node(2, 0x4300, 129, {0: 2, 1: 11})
    machine.gpu_node(3, 0x2300, 130, {0: 2})
    return machine


@pytest.fixture
def whole(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.card(0, "devices/pci0000:00/0000:00:01.1/0000:05:00.0", "amdgpu", dict(MI300X))
    machine.gpu_node(1, 0x0500, 128, {}, simd_count=1216, gfx_target_version=90402)
    return machine


@pytest.fixture
def parts(whole: Machine) -> Machine:
    """The same card as eight partitions with a quarter of memory for each pair of them."""
    device = "devices/pci0000:00/0000:00:01.1/0000:05:00.0"
    whole.write(f"{device}/current_compute_partition", "CPX")
    whole.write(f"{device}/current_memory_partition", "NPS4")
    for part in range(8):
        if part:
            whole.card(part, f"devices/platform/amdgpu_xcp_{part - 1}", "amdgpu-xcp", {})
        size = {"simd_count": 152, "gfx_target_version": 90402}
        whole.gpu_node(part + 1, part << 28 | 0x0500, 128 + part, {}, memory=24 * GIB, **size)
    return whole


def test_an_mi210_is_what_its_files_say(pair: Machine) -> None:
    fleet = pair.backend().fleet()
    assert (fleet.driver.vendor, fleet.driver.version) == (Vendor.AMD, "6.10.5")
    gpu = fleet.gpu(ONE)
    assert gpu is not None
    assert (gpu.product, gpu.memory_mib, gpu.multiprocessors) == ("AMD Instinct MI210", 64 * 1024, 104)
    assert (gpu.architecture, gpu.pci_bus_id, gpu.numa_node) == ("gfx90a", "0000:63:00.0", 0)
    assert gpu.device_nodes == ("/dev/dri/card0", "/dev/dri/renderD128")
    assert (gpu.mig_enabled, gpu.mig) == (None, ())
    model = find(gpu.product)
    assert model is not None
    assert str(model.name) == "MI210"


def test_a_bridge_of_xgmi_is_a_direct_link_and_the_rest_goes_over_the_bus(pair: Machine) -> None:
    fleet = pair.backend().fleet()
    assert fleet.link(ONE, OTHER) is Link.DIRECT
    assert fleet.link(ONE, DeviceId("GPU-1902e1b1a7c4f088")) is Link.NUMA_NODE


def test_readings_are_those_of_the_sensors(pair: Machine) -> None:
    sample = pair.backend().sample(ONE)
    assert (sample.gpu_busy_pct, sample.memory_busy_pct, sample.power_w) == (87, 40, 241)
    assert sample.memory == Memory(3 * 1024, 61 * 1024)
    assert (sample.gpu_celsius, sample.memory_celsius) == (51, 62)
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz) == (1700, 1600)
    assert (sample.pcie_replays, sample.uncorrected_errors) == (2, 3)
    assert (sample.energy_mj, sample.nvlink_bytes, sample.recovery) == (None, None, None)


def test_an_mi300x_has_no_edge_and_no_counters_of_errors(whole: Machine) -> None:
    sample = whole.backend().sample(WHOLE)
    assert (sample.gpu_celsius, sample.power_w, sample.uncorrected_errors) == (44, 139, None)
    gpu = whole.backend().fleet().gpus[0]
    assert (gpu.product, gpu.serial) == ("AMD Instinct MI300X OAM", "692440012345")
    assert (gpu.mig_enabled, gpu.mig, gpu.multiprocessors) == (False, (), 304)


def test_a_card_in_eight_parts_is_one_card_with_eight_instances(parts: Machine) -> None:
    fleet = parts.backend().fleet()
    assert [gpu.uuid for gpu in fleet.gpus] == [WHOLE]
    gpu = fleet.gpus[0]
    assert (gpu.mig_enabled, gpu.memory_mib, gpu.multiprocessors) == (True, 192 * 1024, 304)
    assert [part.uuid for part in gpu.mig] == [f"{WHOLE}-p{number}" for number in range(8)]
    kinds = {(part.profile, part.memory_mib, part.multiprocessors) for part in gpu.mig}
    assert kinds == {("cpx_nps4", 24 * 1024, 38)}
    assert gpu.mig[0].device_nodes == ("/dev/dri/card0", "/dev/dri/renderD128")
    assert gpu.mig[7].device_nodes == ("/dev/dri/card7", "/dev/dri/renderD135")
    assert parts.backend().sample_instance(WHOLE, f"{WHOLE}-p7").memory == Memory()
    with pytest.raises(GpuLostError, match="no partition"):
        parts.backend().sample_instance(WHOLE, f"{WHOLE}-p8")


def test_partitions_numbered_in_the_function_are_the_same_card(whole: Machine) -> None:
    for part in range(8):
        others = {other + 1: 11 for other in range(8) if other != part}
        whole.gpu_node(part + 1, 0x0500 | part, 128 + part, others, simd_count=152)
    fleet = whole.backend().fleet()
    assert len(fleet.gpus[0].mig) == 8
    assert fleet.links == {}


def test_a_card_without_a_number_of_its_own_is_named_by_its_place(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    files: dict[str, object] = {"vendor": "0x1002", "device": "0x73bf", "unique_id": "0000000000000000"}
    machine.card(0, "devices/pci0000:00/0000:00:01.1/0000:05:00.0", "amdgpu", files)
    gpu = machine.backend().fleet().gpus[0]
    assert (gpu.uuid, gpu.product, gpu.memory_mib) == ("0000:05:00.0-0x73bf", "AMD GPU 0x73bf", None)
    assert (gpu.architecture, gpu.multiprocessors) == (None, None)


def test_a_node_without_the_driver_says_so(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="amdgpu is not loaded"):
        Machine(tmp_path).backend().open()


def test_a_card_that_goes_is_an_event_and_is_lost(pair: Machine) -> None:
    backend = pair.backend()
    backend.fleet()
    assert backend.wait_event(0) is None
    pair.remove(0)
    assert backend.wait_event(0) == Changed()
    with pytest.raises(GpuLostError):
        backend.sample(ONE)


HEADER = struct.Struct("<HBB")


def metrics(size: int, form: int, revision: int, at: int, energy: int) -> bytes:
    """A table with only its header and its counter of energy."""
    table = bytearray(size)
    HEADER.pack_into(table, 0, size, form, revision)
    struct.pack_into("<Q", table, at, energy)
    return bytes(table)


@pytest.mark.parametrize(
    ("table", "energy"),
    [
        (metrics(120, 1, 3, 24, 65536 * 5), 5000),
        (metrics(288, 1, 4, 24, 65536), 1000),
        (metrics(352, 1, 5, 88, 32768), 500),
        (metrics(120, 1, 3, 24, 2**64 - 1), None),
        (metrics(120, 2, 4, 24, 65536), None),
        (metrics(120, 1, 3, 24, 65536)[:30], None),
        (b"", None),
        (None, None),
    ],
)
def test_energy_is_read_from_the_tables_whose_layout_is_known(
    table: bytes | None, energy: int | None
) -> None:
    assert energy_mj(table) == energy


class SmiError(Exception):
    """As the library's own."""

    def __init__(self, err_code: int) -> None:
        super().__init__(f"Error code:\n\t{err_code}")
        self.err_code = err_code


class SmiTimeoutError(SmiError):
    """As the library's own."""


class Reader:
    """Gives the events that a test put there."""

    waiting: list[dict[str, object] | SmiError] = []  # noqa: RUF012 - a test sets it

    def __init__(self, _handle: object, types: list[str]) -> None:
        assert types == ["GPU_PRE_RESET", "GPU_POST_RESET"]

    def read(self, timestamp: int, num_elem: int) -> list[dict[str, object]]:
        """The next event, as the library's reader."""
        assert (timestamp, num_elem) == (0, 1)
        event = self.waiting.pop(0)
        if isinstance(event, SmiError):
            raise event
        return [event]

    def stop(self) -> None:
        """Fails, which nobody may notice."""
        raise SmiError(2)


def process_list(handle: str) -> list[dict[str, object]]:
    """As amdsmi 7 answers."""
    if handle != "h1":
        raise SmiError(3)
    memory = {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": 5 * GIB}
    return [{"name": "python", "pid": 77, "mem": 5 * GIB, "memory_usage": memory}]


def smi_module() -> ModuleType:
    module = ModuleType("amdsmi")
    vars(module).update(
        __version__="26.0.2",
        AmdSmiException=SmiError,
        AmdSmiTimeoutException=SmiTimeoutError,
        AmdSmiEvtNotificationType={name: name for name in ("GPU_PRE_RESET", "GPU_POST_RESET", "VMFAULT")},
        AmdSmiEventReader=Reader,
        amdsmi_init=lambda: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: ["h1", "h2"],
        amdsmi_get_gpu_device_bdf={"h1": "0000:63:00.0", "h2": "0000:43:00.0"}.__getitem__,
        amdsmi_get_gpu_process_list=process_list,
    )
    return module


def test_the_library_tells_who_is_on_a_card(pair: Machine) -> None:
    backend = pair.backend(AmdSmi(smi_module()))
    assert backend.processes(ONE) is None
    backend.open()
    assert backend.processes(ONE) == (ProcessUse(77, 5 * 1024),)
    with pytest.raises(DriverError, match="amdsmi: Error code: 3"):
        backend.processes(OTHER)
    assert backend.fleet().driver.vendor_library_version == "26.0.2"
    backend.close()


def test_a_reset_is_an_event_and_counts_when_it_is_over(pair: Machine) -> None:
    backend = pair.backend(AmdSmi(smi_module()))
    backend.open()
    Reader.waiting = [
        SmiTimeoutError(8),
        SmiError(40),
        {"processor_handle": "h1", "event": "GPU_PRE_RESET"},
        {"processor_handle": "h1", "event": "GPU_POST_RESET"},
        SmiError(2),
    ]
    assert [backend.wait_event(0) for _ in range(4)] == [None, None, Changed(ONE), Changed(ONE)]
    assert backend.sample(ONE).resets == 1
    with pytest.raises(DriverError):
        backend.wait_event(0)


def test_a_library_that_is_not_there_or_does_not_start_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise SmiError(1)

    module = smi_module()
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert load_library() is None
    monkeypatch.setitem(sys.modules, "amdsmi", module)
    assert isinstance(load_library(), AmdSmi)
    vars(module).update(amdsmi_init=refuse)
    assert load_library() is None


def test_a_reset_of_a_card_that_is_gone_concerns_nobody(pair: Machine) -> None:
    seen = SimpleNamespace(wait_reset=lambda _: ResetSeen("0000:ff:00.0", over=True), version=None)
    backend = pair.backend(seen)
    backend.open()
    assert backend.wait_event(0) is None
