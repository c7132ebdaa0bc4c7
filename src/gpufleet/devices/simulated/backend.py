"""What a vendor's library would answer about the simulated ``machine``."""

from gpufleet.devices.backend import Event
from gpufleet.devices.clock_events import NOTHING, ClockEvent
from gpufleet.devices.device_errors import GpuLostError
from gpufleet.devices.facts import Driver, Fleet, GpuFacts, Link
from gpufleet.devices.sample import Memory, ProcessUse, Remaps, Sample
from gpufleet.devices.simulated.machine import Gpu, Machine, User
from gpufleet.devices.simulated.set_readings import (
    CELSIUS,
    PCIE_WIDTH,
    REMAP_PENDING,
    REPLAYS,
    UNCORRECTED,
    WIDTH_MOST,
)
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig_boards import BOARDS

LINKS = {"direct": Link.DIRECT, "switch": Link.SINGLE_SWITCH, "system": Link.SYSTEM}
COOL_CELSIUS = 30
"""An idle GPU's temperature."""

HOT_CELSIUS = 50
"""How much warmer than cool a GPU is at full load."""

SLOWDOWN_CELSIUS = 90
"""Where the hardware of an H100 lowers its clocks."""

SM_CLOCK_MHZ = 1980
"""The highest clock of an H100 SXM."""

MEMORY_CLOCK_MHZ = 2619
"""The clock of an H100's memory."""

DEVICE_NODES = {
    Vendor.NVIDIA: "/dev/nvidia{}",
    Vendor.AMD: "/dev/dri/renderD{}",
    Vendor.INTEL: "/dev/dri/renderD{}",
}
RENDER_FIRST = 128
"""The kernel numbers render nodes from renderD128 on."""


