"""The answer of ``gpufleet mig plan``: what would be cut, for which pods, and what gets no instance."""

import msgspec

from gpufleet.cluster.mig_layouts.reported_cards import LeftOut

SCHEMA = "gpufleet.io/mig-plan/v1"

DISABLE_MIG = "disable-mig"
"""How the actions begin that bring a card out of MIG mode."""


class PlannedStep(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One step on one card; ``profile`` and ``start`` are those of an instance.

    ``action`` is make, remove, enable-mig or disable-mig; the last two also end in -with-reset.
    """

    action: str
    profile: str = ""
    start: int | None = None


class PlannedCard(msgspec.Struct, frozen=True, rename="camel"):
    """A card that changes: its instances before and after ("1g.10gb@4"), and the steps in order."""

    node: str
    card: str
    in_use: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    steps: tuple[PlannedStep, ...]

    @property
    def wish(self) -> tuple[str, ...] | None:
        """The layout as the annotation of its Node has it; None is a card out of MIG mode."""
        return None if any(one.action.startswith(DISABLE_MIG) for one in self.steps) else self.after


class PlannedInstance(msgspec.Struct, frozen=True, rename="camel"):
    """An instance for a pod that waits; ``exists`` where it need not be made."""

    pod: str
    node: str
    card: str
    profile: str
    start: int
    exists: bool


class WithoutInstance(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that gets no instance, and why."""

    pod: str
    profiles: tuple[str, ...]
    reason: str


class RepartitionPlan(msgspec.Struct, frozen=True, rename="camel"):
    """The whole answer."""

    schema: str
    at: str
    cards: tuple[PlannedCard, ...]
    instances: tuple[PlannedInstance, ...]
    unserved: tuple[WithoutInstance, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()
    config: str = ""
    """The config that the cards would be brought to; empty where they are cut for pods that wait."""
