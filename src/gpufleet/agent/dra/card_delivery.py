"""Which cards go to containers by claims (DRA) and which by the device plugin: each card one way at a time.

The setting says where a card belongs. A card that something still holds the other way stays there until it is
free: a container that runs keeps what it has, and nothing is offered twice meanwhile.
"""

import logging
from collections.abc import Callable, Mapping

import msgspec

from gpufleet.agent.dra.device_pools import Roots, device_pools
from gpufleet.agent.dra.prepared_claims import Prepared
from gpufleet.agent.dra.slice_publisher import Pools
from gpufleet.agent.holders.held_gpus import gpus_of
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.devices.facts import GpuFacts
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
NONE, ALL = "none", "all"
OPTION = "--dra-cards"
# Looks at memory, until holders are known.
UNREADY_S = 0.2


class CardChoice(msgspec.Struct, frozen=True):
    """The cards that belong to claims: all, or those of these indexes and UUIDs."""

    everything: bool = False
    indexes: frozenset[int] = frozenset()
    uuids: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether no card goes to claims."""
        return not (self.everything or self.indexes or self.uuids)

    def has(self, card: GpuFacts) -> bool:
        """Whether a card belongs to claims."""
        return self.everything or card.index in self.indexes or card.uuid in self.uuids

    def without_card(self, node: NodeGpus) -> tuple[str, ...]:
        """The words that name no card of a node, in a fixed order."""
        indexes = sorted(self.indexes - {gpu.facts.index for gpu in node.gpus})
        return (*map(str, indexes), *sorted(self.uuids - {gpu.uuid for gpu in node.gpus}))


def read_choice(text: str) -> CardChoice:
    """The choice as it is written: "none", "all", or indexes and UUIDs with commas. Raises InputError."""
    words = [word.strip() for word in text.split(",")]
    if words in ([NONE], [ALL]):
        return CardChoice(everything=words == [ALL])
    numbers = frozenset(int(word) for word in words if word.isascii() and word.isdigit())
    uuids = frozenset(word for word in words if not (word.isascii() and word.isdigit()))
    if "" in uuids or {NONE, ALL} & uuids:
        expected = f"{NONE}, {ALL}, or indexes and UUIDs of cards with commas"
        raise InputError("no choice of cards", field=OPTION, value=text, expected=expected)
    return CardChoice(indexes=numbers, uuids=uuids)


class CardDelivery:
    """Keeps the cards of both ways while ``run`` runs.

    ``by_plugin`` has the node with the cards of the device plugin alone, ``pools`` those of claims.
    ``whole`` says whether holders and pods are known as far as there are any. ``cuts``: claims get parts
    of cards that are cut when a claim is prepared.
    """

    def __init__(
        self,
        choice: CardChoice,
        gpus: Topic[NodeGpus],
        prepared: Prepared,
        clock: Clock,
        root: Roots,
        *,
        cuts: bool = False,
    ) -> None:
        self._choice = choice
        self._cuts = cuts
        self._gpus = gpus
        self._prepared = prepared
        self._clock = clock
        self._root = root
        self._told: tuple[str, ...] = ()
        self._made: tuple[NodeGpus, frozenset[DeviceId]] | None = None
        self.by_plugin: Topic[NodeGpus] = Topic(NodeGpus(gpus.value.node))
        self.pools: Topic[Pools] = Topic(None)

    async def run(self, holders: Topic[Holders], pods: Topic[NodePods], whole: Callable[[], bool]) -> None:
        """Follow cards, claims and holders until cancelled."""
        async for _ in any_change(self._gpus, self._prepared, holders, pods):
            node = self._gpus.value
            if not node.boot_id:
                continue
            self._tell(self._choice.without_card(node))
            # Before holders are known a card that belongs to claims is offered in neither way.
            self._publish(node, None if not whole() else self.held(holders.value, pods.value))
            while not whole():
                await self._clock.sleep(UNREADY_S)
            self._publish(node, self.held(holders.value, pods.value))

    def goes_to_claims(self, card: GpuFacts) -> bool:
        """Whether a card belongs to claims, or one of them has it or a part of it."""
        prepared = self._prepared.value.values()
        return self._choice.has(card) or any(
            one.gpu == card.uuid for claim in prepared for one in claim.devices
        )

    def _tell(self, words: tuple[str, ...]) -> None:
        """Tell of words without a card; no problem, because a word may mean a card of another node."""
        if words and words != self._told:
            LOG.warning("cards for claims are not on this node", extra={"option": OPTION, "cards": words})
        self._told = words

    async def wait_divided(self) -> None:
        """Wait until holders were known once, and so which way each card goes."""
        while self.pools.value is None:
            await self.pools.changed.wait()

    def held(self, holders: Holders, pods: NodePods) -> dict[DeviceId, str]:
        """The cards that containers hold by the device plugin, with the title of a pod of each."""
        node = self._gpus.value
        cards, plans = [gpu.facts for gpu in node.gpus], {gpu.uuid: gpu.plan for gpu in node.gpus}
        return {
            uuid: one.title
            for one in holders
            for unit in one.units
            for uuid in gpus_of(one, unit, cards, plans, pods)
        }

    def _publish(self, node: NodeGpus, held: Mapping[DeviceId, str] | None) -> None:
        claimed = {device.gpu for claim in self._prepared.value.values() for device in claim.devices}
        held_cards = frozenset(held or ())

        def is_for_claims(gpu: Gpu) -> bool:
            return gpu.uuid in claimed or (self._choice.has(gpu.facts) and gpu.uuid not in held_cards)

        plugins = tuple(gpu for gpu in node.gpus if not is_for_claims(gpu))
        self.by_plugin.publish(msgspec.structs.replace(node, gpus=plugins))
        if held is not None:
            chosen = tuple(gpu for gpu in node.gpus if is_for_claims(gpu))
            offered = frozenset(gpu.uuid for gpu in chosen if self._choice.has(gpu.facts))
            # Claims come and go far more often than cards: the pools are not made anew for them.
            if self._made != (node, offered):
                self._made = (node, offered)
                # Without a card for claims there are no pools, and so no slices.
                pools = device_pools(node, lambda gpu: gpu.uuid in offered, self._root, cuts=self._cuts)
                self.pools.publish(() if self._choice.is_empty else pools)
