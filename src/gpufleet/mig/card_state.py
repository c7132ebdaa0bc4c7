"""A card as its driver shows it: its mode, and each GPU instance with its compute instances.

A GPU instance without a compute instance is half made, or half removed: no program can use it, and no list of
MIG devices has it.
"""

from collections.abc import Collection

import msgspec

from gpufleet.model.mig import MigInstance


class GpuInstance(msgspec.Struct, frozen=True):
    """A GPU instance: the driver's number for it, its place, and the numbers of its compute instances."""

    number: int
    place: MigInstance
    compute_instances: tuple[int, ...] = ()
    in_use: bool = False


class CardState(msgspec.Struct, frozen=True):
    """One card. ``pending_mode`` is the mode after the next reset; ``in_use`` is of the card as a whole."""

    mig_enabled: bool
    pending_mode: bool
    gpu_instances: tuple[GpuInstance, ...] = ()
    in_use: bool = False

    def with_held(self, held: Collection[MigInstance], *, card: bool = False) -> "CardState":
        """The state where these instances, or the card with all of them, count as in use in any case."""
        instances = tuple(
            msgspec.structs.replace(one, in_use=True) if card or one.place in held else one
            for one in self.gpu_instances
        )
        return msgspec.structs.replace(self, gpu_instances=instances, in_use=self.in_use or card)
