"""All that was seen of the objects of a cluster, whatever the order in which it came.

It is a set: taking an observation twice changes nothing, and two sets are put together by taking all of
both. Two readers of one version may give it two moments; the earlier one counts. ``interval_log`` derives
intervals from the set, never from the order of arrival.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from gpufleet.ledger.list_index import ListIndex
from gpufleet.ledger.packed_pods import Binding, PackedPods
from gpufleet.ledger.spans import Span, joined
from gpufleet.ledger.versions import (
    KINDS,
    DevicesVersion,
    Followed,
    Gone,
    Listed,
    NodeVersion,
    ObjectKind,
    ObjectVersion,
    Observation,
    PodVersion,
    QueueVersion,
    Sampled,
)

Version = TypeVar("Version", PodVersion, NodeVersion, DevicesVersion, QueueVersion)
Key = TypeVar("Key")
Stamped = TypeVar("Stamped", bound=ObjectVersion | Gone | Listed)


class End(msgspec.Struct, frozen=True):
    """When an object was gone; ``is_seen`` is false where only its absence from a list says so."""

    at_us: int
    is_seen: bool


class Sightings:
    """Versions by kind, object and number, with deletions and lists."""

    def __init__(self) -> None:
        self._pods = PackedPods()
        self._versions: dict[ObjectKind, dict[str, dict[int, ObjectVersion]]] = {
            kind: defaultdict(dict) for kind in ObjectKind if kind is not ObjectKind.POD
        }
        self._gone: dict[tuple[ObjectKind, str], Gone] = {}
        self._lists: dict[ObjectKind, dict[int, Listed]] = {kind: {} for kind in ObjectKind}
        self._numbers: dict[ObjectKind, list[int]] = {kind: [] for kind in ObjectKind}
        self._indexes: dict[ObjectKind, ListIndex] = {}
        self._followed: dict[tuple[ObjectKind, int], Followed] = {}
        self._sampled: dict[int, Sampled] = {}

    def take(self, seen: Observation) -> bool:
        """One more observation, or one that is known; whether it changes anything."""
        match seen:
            case PodVersion():
                return _keep(self._pods.to_change(seen.uid).versions, seen.number, seen)
            case Gone(kind=ObjectKind.POD):
                pod = self._pods.to_change(seen.uid)
                if pod.gone is not None and not _is_earlier(seen, pod.gone):
                    return False
                pod.gone = seen
                return True
            case Gone():
                return _keep(self._gone, (seen.kind, seen.uid), seen)
            case Listed():
                # The index is of all lists, and is made anew when it is asked.
                self._indexes.pop(seen.kind, None)
                if seen.number not in self._lists[seen.kind]:
                    bisect.insort(self._numbers[seen.kind], seen.number)
                return _keep(self._lists[seen.kind], seen.number, seen)
            case Followed():
                known = self._followed.get((seen.kind, seen.from_us))
                if known is not None and seen.until_us <= known.until_us:
                    return False
                self._followed[seen.kind, seen.from_us] = seen
                return True
            case Sampled():
                sampled = self._sampled.get(seen.from_us)
                if sampled is not None and seen.until_us <= sampled.until_us:
                    return False
                self._sampled[seen.from_us] = seen
                return True
            case _:
                return _keep(self._versions[KINDS[type(seen)]][seen.uid], seen.number, seen)

    def all(self) -> Iterator[Observation]:
        """Every observation, in an order that follows from the set alone."""
        for kind in ObjectKind:
            for uid in self._uids(kind):
                versions = self._versions_of(kind, uid)
                yield from (versions[number] for number in sorted(versions))
        for kind in sorted(ObjectKind):
            yield from self._all_gone(kind)
        for kind in sorted(self._lists):
            yield from (self._lists[kind][number] for number in self._numbers[kind])
        yield from (self._followed[key] for key in sorted(self._followed))
        yield from (self._sampled[key] for key in sorted(self._sampled))

    def known_until_us(self) -> int:
        """The latest moment of which all is known; 0 where nothing was listed or followed.

        Stamps of objects do not count: those of kubelets are of other clocks, and beside an object that was
        seen later than the last list nothing is known of all the others.
        """
        moments = [one.until_us for one in self._followed.values()]
        moments += [one.until_us for one in self._sampled.values()]
        moments += [one.at_us for lists in self._lists.values() for one in lists.values()]
        return max(moments, default=0)

    def followed(self, kind: ObjectKind) -> list[Span]:
        """The times in which every change of a kind was seen."""
        found = (one for one in self._followed.values() if one.kind is kind)
        return joined(Span(one.from_us, one.until_us) for one in found)

    def sampled(self) -> list[Span]:
        """The times of which samples tell."""
        return joined(Span(one.from_us, one.until_us) for one in self._sampled.values())

    def pods(self) -> Iterator[tuple[PodVersion, ...]]:
        """The versions of each pod, oldest first."""
        return (self.versions_of_pod(uid) for uid in self._uids(ObjectKind.POD))

    def bindings(self) -> Iterator[Binding]:
        """Where each pod was bound, in order of uids."""
        return self._pods.bindings()

    def versions_of_pod(self, uid: str) -> tuple[PodVersion, ...]:
        """The versions of one pod, oldest first."""
        versions = self._pods.of(uid).versions
        return tuple([versions[number] for number in sorted(versions)])

    def nodes(self) -> Iterator[tuple[NodeVersion, ...]]:
        """The versions of each node, oldest first."""
        return self._of(ObjectKind.NODE, NodeVersion)

    def reports(self) -> Iterator[tuple[DevicesVersion, ...]]:
        """The versions of each report of devices, oldest first."""
        return self._of(ObjectKind.DEVICES, DevicesVersion)

    def queues(self) -> Iterator[tuple[QueueVersion, ...]]:
        """The versions of each queue, oldest first."""
        return self._of(ObjectKind.QUEUE, QueueVersion)

    def _of(self, kind: ObjectKind, type_: type[Version]) -> Iterator[tuple[Version, ...]]:
        for uid in sorted(self._versions[kind]):
            versions = self._versions[kind][uid]
            found = (versions[number] for number in sorted(versions))
            yield tuple(one for one in found if isinstance(one, type_))

    def _uids(self, kind: ObjectKind) -> Iterator[str]:
        """The objects of which a version was seen, in order."""
        if kind is ObjectKind.POD:
            return (uid for uid in self._pods.uids() if self._pods.of(uid).versions)
        return iter(sorted(self._versions[kind]))

    def _versions_of(self, kind: ObjectKind, uid: str) -> Mapping[int, ObjectVersion]:
        if kind is ObjectKind.POD:
            return self._pods.of(uid).versions
        return self._versions[kind].get(uid, {})

    def _gone_of(self, kind: ObjectKind, uid: str) -> Gone | None:
        return self._pods.of(uid).gone if kind is ObjectKind.POD else self._gone.get((kind, uid))

    def _all_gone(self, kind: ObjectKind) -> Iterator[Gone]:
        """The deletions that were seen, in order."""
        if kind is ObjectKind.POD:
            found = (self._pods.of(uid).gone for uid in self._pods.uids())
            return (gone for gone in found if gone is not None)
        return (self._gone[key] for key in sorted(self._gone) if key[0] is kind)

    def last_seen_us(self, kind: ObjectKind, uid: str) -> int:
        """The latest moment at which an object was there for certain."""
        moments = [one.at_us for one in self._versions_of(kind, uid).values()]
        return max(self._index(kind).last_with_us(uid), max(moments, default=0))

    def list_before(self, kind: ObjectKind, number: int) -> Listed | None:
        """The newest list of a kind that is older than that number."""
        place = bisect.bisect_left(self._numbers[kind], number)
        return self._lists[kind][self._numbers[kind][place - 1]] if place else None

    def _index(self, kind: ObjectKind) -> ListIndex:
        """The lists of a kind by object, worked out anew after another list was taken."""
        if kind not in self._indexes:
            self._indexes[kind] = ListIndex(self._lists[kind].values())
        return self._indexes[kind]

    def end(self, kind: ObjectKind, uid: str) -> End | None:
        """When an object was gone: its deletion, or the first list that it is missing from."""
        gone = self._gone_of(kind, uid)
        if gone is not None:
            return End(gone.at_us, is_seen=True)
        # A list that is older than a version of the object says nothing of its end.
        newest = max(self._versions_of(kind, uid), default=0)
        at_us = self._index(kind).first_without_us(uid, newest)
        return None if at_us is None else End(at_us, is_seen=False)

    def spans(self, versions: tuple[Version, ...]) -> list[tuple[Span, Version]]:
        """The time for which each version was the newest one, in order of their numbers."""
        if not versions:
            return []
        end = self.end(KINDS[type(versions[0])], versions[0].uid)
        moments: list[int] = []
        for version in versions:
            # The order is that of the server's numbers; a stamp that goes back is of another clock.
            moments.append(max(version.at_us, moments[-1] if moments else 0))
        # Nor may an object end before its last version, whatever clock stamped it.
        ends: list[int | None] = [*moments[1:], None if end is None else max(end.at_us, moments[-1])]
        return [
            (Span(start, until), version)
            for start, until, version in zip(moments, ends, versions, strict=True)
            if until is None or start < until
        ]

    def forget(self, before_us: int) -> None:
        """Drop what says nothing about the time from then on.

        These are objects that were gone before, lists of that time, and all but the newest version of that
        time of what is not a pod. A pod stays as long as any member of its gang: when the gang was whole
        follows from all of them. Intervals before that time cannot be derived any more.
        """
        for kind in ObjectKind:
            gone = {uid for uid in self._uids(kind) if self._was_gone(kind, uid, before_us)}
            if kind is ObjectKind.POD:
                there = (uid for uid in self._uids(kind) if uid not in gone)
                needed = {gang for uid in there for gang in self._gangs(uid)}
                for uid in gone:
                    if not needed & self._gangs(uid):
                        self._pods.drop(uid)
            else:
                for uid in gone:
                    del self._versions[kind][uid]
                    self._gone.pop((kind, uid), None)
                for versions in self._versions[kind].values():
                    old = sorted(number for number, one in versions.items() if one.at_us <= before_us)
                    for number in old[:-1]:
                        del versions[number]
        for kind, lists in self._lists.items():
            ends = self._ends_by_lists(kind)
            past = [one for one in lists.values() if one.at_us < before_us and one.at_us not in ends]
            for one in past:
                del lists[one.number]
            self._numbers[kind] = sorted(lists)
            self._indexes.pop(kind, None)
        for kind_and_begin, time in list(self._followed.items()):
            if time.until_us < before_us:
                del self._followed[kind_and_begin]
        for begin_us, sampled in list(self._sampled.items()):
            if sampled.until_us < before_us:
                del self._sampled[begin_us]

    def _was_gone(self, kind: ObjectKind, uid: str, before_us: int) -> bool:
        end = self.end(kind, uid)
        return end is not None and end.at_us < before_us

    def _gangs(self, uid: str) -> frozenset[tuple[str, str]]:
        """The gang that versions of a pod name, with its namespace."""
        versions = self._pods.of(uid).versions.values()
        return frozenset((one.namespace, one.gang) for one in versions if one.gang)

    def _ends_by_lists(self, kind: ObjectKind) -> set[int]:
        """The moments of lists that are what says that an object which is still kept was gone."""
        ends = (self.end(kind, uid) for uid in self._uids(kind))
        return {end.at_us for end in ends if end is not None and not end.is_seen}


def _keep(kept: dict[Key, Stamped], key: Key, seen: Stamped) -> bool:
    """Keep the earlier one of what is known and what is seen; whether that is another one than before."""
    known = kept.get(key)
    if known is not None and not _is_earlier(seen, known):
        return False
    kept[key] = seen
    return True


def _is_earlier(seen: ObjectVersion | Gone | Listed, known: ObjectVersion | Gone | Listed) -> bool:
    return seen != known and _moment(seen) < _moment(known)


def _moment(seen: ObjectVersion | Gone | Listed) -> tuple[int, bytes]:
    """The order of observations of one version: by moment, and else by any fixed order."""
    return seen.at_us, msgspec.msgpack.encode(seen, order="sorted")
