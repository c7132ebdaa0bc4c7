"""AMD's GPUs through the amdgpu driver's files below /sys, and amdsmi where that is installed.

A partitioned GPU (SPX cut into CPX, say) stays one GPU with its partitions as instances: they share
its memory's heat, its power and its fate. Programs need /dev/kfd beside the nodes named here; that one
is all GPUs' own. The files are those of the kernel's documentation (gpu/amdgpu/driver-misc, thermal,
ras) and of the compute driver's topology.
"""

import threading
from collections.abc import Callable

from gpufleet.devices.amd.gpu_metrics import energy_mj
from gpufleet.devices.amd.kfd import KfdNode, kfd_nodes, xgmi_links
from gpufleet.devices.amd.products import product
from gpufleet.devices.amd.smi import Library, load_library
from gpufleet.devices.backend import Changed, Event
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.drm_cards import (
    CardListing,
    DrmCard,
    Roots,
    cards,
    drm_nodes,
    module_version,
    pci_links,
)
from gpufleet.devices.facts import Driver, Fleet, GpuFacts, Link, MigFacts
from gpufleet.devices.sample import Memory, ProcessUse, Sample
from gpufleet.devices.sysfs import MIB, content, entries, number, scaled, table, text
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId

DRIVER = "amdgpu"
POLL_S = 1.0
"""How often to look whether a GPU came or went: the kernel's files send no events."""


