"""Cards that are cut for pods that wait: what was made is kept for these pods.

A pod whose cards are all cut goes to its node before others (``event.RoomMade``), in the very step in which
the engine hears that the instances are there. While a card for it is still being cut, instances that were
made for it already are hidden from the engine. The same holds for a gang over all of its members and nodes;
once all is there the gang starts in its turn.

All of it follows from the Nodes, so that a scheduler that starts anew comes to the same. Only what the
kubelet counts is there: before that no pod could be bound to it.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable

import msgspec

from gpufleet.cluster.mig_layouts.managed_cards import words_of
from gpufleet.cluster.mig_layouts.waiting_pods import instances_of
from gpufleet.cluster.nodes.cuts_to_come import without_instances
from gpufleet.engine.event import RoomMade
from gpufleet.kube import resources
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.node import counted_parts
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects.node_devices import HEALTHY, NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.wanted import DEMAND_ANNOTATION, LayoutState
from gpufleet.model import pod as model
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid
from gpufleet.model.mig import Layout, MigInstance
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.resource_names import mig_resource

Holder = PodUid | GangName


class CutCard(msgspec.Struct, frozen=True):
    """A card that was cut, or is being cut, for pods.

    ``is_reported``: its agent reports its instances. ``is_counted``: the node's kubelet counts as many of
    their profiles as are reported of all its cards.
    """

    card: DeviceId
    layout: Layout
    pods: tuple[str, ...]
    since: dt.datetime
    is_reported: bool
    is_counted: bool
    has_failed: bool

    @property
    def is_there(self) -> bool:
        """Whether a pod can be bound to its instances."""
        return self.is_reported and self.is_counted


class NodeCuts(msgspec.Struct, frozen=True):
    """The cards of a node that are cut for pods, and instances that the kubelet counts beyond the report.

    The Node and the report are not of one moment: what is counted and not reported yet was just made.
    """

    cards: tuple[CutCard, ...] = ()
    ahead: tuple[tuple[str, int], ...] = ()


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod that waits, as written and as understood."""

    written: Pod
    meaning: model.Pod


class CutsForPods:
    """The cards of all nodes that are cut for pods. ``waiting`` is the meaning of a pod that waits."""

    def __init__(self, cluster: Lookup, waiting: Callable[[PodUid], model.Pod | None]) -> None:
        self._cluster = cluster
        self._waiting = waiting
        self._by_node: dict[NodeName, NodeCuts] = {}

    def hear(self, name: NodeName, written: wire.Node | None, report: NodeDevices | None) -> set[NodeName]:
        """A node's objects changed, or it is gone: the other nodes for which that means something."""
        now = NodeCuts() if written is None or report is None else _cuts(written, report)
        before = self._by_node.get(name, NodeCuts())
        if now == before:
            return set()
        if now.cards:
            self._by_node[name] = now
        else:
            self._by_node.pop(name, None)
        pods = {pod for one in (*before.cards, *now.cards) for pod in one.pods}
        holders = {one for one in map(self._holder, pods) if one is not None}
        return {
            other
            for other, has in self._by_node.items()
            if other != name and holders & {self._holder(pod) for one in has.cards for pod in one.pods}
        }

    def without_kept(self, name: NodeName, node: Node) -> Node:
        """A node without the instances that were made for pods for which further cards are being cut."""
        cuts = self._by_node.get(name)
        if cuts is None:
            return node
        unfinished = self._unfinished()
        kept: Counter[str] = Counter()
        for path in dict.fromkeys(path for one in cuts.cards for path in one.pods):
            if self._holder(path) in unfinished:
                kept += _made(cuts, path) & Counter(map(mig_resource, self._profiles(path)))
        return without_instances(node, kept)

    def room_made(self, name: NodeName) -> list[RoomMade]:
        """Single pods that wait and for which all that was to be cut on this node is there."""
        cards = self._by_node.get(name, NodeCuts()).cards
        unfinished = self._unfinished() if cards else set()
        found: dict[PodUid, None] = {}
        for one in cards:
            for path in one.pods if one.is_there else ():
                pod = self._pod(path)
                if pod is None or pod.meaning.gang is not None:
                    continue
                if pod.meaning.uid not in unfinished and _is_meant(pod, one):
                    found[pod.meaning.uid] = None
        return [RoomMade(uid, name) for uid in found]

    def _unfinished(self) -> set[Holder | None]:
        """The pods and gangs for which cards are still being cut."""
        cards = (one for has in self._by_node.values() for one in has.cards)
        unfinished = (one for one in cards if not (one.is_there or one.has_failed))
        return {self._holder(pod) for one in unfinished for pod in one.pods} - {None}

    def _holder(self, path: str) -> Holder | None:
        """The pod, or its gang; None for a pod that does not wait."""
        pod = self._pod(path)
        return None if pod is None else pod.meaning.gang or pod.meaning.uid

    def _pod(self, path: str) -> WaitingPod | None:
        namespace, _, name = path.partition("/")
        written: Pod | None = self._cluster.find(resources.PODS, name, namespace)
        if written is None:
            return None
        meaning = self._waiting(PodUid(written.metadata.uid))
        return None if meaning is None else WaitingPod(written, meaning)

    def _profiles(self, path: str) -> tuple[str, ...]:
        pod = self._pod(path)
        try:
            return () if pod is None else instances_of(pod.written)
        except InputError:
            return ()


def _is_meant(pod: WaitingPod, card: CutCard) -> bool:
    """Whether a card was cut for this pod, and not for an earlier one of its name."""
    try:
        created_us = microseconds(pod.written.metadata.creation_timestamp or "")
    except InputError:
        return False
    return created_us <= card.since.timestamp() * 1_000_000


def _made(cuts: NodeCuts, pod: str) -> Counter[str]:
    """What was made for a pod on a node, by resource, as far as it can be told."""
    reported = (one for one in cuts.cards if one.is_reported and pod in one.pods)
    made = Counter(mig_resource(place.profile) for one in reported for place in one.layout)
    return made + Counter(dict(cuts.ahead))


def _cuts(written: wire.Node, report: NodeDevices) -> NodeCuts:
    if DEMAND_ANNOTATION not in written.metadata.annotations:
        return NodeCuts()
    try:
        words = words_of(written)
        counts = counted_parts(written)
    except InputError:
        return NodeCuts()
    devices = {DeviceId(one.id): one for one in report.spec.devices}
    reported = Counter(mig_resource(place.profile) for one in devices.values() for place in one.mig_instances)
    cards = []
    for card, record in words.demand.items():
        layout, device = record.layout, devices.get(card)
        if not record.pods or not layout or words.wish(card) != layout:
            continue
        there = () if device is None else device.mig_instances
        is_reported = {MigInstance(one.start, one.profile) for one in there} >= set(layout)
        is_counted = all(counts.get(one, 0) >= reported[one] for one in _resources(layout))
        # A sick instance is never counted, and what was made for the pod elsewhere does not wait for it.
        is_well = device is None or device.health == HEALTHY
        has_failed = not is_well or words.state(card) is LayoutState.FAILED
        cards.append(CutCard(card, layout, record.pods, record.since, is_reported, is_counted, has_failed))
    names = {name for one in cards for name in _resources(one.layout)}
    ahead = {name: counts.get(name, 0) - reported[name] for name in sorted(names)}
    return NodeCuts(tuple(cards), tuple((name, count) for name, count in ahead.items() if count > 0))


def _resources(layout: Layout) -> set[str]:
    return {mig_resource(place.profile) for place in layout}
