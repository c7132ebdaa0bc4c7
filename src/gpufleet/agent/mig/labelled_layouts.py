"""What the label ``nvidia.com/mig.config`` has the cards of a node be, by a file of mig-parted.

A name that the file lacks may be one that mig-parted makes of the hardware, such as ``all-balanced``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.generated_mig_configs import generated_layout
from gpufleet.devices.mig_parted import (
    MigConfigError,
    MigConfigs,
    WantedLayout,
    read_mig_configs,
    wanted_layout,
)
from gpufleet.devices.pci_devices import pci_devices
from gpufleet.files.regular import read_regular
from gpufleet.mig.card_state import CardState
from gpufleet.mig.cards import CardInstance, MigCard
from gpufleet.mig.change import layout_of
from gpufleet.mig.counted import counted_layout
from gpufleet.model import gpu_model
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry
from gpufleet.model.mig_boards import BOARDS

FILE_BYTES_MAX = 1 << 20
"""What a ConfigMap holds."""


class LabelledLayouts:
    """The configs of one file, read anew as it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[bytes, MigConfigs] | None = None

    def of(self, name: str, gpus: Sequence[Gpu]) -> Mapping[DeviceId, WantedLayout]:
        """What a config says of cards. Raises InputError for its name or its file, and OSError."""
        configs = self._configs()
        cards = [gpu for gpu in gpus if gpu.facts.vendor is Vendor.NVIDIA]
        generated = {} if name in configs.by_name else _generated(name, cards)
        if generated:
            return generated
        entries = configs.named(name)
        found = {}
        for number, gpu in enumerate(cards):
            model = gpu_model.find(gpu.facts.product)
            ids = frozenset[int]() if model is None else pci_devices(model.name)
            wanted = wanted_layout(entries, number, ids)
            if wanted is not None:
                found[gpu.uuid] = wanted
        return found

    def _configs(self) -> MigConfigs:
        data = read_regular(self._path, FILE_BYTES_MAX)
        if self._read is None or self._read[0] != data:
            self._read = data, read_mig_configs(data, str(self._path))
        return self._read[1]


def _generated(name: str, cards: Sequence[Gpu]) -> dict[DeviceId, WantedLayout]:
    found = {}
    for gpu in cards:
        model = gpu_model.find(gpu.facts.product)
        geometry = None if model is None else BOARDS.get(model.name)
        layout = None if geometry is None else generated_layout(name, geometry)
        if layout is not None:
            found[gpu.uuid] = layout
    return found


def layout_for(
    node: str, card: DeviceId, state: CardState, geometry: MigGeometry, wanted: WantedLayout
) -> Layout | None:
    """The layout of a card with so many instances of each profile, around what is in use.

    One that the card has already stays. Raises InputError for what the board does not have, and MigPlanError
    where it does not fit around what is in use.
    """
    if wanted.counts is None:
        return None
    layout = layout_of(state)
    counts = {name: count for name, count in wanted.counts.items() if count}
    if layout is not None and Counter(one.profile for one in layout) == counts:
        return layout
    if geometry.placed(geometry.profile(name) for name in Counter(counts).elements()) is None:
        text = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
        raise MigConfigError("the card has no room for these", field="mig-devices", value=text)
    instances = tuple(CardInstance(one.place, one.in_use) for one in state.gpu_instances)
    return counted_layout(MigCard(node, card, geometry, state.mig_enabled, instances), counts)
