"""The node's GPUs as they are offered: without what is withheld while a card's layout changes.

What is withheld is taken out, not marked as sick: an Allocate that is under way for it is refused.
"""

from collections.abc import Mapping

import msgspec

from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import MigFacts
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance

Withheld = Mapping[DeviceId, frozenset[MigInstance]]
"""Instances by card. The card itself is withheld as long as it is out of MIG mode."""


def without_withheld(node: NodeGpus, withheld: Withheld) -> NodeGpus:
    """The GPUs that are offered."""
    found = tuple(
        _cut(gpu, withheld[gpu.uuid]) if gpu.uuid in withheld else gpu
        for gpu in node.gpus
        if gpu.uuid not in withheld or gpu.facts.mig_enabled
    )
    return msgspec.structs.replace(node, gpus=found)


def _cut(gpu: Gpu, places: frozenset[MigInstance]) -> Gpu:
    left = tuple(one for one in gpu.facts.mig if not _is_withheld(one, places))
    return msgspec.structs.replace(gpu, facts=msgspec.structs.replace(gpu.facts, mig=left))


def _is_withheld(one: MigFacts, places: frozenset[MigInstance]) -> bool:
    # An instance without a place may be any of them.
    return one.start is None or MigInstance(one.start, one.profile) in places


class OfferedGpus:
    """Keeps ``topic`` while ``run`` runs; what is withheld leaves it at once."""

    def __init__(self, gpus: Topic[NodeGpus], withheld: Withheld) -> None:
        self._gpus = gpus
        self._withheld = dict(withheld)
        self.topic = Topic(without_withheld(gpus.value, withheld))

    async def run(self) -> None:
        """Follow the GPUs until cancelled."""
        async for _ in self._gpus.follow():
            self.follow_now()

    def withhold(self, card: DeviceId, places: frozenset[MigInstance]) -> None:
        """Offer these no more."""
        self._withheld[card] = places
        self.follow_now()

    def release(self, card: DeviceId) -> None:
        """Offer all of a card again."""
        self._withheld.pop(card, None)
        self.follow_now()

    def follow_now(self) -> None:
        """Have ``topic`` say the GPUs as they are told now."""
        self.topic.publish(without_withheld(self._gpus.value, self._withheld))