class SimulatedBackend:
    """The library of a machine that exists only in a file."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._closed = False

    def open(self) -> None:
        """Check that the simulated driver works. Raises DriverError where it does not."""
        self.machine.check_driver()
        self._closed = False

    def close(self) -> None:
        """Close the backend; a wait for events ends."""
        self._closed = True
        self.machine.wake()

    def fleet(self) -> Fleet:
        """The machine's GPUs without those off the bus. Raises DriverError."""
        self.machine.check_driver()
        described = self.machine.description
        driver = Driver(described.vendor, self.machine.driver_version, described.runtime_version or None)
        gpus = [gpu for gpu in self.machine.gpus.values() if not gpu.lost]
        links = {
            (min(one.uuid, other.uuid), max(one.uuid, other.uuid)): _link(one, other)
            for at, one in enumerate(gpus)
            for other in gpus[at + 1 :]
        }
        return Fleet(driver, tuple(_facts(gpu) for gpu in gpus), links)

    def sample(self, uuid: DeviceId) -> Sample:
        """Readings of a GPU now, worked out from its users. Raises GpuLostError."""
        gpu = self.machine.there(uuid)
        users = self.machine.on(gpu)
        busy_pct = min(100, sum(user.busy_pct for user in users))
        now_s = self.machine.clock_s()
        power_w = gpu.power_w(busy_pct)
        gpu.energy_mj += 1000 * power_w * max(0.0, now_s - gpu.drawn_until_s)
        gpu.drawn_until_s = now_s
        used_mib = sum(user.memory_mib for user in users)
        reserved_mib = gpu.group.text.reserved_mib
        free_mib = max(0, gpu.group.memory_mib - reserved_mib - used_mib)
        gpu.set_readings.count(now_s)
        told = gpu.set_readings.values
        is_nvidia = gpu.group.model.vendor is Vendor.NVIDIA
        throttled_ns = {reason: int(time_ns) for reason, time_ns in gpu.set_readings.throttled_ns.items()}
        return Sample(
            now_s,
            gpu_busy_pct=busy_pct,
            memory_busy_pct=busy_pct // 2,
            encoder_busy_pct=0,
            decoder_busy_pct=0,
            memory=Memory(used_mib, free_mib, reserved_mib),
            power_w=power_w,
            energy_mj=int(gpu.energy_mj),
            gpu_celsius=told.get(CELSIUS, COOL_CELSIUS + HOT_CELSIUS * busy_pct // 100),
            memory_celsius=COOL_CELSIUS + 5 + HOT_CELSIUS * busy_pct // 100,
            sm_clock_mhz=SM_CLOCK_MHZ,
            memory_clock_mhz=MEMORY_CLOCK_MHZ,
            clock_events=_clock_events(gpu, busy_pct),
            throttled_ns=throttled_ns if is_nvidia else {},
            slowdown_celsius=SLOWDOWN_CELSIUS if is_nvidia else None,
            pcie_replays=told.get(REPLAYS, 0),
            pcie_width=told.get(PCIE_WIDTH, WIDTH_MOST),
            nvlink_errors=gpu.set_readings.link_errors() if _has_nvlink(gpu) else {},
            remaps=Remaps(0, int(gpu.remap_failed), bool(told.get(REMAP_PENDING)), gpu.remap_failed),
            uncorrected_errors=told.get(UNCORRECTED, 0),
            recovery=gpu.recovery,
            resets=gpu.resets,
        )

    def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """The memory of a MIG instance now; real drivers tell little more of an instance either."""
        gpu = self.machine.there(uuid)
        instance = next((one for one in gpu.instances or () if one.uuid == mig_uuid), None)
        if instance is None:
            raise GpuLostError(f"{uuid} has no instance {mig_uuid}")
        users = [user for user in self.machine.on(gpu) if user.mig_uuid == mig_uuid]
        used_mib = sum(user.memory_mib for user in users)
        free_mib = None if instance.memory_mib is None else max(0, instance.memory_mib - used_mib)
        return Sample(self.machine.clock_s(), memory=Memory(used_mib, free_mib), resets=gpu.resets)

    def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """The simulated users of a GPU as processes. Raises GpuLostError."""
        gpu = self.machine.there(uuid)
        return tuple(_process(user) for user in self.machine.on(gpu))

    def wait_event(self, limit_s: float) -> Event | None:
        """The next event that was raised on the machine; None if there was none within the limit."""
        self.machine.check_driver()
        return self.machine.next_event(limit_s, lambda: self._closed)


def _clock_events(gpu: Gpu, busy_pct: int) -> ClockEvent | None:
    """NVIDIA's driver tells them; here nothing lowers the clocks but idling."""
    if gpu.group.model.vendor is not Vendor.NVIDIA:
        return None
    return NOTHING if busy_pct else ClockEvent.GPU_IDLE


def _has_nvlink(gpu: Gpu) -> bool:
    return gpu.group.model.vendor is Vendor.NVIDIA and gpu.group.text.links != "system"


def _process(user: User) -> ProcessUse:
    return ProcessUse(user.pid, user.memory_mib, user.busy_pct, user.mig_uuid)


def _link(one: Gpu, other: Gpu) -> Link:
    """GPUs of one group reach each other as described, others over the processors."""
    return LINKS[one.group.text.links] if one.group is other.group else Link.SYSTEM


def _facts(gpu: Gpu) -> GpuFacts:
    model = gpu.group.model
    first, _, second = model.compute_target.partition(".")
    capability = (int(first), int(second)) if first.isdigit() and second.isdigit() else None
    number = gpu.index if model.vendor is Vendor.NVIDIA else RENDER_FIRST + gpu.index
    product = (model.labels[0] if model.labels else str(model.name)).replace("-", " ")
    return GpuFacts(
        uuid=gpu.uuid,
        vendor=model.vendor,
        index=gpu.index,
        product=product,
        minor=gpu.index,
        memory_mib=gpu.group.memory_mib,
        reserved_mib=gpu.group.text.reserved_mib,
        pci_bus_id=f"00000000:{0x10 + gpu.index:02X}:00.0",
        serial=f"{1_650_000_000_000 + gpu.index}",
        numa_node=gpu.numa_node,
        compute_capability=capability,
        architecture=model.architecture or None,
        mig_enabled=gpu.instances is not None if model.name in BOARDS else None,
        mig=gpu.instances or (),
        device_nodes=(DEVICE_NODES[model.vendor].format(number),),
        kernel_driver="xe" if model.vendor is Vendor.INTEL else None,
        pci_class=_pci_class(model.vendor, product),
    )


def _pci_class(vendor: Vendor, product: str) -> int | None:
    """Cards for gamers drive displays, NVIDIA's others compute."""
    if vendor is not Vendor.NVIDIA:
        return None
    # PCI classes: a VGA controller, a 3D controller.
    return 0x030000 if "GeForce" in product else 0x030200
