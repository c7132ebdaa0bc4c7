"""Cards are cut for pods that wait for MIG instances, where the settings ask for it.

    reasons of the engine, cards as reported -> ``mig.demand`` chooses -> annotation of the Node

The engine says which nodes would take a pod if they had the instances that it asks for; pods that a queue
bars ask for nothing. A layout and the record of its choice are one write, so that a scheduler that starts
anew finds both or none. For how long a card has been unused is counted anew then, which only makes it whole
later.
"""

import datetime as dt
import logging
from collections.abc import Callable

import msgspec

from gpufleet.cluster.mig_layouts.managed_cards import managed_cards, words_of
from gpufleet.cluster.mig_layouts.node_writer import write_layouts
from gpufleet.cluster.pods.pod_entry import Entry, Intent, PodStage
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.engine.node_reasons import (
    gpu_busy,
    gpu_count,
    gpu_sharing,
    gpu_withheld,
    no_gpu,
)
from gpufleet.engine.scheduler import Engine
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.demand import DemandRules, ManagedCard, NewLayout, choose
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, DemandRecord, layout_texts
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.model.relations import Relations
from gpufleet.model.resource_names import is_mig_instance
from gpufleet.model.shape import Shape
from gpufleet.scheduler.mig_wanted import LackingPod, wanted_instances

LOG = logging.getLogger(__name__)

TURN_EVERY_S = 5.0
"""A card takes about as long to be cut."""

PODS_A_TURN = 64
"""Each asks every card; those that are left have their turn once these have instances."""

SHAPES_A_TURN = 64
"""Pods of one shape have the same reasons, and each shape asks every node."""

LACKS_WHOLE_CARD = {one.REASON.name for one in (gpu_busy, gpu_count, gpu_sharing, gpu_withheld, no_gpu)}

WITH_GANG = 1_000_000
"""Whole cards that a member of a gang lacks: how many would start the gang is not worked out here, so no card
is made whole for it, and none is cut that it may need."""


