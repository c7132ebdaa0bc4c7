"""Configs that mig-parted makes of the hardware, by the names that it gives them, for files that lack them.

``all-disabled`` and ``all-enabled`` are the MIG mode; ``all-1g.10gb`` is as many instances of a profile as
fit; ``all-balanced`` is a mix of sizes.
"""

from collections.abc import Mapping

from gpufleet.devices.mig_parted import WantedLayout
from gpufleet.model.mig import MigGeometry

PREFIX = "all-"

BALANCED: Mapping[int, Mapping[int, int]] = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}
"""Instances of ``all-balanced`` by their compute slices, for a board with so many of these."""


def generated_layout(name: str, geometry: MigGeometry) -> WantedLayout | None:
    """What the config of this name has a card be; None where its hardware has no such config."""
    if name == "all-disabled":
        return WantedLayout(None)
    if name == "all-enabled":
        return WantedLayout({})
    if name == "all-balanced":
        return _balanced(geometry)
    # A label holds no plus sign: 1g.10gb+me is 1g.10gb.me there.
    found = (one for one in geometry.profiles if name == PREFIX + one.name.replace("+", "."))
    return next((WantedLayout({one.name: one.maximum}) for one in found), None)


def _balanced(geometry: MigGeometry) -> WantedLayout | None:
    counts = BALANCED.get(geometry.compute_slices)
    if counts is None:
        return None
    smallest = {
        slices: min(
            (one for one in geometry.plain_profiles if one.compute_slices == slices),
            key=lambda one: one.memory_slices,
        )
        for slices in counts
    }
    return WantedLayout({smallest[slices].name: count for slices, count in counts.items()})
