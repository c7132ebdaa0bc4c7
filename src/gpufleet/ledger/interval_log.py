"""What happened to each card and each node, as intervals derived from all that was seen.

The log takes versions of objects in any order, doubled and late, and its intervals follow from the set of
them alone: two logs that saw the same, and a log that was put together from two, give the same bytes. It
yields ``NodeRecords``, which ``node_hour`` accounts for. ``sightings`` keeps what was seen, ``pod_lives``
finds the end of each pod, ``granted_parts`` how much of a card a grant is, and ``card_states`` why what is
free is not for use.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

import msgspec

from gpufleet.ledger.buckets import BusySpan, Holding
from gpufleet.ledger.card_states import cards, free_states, report_spans, reservations
from gpufleet.ledger.granted_parts import card_parts
from gpufleet.ledger.held_parts import dominant
from gpufleet.ledger.node_hour import HostHolding, NodeRecords
from gpufleet.ledger.node_versions import model_name
from gpufleet.ledger.pod_lives import PodLife, PodLives
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.sightings import Sightings
from gpufleet.ledger.spans import Span, end_us, outside, within
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import DevicesVersion, Listed, NodeVersion, ObjectKind, Observation, PodVersion
from gpufleet.ledger.whole_gangs import gangs_whole
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid


class LedgerPod(msgspec.Struct, frozen=True):
    """Whose a pod is, as its newest version says."""

    uid: PodUid
    namespace: str
    name: str
    queue: str
    owner: str
    gang: str
    labels: tuple[tuple[str, str], ...]


class NodeIntervals(msgspec.Struct, frozen=True):
    """The intervals of a node, and the pods in them."""

    records: NodeRecords
    pods: Mapping[PodUid, LedgerPod]


class ByNode(Protocol):
    """Intervals that are read one node after the other."""

    def each(self) -> Iterator[NodeIntervals]:
        """All of each node, in order."""

    def without_pods(self) -> Sequence[NodeRecords]:
        """What is known of each node beside its pods."""


class Intervals(msgspec.Struct, frozen=True):
    """All intervals, by node and in order, and the pods in them."""

    nodes: tuple[NodeRecords, ...]
    pods: tuple[LedgerPod, ...]

    def each(self) -> Iterator[NodeIntervals]:
        """All of each node, in order."""
        pods = {pod.uid: pod for pod in self.pods}
        return (NodeIntervals(records, pods) for records in self.nodes)

    def without_pods(self) -> Sequence[NodeRecords]:
        """What is known of each node; that its pods are there too does no harm."""
        return self.nodes


class IntervalLog:
    """Takes what was seen, and gives intervals."""

    def __init__(self) -> None:
        self._sightings = Sightings()
        self._busy: dict[tuple[DeviceId, PodUid, int], BusySpan] = {}

    def take(self, seen: Observation) -> bool:
        """A version of an object, a deletion or a list, also one that is known or that comes late.

        False where nothing changes by it.
        """
        return self._sightings.take(seen)

    def measure(self, span: BusySpan) -> bool:
        """How busy a pod kept a card. Of two measurements that begin alike the longer one counts.

        False where nothing changes by it.
        """
        key = span.device, span.pod_uid, span.span.from_us
        known = self._busy.get(key)
        if known is not None and _measured(span) <= _measured(known):
            return False
        self._busy[key] = span
        return True

    def merge(self, other: "IntervalLog") -> None:
        """All that another log has seen too."""
        for seen in other.seen():
            self.take(seen)
        for span in other.busy():
            self.measure(span)

    def list_before(self, kind: ObjectKind, number: int) -> Listed | None:
        """The newest list of a kind that is older than that number."""
        return self._sightings.list_before(kind, number)

    def seen(self) -> Iterator[Observation]:
        """All that was seen, in an order that follows from the set alone."""
        return self._sightings.all()

    def busy(self) -> tuple[BusySpan, ...]:
        """All that was measured, in order."""
        return tuple(sorted(self._busy.values(), key=_measured))

    def known_until_us(self) -> int:
        """The latest moment of which all is known; 0 where nothing was listed or followed."""
        return self._sightings.known_until_us()

    def forget(self, before_us: int) -> None:
        """Drop what says nothing about the time from then on."""
        self._sightings.forget(before_us)
        for key, span in list(self._busy.items()):
            if end_us(span.span) < before_us:
                del self._busy[key]

    def intervals(self) -> Intervals:
        """What happened to each node, and whose the pods are."""
        return _Derivation(self._sightings, self.busy()).intervals()

    def by_node(self) -> ByNode:
        """Intervals one node after the other, for many pods. The log may not change meanwhile."""
        return _Derivation(self._sightings, self.busy())


class _NodeLife(msgspec.Struct, frozen=True):
    versions: tuple[NodeVersion, ...]
    span: Span

    @property
    def newest(self) -> NodeVersion:
        return self.versions[-1]


SAMPLED_NODE = "sampled/"
"""How the uid of a node begins that samples tell of, which do not tell its own."""


def _seen_before_sampled(nodes: Iterable[_NodeLife]) -> list[_NodeLife]:
    """The nodes, without those of samples that were seen themselves: same name, same second of creation."""
    found = list(nodes)
    seen = {_made(one) for one in found if not one.newest.uid.startswith(SAMPLED_NODE)}
    return [one for one in found if not one.newest.uid.startswith(SAMPLED_NODE) or _made(one) not in seen]


def _made(node: _NodeLife) -> tuple[NodeName, int]:
    return node.newest.node, node.newest.created_us // US_PER_S


class _Derivation:
    """One derivation of intervals from what was seen."""

    def __init__(self, sightings: Sightings, busy: Iterable[BusySpan]) -> None:
        self._sightings = sightings
        self._nodes = _seen_before_sampled(
            _NodeLife(one, _node_span(sightings, one)) for one in sightings.nodes()
        )
        self._named: dict[NodeName, list[_NodeLife]] = defaultdict(list)
        for node in sorted(self._nodes, key=lambda one: (one.span.from_us, one.newest.uid)):
            self._named[node.newest.node].append(node)
        spans = {name: [one.span for one in nodes] for name, nodes in self._named.items()}
        self._lives = PodLives(sightings, spans)
        self._whole = dict(gangs_whole(self._lives.in_gangs()))
        self._reserved = reservations(sightings)
        self._busy: dict[PodUid, list[BusySpan]] = defaultdict(list)
        for span in busy:
            self._busy[span.pod_uid].append(span)
        self._reports: dict[str, list[DevicesVersion]] = defaultdict(list)
        for versions in sightings.reports():
            for version in versions:
                self._reports[self._node_at(version.node, version.at_us)].append(version)

    def intervals(self) -> Intervals:
        pods = [_ledger_pod(life.pod) for name in self._lives.nodes() for life in self._lives.on(name)]
        nodes = tuple(found.records for found in self.each())
        return Intervals(nodes, tuple(sorted(pods, key=lambda pod: pod.uid)))

    def each(self) -> Iterator[NodeIntervals]:
        for node in self._nodes:
            name, uid = node.newest.node, node.newest.uid
            lives = [life for life in self._lives.on(name) if self._node_at(name, life.bound_us) == uid]
            pods = {life.pod.uid: _ledger_pod(life.pod) for life in lives}
            yield NodeIntervals(self._records(node, lives), pods)

    def without_pods(self) -> Sequence[NodeRecords]:
        return [self._records(node, ()) for node in self._nodes]

    def _node_at(self, name: NodeName, at_us: int) -> str:
        """The uid of the node of that name: the youngest one of that moment, else the first, else ""."""
        named = self._named.get(name, ())
        then = [one for one in named if one.span.from_us <= at_us]
        found = then[-1] if then else next(iter(named), None)
        return "" if found is None else found.newest.uid

    def _records(self, node: _NodeLife, pods: Sequence[PodLife]) -> NodeRecords:
        newest = node.newest
        reports = self._reports[newest.uid]
        times = report_spans(self._sightings, reports)
        followed, sampled = self._sightings.followed(ObjectKind.POD), self._sightings.sampled()
        states = free_states(
            self._sightings.spans(node.versions), times, self._reserved.get(newest.node, ()), node.span
        )
        return NodeRecords(
            newest.node,
            newest.uid,
            node.span,
            _with_model(newest.priced_as, reports),
            devices=tuple(cards(times, node.span)),
            holdings=tuple(holding for life in pods for holding in self._holdings(life, reports)),
            busy=tuple(span for life in pods for span in self._busy[life.pod.uid]),
            free_states=tuple(states),
            host_holdings=tuple(_host_holding(life, newest) for life in pods),
            unseen=tuple(outside((*followed, *sampled), node.span)),
            sampled=tuple(one for part in sampled for one in outside(followed, within(part, node.span))),
            provider_id=newest.provider_id,
        )

    def _holdings(self, life: PodLife, reports: list[DevicesVersion]) -> Iterator[Holding]:
        pod = life.pod
        granted = pod.devices or _held_devices(pod.uid, reports)
        for one in card_parts(granted, reports, life.bound_us):
            yield Holding(
                one.card,
                pod.uid,
                one.part,
                Span(life.bound_us, life.end_us),
                gang_whole_us=self._whole.get(pod.uid) if pod.gang else life.bound_us,
                started_us=pod.started_us,
                ready_us=pod.ready_us,
                has_readiness_probe=pod.has_readiness_probe,
                deletion_us=pod.deletion_us,
                seen_until_us=life.seen_until_us,
            )


def _node_span(sightings: Sightings, versions: tuple[NodeVersion, ...]) -> Span:
    created = min(version.created_us for version in versions)
    end = sightings.end(ObjectKind.NODE, versions[-1].uid)
    # Both moments are stamps, which may be of two clocks.
    return Span(created, None if end is None else max(created, end.at_us))


def _with_model(priced_as: PricedNode, reports: Iterable[DevicesVersion]) -> PricedNode:
    """With the model that the reports tell, where the node's labels tell none and all cards are alike."""
    models = {device.model for report in reports for device in report.devices if device.model}
    if priced_as.gpu_model or len(models) != 1:
        return priced_as
    return msgspec.structs.replace(priced_as, gpu_model=model_name(models.pop()))


