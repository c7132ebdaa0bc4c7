"""The life of each pod on its node: from its Binding to its end, with how certain the end is.

A pod holds its devices until its terminal phase, or until it is gone. Where neither was seen, the first
proof counts: a list without it, a report of its node that no longer has it, its node's end, or a later grant
that leaves it no room. Between the moment at which it was last seen and that proof nothing is certain, so
that time is an estimate. A proof is none where the pod was seen after it. Of two grants of one device by two
leaders the one of the older epoch gives way for as long as both would hold.
"""

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gpufleet.ledger.granted_parts import card_of
from gpufleet.ledger.sightings import Sightings
from gpufleet.ledger.spans import NEVER_US, Span
from gpufleet.ledger.versions import ObjectKind, PodVersion
from gpufleet.model.device_id import SEPARATOR
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid

MOMENTS = ("bound_us", "started_us", "ready_us", "deletion_us", "ended_us")
"""Moments of a pod that come once; the first version that tells one is believed."""

_moments_of = operator.attrgetter(*MOMENTS)


class PodLife(msgspec.Struct, frozen=True):
    """A pod that was bound: its newest version with the moments of all, and its end.

    ``seen_until_us`` is set where the end was not seen.
    """

    pod: PodVersion
    bound_us: int
    end_us: int | None
    seen_until_us: int | None = None


class PodLives:
    """The lives of the pods of one node after the other: those of all nodes are too many to hold at once."""

    def __init__(self, sightings: Sightings, node_spans: Mapping[NodeName, Sequence[Span]]) -> None:
        """``node_spans`` are the lives of the nodes of each name."""
        self._sightings = sightings
        self._node_spans = node_spans
        self._uids: dict[NodeName, list[PodUid]] = defaultdict(list)
        self._with_gangs: set[NodeName] = set()
        for bound in sightings.bindings():
            self._uids[bound.node].append(bound.uid)
            if bound.gang:
                self._with_gangs.add(bound.node)
        self._vanished: dict[PodUid, list[int]] = defaultdict(list)
        for uid, at_us in _vanished_holders(sightings):
            self._vanished[uid].append(at_us)

    def nodes(self) -> Iterator[NodeName]:
        """The names of the nodes that pods were bound to."""
        return iter(self._uids)

    def on(self, node: NodeName) -> tuple[PodLife, ...]:
        """The lives of the pods of a node, by uid."""
        pods, certain = [], {}
        for uid in self._uids.get(node, ()):
            pod = _put_together(self._sightings.versions_of_pod(uid))
            pods.append(pod)
            # Beside its versions, since what was seen of a pod is unpacked then.
            certain[uid] = _certain_end(self._sightings, pod)
        return _lives(self._sightings, pods, certain, self._node_spans.get(node, ()), self._vanished)

    def in_gangs(self) -> Iterator[PodLife]:
        """The lives of the members of gangs."""
        for node in sorted(self._with_gangs):
            yield from (life for life in self.on(node) if life.pod.gang)


def _lives(
    sightings: Sightings,
    pods: Sequence[PodVersion],
    certain: Mapping[PodUid, int | None],
    node_spans: Sequence[Span],
    vanished: Mapping[PodUid, Sequence[int]],
) -> tuple[PodLife, ...]:
    clashes = list(_clashes(pods, certain))
    proofs: dict[PodUid, list[int]] = defaultdict(list)
    for uid, at_us in _granted_anew(clashes):
        proofs[uid].append(at_us)
    lives = {}
    for pod in pods:
        bound = pod.bound_us or 0
        proofs[pod.uid] += vanished.get(pod.uid, ())
        ends = [span.until_us for span in node_spans if span.covers(bound)]
        proofs[pod.uid] += [end for end in ends if end is not None]
        lives[pod.uid] = _life(sightings, pod, certain[pod.uid], proofs[pod.uid])
    return tuple(
        # A pod whose grant gave way from its first moment on held nothing.
        life
        for life in _decided(lives, clashes)
        if life.end_us is None or life.bound_us < life.end_us
    )


def _bound(versions: tuple[PodVersion, ...]) -> PodVersion:
    """The newest version with a grant, or else the newest one."""
    granted = [one for one in versions if one.bound_us is not None]
    return granted[-1] if granted else versions[-1]


def _put_together(versions: tuple[PodVersion, ...]) -> PodVersion:
    """The newest version, with the first of each moment that any version has."""
    bound = _bound(versions)
    moments: dict[str, int | None] = dict.fromkeys(MOMENTS)
    for one in versions:
        for name, at_us in zip(MOMENTS, _moments_of(one), strict=True):
            known = moments[name]
            if at_us is not None and (known is None or at_us < known):
                moments[name] = at_us
    was_ready = any(one.was_ready for one in versions)
    was_started = any(one.was_started for one in versions)
    is_probed = versions[-1].has_readiness_probe
    if was_started and moments["started_us"] is None:
        # Without the moment of its first start no time of it is known to be starting or loading.
        moments["started_us"], is_probed = bound.bound_us, False
    if was_ready and moments["ready_us"] is None:
        # Without the moment from which on it was ready, no time of it is known to be loading.
        is_probed = False
    return msgspec.structs.replace(
        versions[-1],
        node=bound.node,
        devices=bound.devices,
        epoch=bound.epoch,
        gang=bound.gang,
        gang_members=bound.gang_members,
        was_ready=was_ready,
        was_started=was_started,
        has_readiness_probe=is_probed,
        **moments,
    )


