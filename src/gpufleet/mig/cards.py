"""A card that is cut or can be: its instances, which are in use, and how its mode is switched."""

import enum

import msgspec

from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry, MigInstance


class ModeSwitch(enum.Enum):
    """How a card's MIG mode is switched."""

    AT_ONCE = "at once"
    BY_RESET = "by reset"
    """The mode is pending until the card is reset, as with NVIDIA's architecture Ampere."""


class CardInstance(msgspec.Struct, frozen=True):
    """An instance that exists. ``in_use`` also where a program holds it that no pod of the cluster has."""

    place: MigInstance
    in_use: bool = False


class MigCard(msgspec.Struct, frozen=True):
    """One card. ``mig_enabled`` says whether it is in MIG mode: in any other it has no instances.

    ``in_use`` says that a pod or a program has the card itself: its mode stays then. ``is_fixed``: its layout
    stays, and only the instances that it has are given.
    """

    node: str
    id: DeviceId
    geometry: MigGeometry
    mig_enabled: bool
    instances: tuple[CardInstance, ...] = ()
    in_use: bool = False
    mode_switch: ModeSwitch = ModeSwitch.AT_ONCE
    is_fixed: bool = False

    @property
    def layout(self) -> Layout:
        """All instances, by start."""
        return tuple(sorted(one.place for one in self.instances))

    @property
    def held(self) -> Layout:
        """The instances in use, by start."""
        return tuple(sorted(one.place for one in self.instances if one.in_use))

    @property
    def unused(self) -> Layout:
        """The instances that nothing uses, by start."""
        return tuple(sorted(one.place for one in self.instances if not one.in_use))

    @property
    def can_be_cut(self) -> bool:
        """Whether instances can be made on it, if need be after its mode is switched."""
        return self.mig_enabled or not self.in_use
