"""Intel's GPUs through the i915 and xe drivers' files below /sys.

The files are those of the kernel's documentation (ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon,
gpu/xe/xe_gt_freq) and, for the memory that i915 shows, of Intel's own build of that driver. Memory of
xe is the physical size of each tile, which is a little more than programs get.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from gpufleet.devices.backend import Changed, Event
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.drm_cards import CardListing, DrmCard, Roots, cards, module_version, pci_links
from gpufleet.devices.facts import Driver, Fleet, GpuFacts
from gpufleet.devices.intel.products import product
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.devices.sysfs import MIB, entries, number, scaled, text
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId

# The newer one first.
DRIVERS = ("xe", "i915")
POLL_S = 1.0
"""How often to look whether a GPU came or went: the kernel's files send no events."""


class IntelBackend:
    """Intel's GPUs on this node."""

    def __init__(self, roots: Roots, clock_s: Callable[[], float]) -> None:
        self.roots = roots
        self.clock_s = clock_s
        self._listing = CardListing(roots, DRIVERS)
        self._energy: dict[DeviceId, tuple[float, int]] = {}
        self._closing = threading.Event()

    def open(self) -> None:
        """Check that a driver is there. Raises DriverError where neither xe nor i915 is loaded."""
        if self._driver() is None:
            raise DriverError("neither xe nor i915 is loaded")
        self._closing.clear()

    def close(self) -> None:
        """End a wait for events; there is no library to let go."""
        self._closing.set()

    def fleet(self) -> Fleet:
        """The GPUs that xe or i915 drives now. Raises DriverError where neither is loaded."""
        driver = self._driver()
        if driver is None:
            raise DriverError("neither xe nor i915 is loaded")
        found = [(card.place, card) for card in self._listing.tell()]
        gpus = tuple(_facts(index, card) for index, (_, card) in enumerate(found))
        return Fleet(Driver(Vendor.INTEL, module_version(self.roots, driver)), gpus, pci_links(found))

    def sample(self, uuid: DeviceId) -> Sample:
        """Readings from the kernel's files. Power is the energy since the last sample: the first has none."""
        card = self._card(uuid)
        now_s = self.clock_s()
        hwmon = card.hwmon(card.driver)
        energy_uj = _energy_uj(hwmon)
        celsius = _celsius(hwmon)
        return Sample(
            now_s,
            power_w=self._power_w(uuid, now_s, energy_uj),
            energy_mj=scaled(energy_uj, 1000),
            gpu_celsius=celsius.get("pkg"),
            memory_celsius=celsius.get("vram"),
            sm_clock_mhz=_clock_mhz(card),
        )

    def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """Raises GpuLostError always, because these GPUs have no instances."""
        raise GpuLostError(f"{uuid} has no instance {mig_uuid}")

    def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """None always, because the kernel's files do not tell the processes on a GPU."""
        self._card(uuid)
        return None

    def wait_event(self, limit_s: float) -> Event | None:
        """The next event: a GPU came or went. None if there was none within the limit."""
        end_s = self.clock_s() + limit_s
        while not self._closing.is_set():
            if self._listing.changed():
                return Changed()
            left_s = end_s - self.clock_s()
            if left_s <= 0:
                return None
            self._closing.wait(min(POLL_S, left_s))
        return None

    def _driver(self) -> str | None:
        return next((name for name in DRIVERS if (self.roots.sysfs / "module" / name).is_dir()), None)

    def _card(self, uuid: DeviceId) -> DrmCard:
        for card in cards(self.roots, DRIVERS):
            if card.place == uuid:
                return card
        raise GpuLostError(f"the kernel does not show {uuid} any more")

    def _power_w(self, uuid: DeviceId, now_s: float, energy_uj: int | None) -> float | None:
        """The average power of a GPU since the last sample."""
        if energy_uj is None:
            return None
        # The first sample is compared with itself, and no time has passed: it has no power.
        before_s, before_uj = self._energy.get(uuid, (now_s, energy_uj))
        self._energy[uuid] = (now_s, energy_uj)
        # A counter that goes back was reset with the GPU.
        if now_s <= before_s or energy_uj < before_uj:
            return None
        return (energy_uj - before_uj) / 1e6 / (now_s - before_s)


def _facts(index: int, card: DrmCard) -> GpuFacts:
    name, architecture = product(card.device_id)
    return GpuFacts(
        uuid=card.place,
        vendor=Vendor.INTEL,
        index=index,
        product=name,
        minor=card.number,
        memory_mib=_memory_mib(card),
        pci_bus_id=card.pci_bus_id,
        numa_node=card.numa_node,
        architecture=architecture,
        device_nodes=card.device_nodes,
        kernel_driver=card.driver,
        pci_class=number(card.device / "class"),
        pci_device=card.device_id,
    )


def _memory_mib(card: DrmCard) -> int | None:
    """The GPU's own memory: of all tiles (xe), or in all (i915); None for one that uses the machine's."""
    tiles = entries(card.device, "tile[0-9]+")
    sizes = [
        number(tile / "physical_vram_size_bytes") or number(tile / "memory/physical_vram_size_bytes")
        for tile in tiles
    ]
    known = [size for size in sizes if size]
    # The sum of some tiles would pass for the size of the card.
    if known and len(known) == len(tiles):
        return sum(known) // MIB
    size = number(card.folder / "lmem_total_bytes") or number(card.device / "lmem_total_bytes")
    return size // MIB if size else None


def _energy_uj(hwmon: Path) -> int | None:
    """The GPU's energy; the package's where only that is counted."""
    found = number(hwmon / "energy1_input")
    return number(hwmon / "energy2_input") if found is None else found


def _celsius(hwmon: Path) -> dict[str, int]:
    """Temperatures by what they are of; the one sensor of i915 has no label and is the package's."""
    found: dict[str, int] = {}
    for path in entries(hwmon, "temp[0-9]+_input"):
        label = text(hwmon / path.name.replace("_input", "_label"))
        degrees = scaled(number(path), 1000)
        if degrees is not None:
            found.setdefault(label or "pkg", degrees)
    return found


def _clock_mhz(card: DrmCard) -> int | None:
    """The clock of the fastest part of the GPU; 0 is what a sleeping one has."""
    paths = [
        *card.device.glob("tile*/gt*/freq0/act_freq"),
        *card.folder.glob("gt/gt*/rps_act_freq_mhz"),
        card.folder / "gt_act_freq_mhz",
    ]
    return max((mhz for mhz in map(number, paths) if mhz is not None), default=None)