def _certain_end(sightings: Sightings, pod: PodVersion) -> int | None:
    """The end that was seen: the terminal phase or the deletion, the earlier one; None where neither was."""
    gone = sightings.end(ObjectKind.POD, pod.uid)
    seen = [] if pod.ended_us is None else [pod.ended_us]
    if gone is not None and gone.is_seen:
        seen.append(gone.at_us)
    # A stamp of whole seconds may lie before the Binding.
    return max(pod.bound_us or 0, min(seen)) if seen else None


def _life(sightings: Sightings, pod: PodVersion, certain_us: int | None, proofs: Iterable[int]) -> PodLife:
    bound_us = pod.bound_us or 0
    if certain_us is not None:
        return PodLife(pod, bound_us, certain_us)
    last_seen = max(bound_us, sightings.last_seen_us(ObjectKind.POD, pod.uid))
    counting = [at_us for at_us in proofs if at_us > last_seen]
    gone = sightings.end(ObjectKind.POD, pod.uid)
    if gone is not None:
        counting.append(gone.at_us)
    if not counting:
        return PodLife(pod, bound_us, None)
    end = max(bound_us, min(counting))
    return PodLife(pod, bound_us, end, min(last_seen, end))


def _vanished_holders(sightings: Sightings) -> Iterator[tuple[PodUid, int]]:
    """Pods that a node's report had as holders and then had no more."""
    for versions in sightings.reports():
        held: set[PodUid] = set()
        for version in versions:
            now = {holder.pod_uid for holder in version.holders}
            yield from ((uid, version.at_us) for uid in sorted(held - now))
            held = now


Clash = tuple[PodVersion, PodVersion]
"""Two pods whose grants cannot hold at one time, the one that was bound first in front."""


def _clashes(pods: Iterable[PodVersion], certain: Mapping[PodUid, int | None]) -> Iterator[Clash]:
    """Pods that were bound one after the other, the first of which had not ended for certain by then."""
    by_card: dict[tuple[NodeName, DeviceId], dict[PodUid, PodVersion]] = defaultdict(dict)
    for pod in pods:
        for device in pod.devices:
            by_card[pod.node, card_of(device.device)][pod.uid] = pod
    for _, beside in sorted(by_card.items()):
        there: list[tuple[int, PodVersion]] = []
        for second in sorted(beside.values(), key=lambda pod: (pod.bound_us or 0, pod.uid)):
            there = [one for one in there if one[0] > (second.bound_us or 0)]
            yield from ((first, second) for _, first in there if _exclude(first.devices, second.devices))
            end_us = certain[second.uid]
            there.append((NEVER_US if end_us is None else end_us, second))


def _exclude(first: Iterable[GrantedDevice], second: Sequence[GrantedDevice]) -> bool:
    """True where one has all of what the other one has a part of."""
    return any(_takes_all(one, other) or _takes_all(other, one) for one in first for other in second)


def _takes_all(one: GrantedDevice, other: GrantedDevice) -> bool:
    is_within = other.device == one.device or other.device.startswith(f"{one.device}{SEPARATOR}")
    return one.undivided and is_within


def _granted_anew(clashes: Iterable[Clash]) -> Iterator[tuple[PodUid, int]]:
    for first, second in clashes:
        # A grant of an older epoch proves nothing: a Binding of an older leader may come late.
        if second.bound_us is not None and first.epoch <= second.epoch:
            yield first.uid, second.bound_us


def _decided(lives: Mapping[PodUid, PodLife], clashes: Iterable[Clash]) -> Iterator[PodLife]:
    """The lives, without the time for which a grant of a newer epoch holds the device."""
    begins = {uid: life.bound_us for uid, life in lives.items()}
    ends = {uid: life.end_us for uid, life in lives.items()}
    for first, second in clashes:
        one, other = lives[first.uid], lives[second.uid]
        # By its own end it was gone before the other one came.
        if one.end_us is not None and one.end_us <= other.bound_us:
            continue
        if first.epoch < second.epoch:
            ends[first.uid] = _earlier(ends[first.uid], other.bound_us)
        elif first.epoch > second.epoch:
            begins[second.uid] = max(begins[second.uid], one.end_us or NEVER_US)
    for uid in sorted(lives):
        life, end = lives[uid], ends[uid]
        seen_until = None if life.seen_until_us is None else _earlier(end, life.seen_until_us)
        if begins[uid] == NEVER_US:
            end = begins[uid]
        yield PodLife(life.pod, begins[uid], end, seen_until)


def _earlier(end_us: int | None, at_us: int) -> int:
    return at_us if end_us is None else min(end_us, at_us)