class AmdBackend:
    """AMD's GPUs on this node."""

    def __init__(
        self,
        roots: Roots,
        clock_s: Callable[[], float],
        load: Callable[[], Library | None] = load_library,
    ) -> None:
        self.roots = roots
        self.clock_s = clock_s
        self._load = load
        self._library: Library | None = None
        self._listing = CardListing(roots, (DRIVER,))
        self._resets: dict[DeviceId, int] = {}
        self._closing = threading.Event()

    def open(self) -> None:
        """Load amdsmi if it is installed. Raises DriverError where amdgpu is not loaded."""
        self._check_driver()
        self._closing.clear()
        self._library = self._load()

    def close(self) -> None:
        """Let amdsmi go; a wait for events ends."""
        self._closing.set()
        if self._library is not None:
            self._library.close()

    def fleet(self) -> Fleet:
        """The GPUs that amdgpu drives now. Raises DriverError where it is not loaded."""
        self._check_driver()
        found = [(_uuid(card), card) for card in self._listing.tell()]
        nodes = _nodes_of_cards(kfd_nodes(self.roots.sysfs), found)
        gpus = tuple(
            _facts(index, uuid, card, nodes.get(uuid, []), self.roots)
            for index, (uuid, card) in enumerate(found)
        )
        version = None if self._library is None else self._library.version
        driver = Driver(Vendor.AMD, module_version(self.roots, DRIVER), vendor_library_version=version)
        return Fleet(driver, gpus, pci_links(found) | self._xgmi_links(nodes))

    def sample(self, uuid: DeviceId) -> Sample:
        """Readings of a GPU from the kernel's files; a value without a file is None."""
        card = self._card(uuid)
        folder = card.device
        hwmon = card.hwmon(DRIVER)
        # The kernel counts thousandths of a degree and hertz.
        celsius = _labelled(card, "temp", 1000)
        mhz = _labelled(card, "freq", 1_000_000)
        # The driver shows a file only where the product measures it: some have the average, some the moment.
        power_uw = number(hwmon / "power1_average")
        power_uw = number(hwmon / "power1_input") if power_uw is None else power_uw
        return Sample(
            self.clock_s(),
            gpu_busy_pct=number(folder / "gpu_busy_percent"),
            memory_busy_pct=number(folder / "mem_busy_percent"),
            memory=_memory(card),
            power_w=None if power_uw is None else power_uw / 1e6,
            energy_mj=energy_mj(content(folder / "gpu_metrics")),
            # Cards for data centres have had no sensor at the edge for some generations.
            gpu_celsius=celsius.get("edge", celsius.get("junction")),
            memory_celsius=celsius.get("mem"),
            sm_clock_mhz=mhz.get("sclk"),
            memory_clock_mhz=mhz.get("mclk"),
            pcie_replays=number(folder / "pcie_replay_count"),
            pcie_width=number(folder / "current_link_width"),
            uncorrected_errors=_uncorrected(card),
            resets=self._resets.get(uuid, 0),
        )

    def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """The readings of a partition, which are all absent: no file tells of one partition."""
        card = self._card(uuid)
        nodes = _nodes_of_cards(kfd_nodes(self.roots.sysfs), [(uuid, card)]).get(uuid, [])
        # Only its partitions are looked at, and they do not depend on the index.
        gpu = _facts(0, uuid, card, nodes, self.roots)
        if mig_uuid not in [one.uuid for one in gpu.mig]:
            raise GpuLostError(f"{uuid} has no partition {mig_uuid}")
        return Sample(self.clock_s(), resets=self._resets.get(uuid, 0))

    def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """The processes on a GPU; None without amdsmi, because the files do not tell them."""
        card = self._card(uuid)
        return None if self._library is None else self._library.processes(card.pci_bus_id)

    def wait_event(self, limit_s: float) -> Event | None:
        """The next event: a GPU came or went, or, where amdsmi is there, was reset."""
        end_s = self.clock_s() + limit_s
        while not self._closing.is_set():
            if self._listing.changed():
                return Changed()
            left_s = max(0.0, end_s - self.clock_s())
            # Before the limit is looked at: with a limit of 0 what has happened already is told.
            uuid = self._reset_within(min(POLL_S, left_s))
            if uuid is not None:
                return Changed(uuid)
            if left_s <= 0:
                return None
        return None

    def _reset_within(self, limit_s: float) -> DeviceId | None:
        """The GPU that was or is being reset; waits ``limit_s`` for one at most."""
        if self._library is None:
            self._closing.wait(limit_s)
            return None
        seen = self._library.wait_reset(limit_s)
        if seen is None:
            return None
        # Read anew: what was listed before a reset need not hold after it.
        places = {card.pci_bus_id: _uuid(card) for card in cards(self.roots, (DRIVER,))}
        uuid = places.get(seen.pci_bus_id)
        if uuid is not None and seen.over:
            self._resets[uuid] = self._resets.get(uuid, 0) + 1
        return uuid

    def _xgmi_links(self, nodes: dict[DeviceId, list[KfdNode]]) -> dict[tuple[DeviceId, DeviceId], Link]:
        """The GPUs that XGMI joins; links between partitions of one GPU are its own affair."""
        owners = {node.number: uuid for uuid, own in nodes.items() for node in own}
        links = xgmi_links(self.roots.sysfs, [node for own in nodes.values() for node in own])
        ends = ((owners[near], owners[far]) for near, far in links if far in owners)
        # The kernel tells a link once from either end.
        return {(min(one, other), max(one, other)): Link.DIRECT for one, other in ends if one != other}

    def _check_driver(self) -> None:
        if not (self.roots.sysfs / "module" / DRIVER).is_dir():
            raise DriverError(f"{DRIVER} is not loaded")

    def _card(self, uuid: DeviceId) -> DrmCard:
        for card in cards(self.roots, (DRIVER,)):
            if _uuid(card) == uuid:
                return card
        raise GpuLostError(f"the kernel does not show {uuid} any more")


def _uuid(card: DrmCard) -> DeviceId:
    """The GPU's own number, as the runtime writes it; its place where it has none."""
    own = text(card.device / "unique_id")
    # The driver writes zeros for a card without a number.
    return DeviceId(f"GPU-{own}") if own and own.strip("0") else card.place


