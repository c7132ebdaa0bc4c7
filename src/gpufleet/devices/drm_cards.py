"""The GPUs that the kernel's graphics layer shows, and how they reach one another over PCI.

Every GPU driver registers a ``cardN``, and mostly a ``renderDN``, below /sys/class/drm. A virtual function
(SR-IOV) is a part of a card, not a card, where its physical function is on this machine too.
"""

import re
from collections.abc import Collection
from itertools import combinations, takewhile
from pathlib import Path

import msgspec

from gpufleet.devices.facts import Link
from gpufleet.devices.sysfs import entries, number, text
from gpufleet.model.identifiers import DeviceId

PCI_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"


class Roots(msgspec.Struct, frozen=True):
    """Where this machine's files are: /sys, /dev, and the kernel's release."""

    sysfs: Path
    dev: Path
    kernel_release: str


class DrmCard(msgspec.Struct, frozen=True):
    """One GPU: its folder below /sys/class/drm, and that of the device behind it."""

    number: int
    folder: Path
    device: Path
    pci_bus_id: str
    driver: str
    device_id: int | None
    numa_node: int | None
    device_nodes: tuple[str, ...]

    @property
    def place(self) -> DeviceId:
        """An id for a card that has no number of its own: where it is, and what."""
        return DeviceId(f"{self.pci_bus_id}-0x{self.device_id or 0:04x}")

    def hwmon(self, chip: str) -> Path:
        """The folder of the sensors of a chip on it; one without readings where there are none."""
        found = entries(self.device / "hwmon", "hwmon[0-9]+")
        return next((folder for folder in found if text(folder / "name") == chip), self.device / "hwmon")


class CardListing:
    """Which cards there are, and whether they differ from those that the last ``tell`` gave."""

    def __init__(self, roots: Roots, drivers: Collection[str]) -> None:
        self.roots = roots
        self.drivers = drivers
        self._told: list[DeviceId] | None = None

    def tell(self) -> list[DrmCard]:
        """The cards that the kernel shows now."""
        found = cards(self.roots, self.drivers)
        self._told = [card.place for card in found]
        return found

    def changed(self) -> bool:
        """Whether a card came or went; each change is said once."""
        told = self._told
        # ``tell`` notes what it found, so the same change is not told again.
        return told is not None and told != [card.place for card in self.tell()]


def cards(roots: Roots, drivers: Collection[str]) -> list[DrmCard]:
    """The GPUs of these drivers, by PCI address."""
    found = [_card(folder, roots) for folder in entries(roots.sysfs / "class/drm", "card[0-9]+")]
    ours = [card for card in found if card is not None and card.driver in drivers]
    places = {card.device for card in ours}
    # A virtual function of a card that is here would count the same hardware twice.
    whole = [card for card in ours if (card.device / "physfn").resolve() not in places]
    return sorted(whole, key=lambda card: card.pci_bus_id)


def module_version(roots: Roots, driver: str) -> str:
    """The driver's own version, or the kernel's for one that comes with it."""
    return text(roots.sysfs / "module" / driver / "version") or roots.kernel_release


def pci_links(found: list[tuple[DeviceId, DrmCard]]) -> dict[tuple[DeviceId, DeviceId], Link]:
    """The best way over PCI between each two cards."""
    return {
        (min(one, other), max(one, other)): _pci_link(card, far)
        for (one, card), (other, far) in combinations(found, 2)
    }


def drm_nodes(device: Path, dev: Path) -> tuple[str, ...]:
    """The device nodes of a device that are there, as paths below /dev."""
    names = [path.name for path in entries(device / "drm", "card[0-9]+|renderD[0-9]+")]
    return tuple(f"/dev/dri/{name}" for name in names if (dev / "dri" / name).exists())


def _card(folder: Path, roots: Roots) -> DrmCard | None:
    device = (folder / "device").resolve()
    driver = (device / "driver").resolve().name
    if not re.fullmatch(PCI_ADDRESS, device.name) or not device.is_dir():
        return None
    numa_node = number(device / "numa_node")
    return DrmCard(
        int(folder.name.removeprefix("card")),
        folder,
        device,
        device.name,
        driver,
        number(device / "device"),
        # The kernel says -1 where it knows of no node.
        numa_node if numa_node is not None and numa_node >= 0 else None,
        drm_nodes(device, roots.dev),
    )


def _pci_link(one: DrmCard, other: DrmCard) -> Link:
    """The link of two devices by what their paths in sysfs share: bridges, a host bridge, or neither."""
    pairs = list(zip(one.device.parts, other.device.parts, strict=False))
    shared = [left for left, right in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    if shared[-1].startswith("pci"):
        return Link.HOST_BRIDGE
    if ":" in shared[-1]:
        # Each bridge in between is a folder more on the path.
        below = max(len(one.device.parts), len(other.device.parts)) - len(shared)
        return Link.SINGLE_SWITCH if below <= 2 else Link.MULTIPLE_SWITCHES
    if one.numa_node is not None and one.numa_node == other.numa_node:
        return Link.NUMA_NODE
    return Link.SYSTEM