class MigDemand:
    """Takes turns while ``run`` runs, if there are rules. ``may_write`` is false once we do not lead."""

    def __init__(
        self,
        rules: DemandRules | None,
        client: Client,
        cluster: Lookup,
        engine: Engine,
        pods: PodTracker,
        *,
        busy: Callable[[], bool],
        may_write: Callable[[], bool],
    ) -> None:
        self.rules = rules
        self.client = client
        self.cluster = cluster
        self.engine = engine
        self.pods = pods
        self.busy = busy
        self.may_write = may_write
        self._unused_since: dict[DeviceId, dt.datetime] = {}

    async def run(self) -> None:
        """Take turns until cancelled."""
        while self.rules is not None:
            await self.client.clock.sleep(TURN_EVERY_S)
            if not self.busy():
                await self._write(self.chosen(self.rules))

    def chosen(self, rules: DemandRules) -> list[NewLayout]:
        """The layouts that are to be written now."""
        now = self.client.clock.now()
        cards = self._cards(now)
        if not cards:
            return []
        waiting = self._waiting()
        wanted = wanted_instances(waiting, self.engine.state.gangs.described, PODS_A_TURN)
        return choose(cards, wanted, self._whole_cards(waiting, cards), rules, now)

    def _cards(self, now: dt.datetime) -> list[ManagedCard]:
        """The cards of nodes on which layouts are carried out."""
        followed = [one for one in self.cluster.all(resources.NODES) if _is_followed(one)]
        bound = self._bound({one.metadata.name for one in followed})
        found = [
            card
            for node in sorted(followed, key=lambda one: one.metadata.name)
            for card in managed_cards(
                node,
                self.cluster.find(resources.NODE_DEVICES, node.metadata.name),
                bound.get(node.metadata.name, []),
                self._unused_since,
            )
        ]
        unused = {one.card.id for one in found if not (one.card.held or one.card.in_use)}
        self._unused_since = {card: self._unused_since.get(card, now) for card in unused}
        return found

    def _bound(self, nodes: set[str]) -> dict[str, list[Pod]]:
        """The pods of these nodes, with those whose Bindings are under way."""
        found: dict[str, list[Pod]] = {}
        for pod in self.cluster.all(resources.PODS):
            entry = self.pods.entries.get(PodUid(pod.metadata.uid))
            intent = None if entry is None else entry.intent
            node = pod.spec.node_name or ("" if intent is None else intent.node)
            if node not in nodes:
                continue
            found.setdefault(node, []).append(pod if intent is None else _with_grant(pod, intent))
        return found

    def _waiting(self) -> list[LackingPod]:
        """Pods that wait for GPUs of a node and for nothing of a queue, with every node's reasons."""
        entries = [one for one in self.pods.entries.values() if one.place is PodStage.WAITING]
        found = []
        known: dict[tuple[Shape, object], dict[NodeName, tuple[str, ...]] | None] = {}
        for entry in sorted(entries, key=_urgency):
            meaning = entry.meaning
            if meaning is None or entry.intent is not None or not _asks_for_cards(meaning.shape):
                continue
            verdict = self.engine.explain(meaning.uid)
            if verdict is None or verdict.bar is not None or verdict.quota is not None:
                continue
            # What neighbours make of a pod depends on its labels too.
            key = meaning.shape, meaning.labels if meaning.shape.relations != Relations() else None
            if key not in known:
                if len(known) == SHAPES_A_TURN:
                    break
                known[key] = self.engine.reasons_by_node(meaning.uid)
            reasons = known[key]
            # A node without a reason takes a single pod in the next round.
            if reasons is not None and (meaning.gang is not None or all(reasons.values())):
                found.append(LackingPod(entry.object, meaning, reasons))
        return found

    def _whole_cards(self, waiting: list[LackingPod], cards: list[ManagedCard]) -> dict[str, int]:
        """How many whole cards the first pod lacks on each node that would take it with them."""
        free: dict[str, int] = {}
        for card in cards:
            is_free = not (card.card.mig_enabled or card.card.in_use or card.changes)
            free[card.card.node] = free.get(card.card.node, 0) + is_free
        lacking: dict[str, int] = {}
        for one in waiting:
            gpu = one.meaning.shape.gpu
            if not (gpu.count and gpu.whole):
                continue
            for name, has in one.reasons.items():
                if set(has) <= LACKS_WHOLE_CARD and str(name) in free:
                    count = max(1, gpu.count - free[str(name)])
                    lacking.setdefault(str(name), count if one.meaning.gang is None else WITH_GANG)
        return lacking

    async def _write(self, layouts: list[NewLayout]) -> None:
        by_node: dict[str, list[NewLayout]] = {}
        for one in layouts:
            by_node.setdefault(one.node, []).append(one)
        for name, chosen in by_node.items():
            node = self.cluster.find(resources.NODES, name)
            if node is None or not self.may_write():
                continue
            now = self.client.clock.now().replace(microsecond=0)
            records = {one.card: DemandRecord(layout_texts(one.layout), now, one.pods) for one in chosen}
            wishes = {one.card: one.layout for one in chosen}
            before = node.metadata.annotations.get(LAYOUTS_ANNOTATION, "")
            try:
                await write_layouts(
                    self.client, name, wishes, before, records, self.may_write, subresource="status"
                )
            except (KubeError, WorldError) as error:
                # The next turn chooses anew, from what the Node says then.
                LOG.warning("a MIG layout is not written", extra={"node": name, "problem": str(error)})
                continue
            for one in chosen:
                layout = " ".join(layout_texts(one.layout) or ("whole",))
                extra = {"node": name, "gpu": one.card, "layout": layout, "pods": list(one.pods)}
                LOG.info("a MIG layout is chosen on demand", extra=extra)


def _is_followed(node: Node) -> bool:
    try:
        return words_of(node).is_followed
    except InputError:
        return False


def _with_grant(pod: Pod, intent: Intent) -> Pod:
    """A pod as it will be once its Binding is made."""
    annotations = {**pod.metadata.annotations, **intent.annotations}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations)
    )


def _asks_for_cards(shape: Shape) -> bool:
    return bool(shape.gpu.count) or any(is_mig_instance(name) for name, _ in shape.resources.other)


def _urgency(entry: Entry) -> tuple[int, str, str]:
    pod = entry.object
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.path