def _held_devices(uid: PodUid, reports: Iterable[DevicesVersion]) -> tuple[GrantedDevice, ...]:
    """What the reports say of a pod without a grant of ours: each device once, as it was first told."""
    found: dict[tuple[DeviceId, int | None], GrantedDevice] = {}
    for report in sorted(reports, key=lambda one: (one.at_us, one.uid, one.number)):
        for holder in report.holders:
            if holder.pod_uid == uid:
                found.setdefault((holder.device.id, holder.device.mig_start), holder.device)
    return tuple(found.values())


def _host_holding(life: PodLife, node: NodeVersion) -> HostHolding:
    pod = life.pod
    part = dominant((pod.cpu_milli, pod.memory_bytes), (node.cpu_milli, node.memory_bytes))
    return HostHolding(pod.uid, part, Span(life.bound_us, life.end_us))


def _measured(span: BusySpan) -> tuple[str, str, int, int, int]:
    return span.pod_uid, span.device, span.span.from_us, end_us(span.span), span.busy


def _ledger_pod(pod: PodVersion) -> LedgerPod:
    return LedgerPod(pod.uid, pod.namespace, pod.name, pod.queue, pod.owner, pod.gang, pod.labels)


def encoded(intervals: Intervals) -> bytes:
    """The intervals as JSON, fractions as "4/7"; equal intervals are equal bytes."""
    return msgspec.json.encode(intervals, enc_hook=_written, order="sorted")


def _written(value: object) -> str:
    if isinstance(value, Fraction):
        return str(value)
    # As msgspec asks of such a hook: it makes a TypeError of it, with the field.
    raise NotImplementedError(f"no way to write a {type(value).__name__}")