def _facts(index: int, uuid: DeviceId, card: DrmCard, nodes: list[KfdNode], roots: Roots) -> GpuFacts:
    modes = _modes(card)
    # Each part of a partitioned GPU is a node of its own to the kernel's compute driver.
    partitions = nodes if len(nodes) > 1 else []
    units = [node.compute_units for node in nodes if node.compute_units is not None]
    total = number(card.device / "mem_info_vram_total")
    return GpuFacts(
        uuid=uuid,
        vendor=Vendor.AMD,
        index=index,
        product=text(card.device / "product_name") or product(card.device_id),
        minor=card.number,
        memory_mib=None if total is None else total // MIB,
        pci_bus_id=card.pci_bus_id,
        serial=text(card.device / "serial_number"),
        numa_node=card.numa_node,
        multiprocessors=sum(units) if units else None,
        architecture=nodes[0].architecture if nodes else None,
        mig_enabled=bool(partitions) if modes else None,
        mig=tuple(_partition(part, uuid, card, node, roots) for part, node in enumerate(partitions)),
        device_nodes=card.device_nodes,
        pci_class=number(card.device / "class"),
        pci_device=card.device_id,
        simd_units=sum(node.simd_units for node in nodes) if nodes else None,
        partitioning=modes or None,
    )


def _modes(card: DrmCard) -> str:
    """How the GPU is partitioned, as in AMD's resource names: "cpx_nps4"; "" where it cannot be."""
    modes = [text(card.device / f"current_{what}_partition") or "" for what in ("compute", "memory")]
    return "_".join(mode.lower() for mode in modes if mode) if modes[0] else ""


def _partition(part: int, uuid: DeviceId, card: DrmCard, node: KfdNode, roots: Roots) -> MigFacts:
    """One partition."""
    device = (roots.sysfs / f"class/drm/renderD{node.render_minor}/device").resolve()
    return MigFacts(
        f"{uuid}-p{part}",
        _modes(card),
        start=part,
        gpu_instance=part,
        compute_instance=0,
        memory_mib=node.memory_mib,
        multiprocessors=node.compute_units,
        device_nodes=drm_nodes(device, roots.dev),
    )


def _nodes_of_cards(
    nodes: list[KfdNode], found: list[tuple[DeviceId, DrmCard]]
) -> dict[DeviceId, list[KfdNode]]:
    """The compute driver's nodes of each GPU; some releases keep a partition's number in the function."""
    places = {_location(card): uuid for uuid, card in found}
    by_card: dict[DeviceId, list[KfdNode]] = {}
    for node in nodes:
        # A location is bus << 8 | device << 3 | function: 0xFFF8 leaves the function out.
        exact, whole = (node.domain, node.location), (node.domain, node.location & 0xFFF8)
        uuid = places.get(exact, places.get(whole))
        if uuid is not None:
            by_card.setdefault(uuid, []).append(node)
    return by_card


def _location(card: DrmCard) -> tuple[int, int]:
    domain, bus, rest = card.pci_bus_id.split(":")
    device, function = rest.split(".")
    return int(domain, 16), int(bus, 16) << 8 | int(device, 16) << 3 | int(function)


def _memory(card: DrmCard) -> Memory:
    total, used = (number(card.device / f"mem_info_vram_{what}") for what in ("total", "used"))
    # The two files are of two moments.
    free = None if total is None or used is None else max(0, total - used)
    return Memory(None if used is None else used // MIB, None if free is None else free // MIB)


def _labelled(card: DrmCard, kind: str, divisor: int) -> dict[str, int]:
    """Sensors of a kind by their labels."""
    hwmon = card.hwmon(DRIVER)
    found = (
        (text(hwmon / path.name.replace("_input", "_label")), scaled(number(path), divisor))
        for path in entries(hwmon, f"{kind}[0-9]+_input")
    )
    return {label: value for label, value in found if label is not None and value is not None}


def _uncorrected(card: DrmCard) -> int | None:
    """Errors that could not be corrected, in all blocks that count them."""
    counts = [
        count
        for path in entries(card.device / "ras", "[a-z0-9_]+_err_count|aca_[a-z0-9_]+")
        if (count := table(path).get("ue")) is not None
    ]
    return sum(counts) if counts else None
