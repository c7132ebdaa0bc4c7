"""The holders of the node's devices, also those that the kubelet has lost from its checkpoint.

A container that started keeps its units until its pod is finished, whatever the kubelet forgot; of a pod
that went from the API before it was finished, until its containers must have ended (``vanished_pods``).
What the kubelet lists counts first. For a container that it does not list, what it listed before counts, as
the agent's own record has it (``holder_record``) and the node's report in the API; answers to Allocate that
the container may have taken up are added, and so is what these sources say beyond each other. The grant
counts where nothing else does. Of a container that runs and of which no source knows the units,
a holder without units is told.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator

import msgspec

from gpufleet.agent.holders.holder_record import (
    AllocateAnswer,
    ContainerRef,
    HolderRecord,
    HolderState,
    RememberedHolder,
)
from gpufleet.agent.holders.open_answers import open_answers
from gpufleet.agent.holders.reported_holders import kept_of_report
from gpufleet.agent.holders.vanished_pods import VanishedPods
from gpufleet.agent.state.node_state import Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.units.granted_units import UnitIndex
from gpufleet.agent.units.node_units import Units, node_units
from gpufleet.kube import keys
from gpufleet.kube.clock import Clock
from gpufleet.kube.objects.node_devices import Holder
from gpufleet.model.grant import ContainerGrant, GrantKind

ANSWERS_MOST = 1000
"""Far more than a kubelet can have under way; the oldest are forgotten first."""

LOST_AFTER_S = 5.0
"""A kubelet drops a pod that ends a little before the API server knows that it ended."""

Key = tuple[str, str, str]
"""A pod's UID, a container, a resource."""


class SeenHolder(msgspec.Struct, frozen=True):
    """The node at one moment. ``complete`` says that ``pods`` are all of its pods.

    ``ended`` are pods that were finished before they went from the API.
    """

    node: NodeGpus
    pods: NodePods
    complete: bool = True
    ended: Collection[str] = ()


class HolderMemory:
    """What one node's agent remembers of holders. Allocators add answers, the monitor what is listed."""

    def __init__(self, clock: Clock, record: HolderRecord | None = None) -> None:
        self._record = record or HolderRecord()
        self._clock = clock
        # Read before anything else: containers that run may be known here alone.
        left = self._record.load()
        self._kept: dict[Key, RememberedHolder] = {_key(one): one for one in left.holders}
        self._vanished = VanishedPods(clock, left.pods)
        self._reported: tuple[Holder, ...] = ()
        self._missed_since_s: dict[Key, float] = {}
        self._turn = asyncio.Lock()
        self.answers: tuple[AllocateAnswer, ...] = left.answers
        """What Allocate was answered with and no container is known to have taken up."""

    @property
    def problem(self) -> str:
        """Why the newest state is not on the disk; empty where it is."""
        return self._record.problem

    def report_said(self, holders: tuple[Holder, ...]) -> None:
        """What the node's report said when the agent began."""
        # Without a UID it cannot be found again whether its pod is gone.
        self._reported = tuple(one for one in holders if one.pod_uid)

    def kubelet_silent(self) -> None:
        """The kubelet was asked what it lists, and did not answer."""
        self._vanished.kubelet_silent()

    async def answered(self, answer: AllocateAnswer) -> None:
        """An Allocate is about to be answered so; on the disk before the kubelet gets the answer."""
        # The newest are kept: an old answer was taken up long ago, or its pod is gone.
        self.answers = (*self.answers, answer)[-ANSWERS_MOST:]
        await self.keep()

    async def took(self, one: RememberedHolder) -> None:
        """A container is about to start with these units, which the kubelet named itself."""
        self._kept[_key(one)] = one
        await self.keep()

    def kept(self, resource: str) -> tuple[RememberedHolder, ...]:
        """What containers held of a resource when last seen, by the kubelet's record or by ours."""
        return tuple(one for one in self._kept.values() if one.resource == resource)

    async def keep(self) -> None:
        """Put the newest state on the disk."""
        if self._record.path is None:
            return
        # One write at a time, so that the newest state comes last; in a thread, as a disk may hang.
        async with self._turn:
            kept = tuple(self._kept[key] for key in sorted(self._kept))
            await asyncio.to_thread(self._record.save, HolderState(kept, self.answers, self._vanished.last))

    def joined(self, listed: Holders, seen: SeenHolder) -> Holders:
        """What the kubelet lists, and what containers hold of which it knows nothing any more."""
        units = node_units(seen.node)
        index = UnitIndex(seen.node, units)
        known = {(one.pod_uid, one.container, one.resource) for one in listed}
        # First, because what is learned says which answers were taken up.
        self._learn(listed, known, seen, index, units)
        self.answers = tuple(open_answers(self.answers, listed, lambda uid: self._is_gone(uid, seen)))
        # Once more after answers were dropped, so that their pods are not remembered for ever.
        self._watch(seen)
        found = {key: _held(one) for key, one in self._kept.items() if key not in known}
        # A grant is only a wish: it counts where no source says what the container really got.
        found |= _only_granted([*listed, *found.values()], seen.pods, index)
        self._add_answers(found, known, seen.pods)
        unknown = _unknown([*listed, *found.values()], seen.pods, {one.resource for one in units.values()})
        # What the kubelet lists is taken as it is; only what it does not list can be lost.
        both = (*listed, *self._dated((*found.values(), *unknown), seen.pods))
        # In one order whatever the kubelet's is, so that an unchanged node is not reported anew.
        return tuple(sorted(both, key=lambda one: (one.namespace, one.pod, one.container, one.resource)))

    def _learn(
        self, listed: Holders, known: set[Key], seen: SeenHolder, index: UnitIndex, units: Units
    ) -> None:
        """Take over what the kubelet lists and what the report said, and forget pods that are gone."""
        self._kept |= {_key(one): one for one in map(_kept, listed) if one.pod_uid}
        told = [one.pod_uid for one in self._reported]
        for one in kept_of_report(self._reported, seen.pods, index, units):
            told = [uid for uid in told if uid != one.pod_uid]
            # The report may be older than the kubelet's list, so it speaks only where the list does not.
            if _key(one) not in known:
                self._kept[_key(one)] = _and(self._kept.get(_key(one)), one)
        self._watch(seen)
        self._reported = tuple(
            one for one in self._reported if one.pod_uid in told and not self._is_gone(one.pod_uid, seen)
        )
        self._kept = {
            key: one
            for key, one in self._kept.items()
            if key in known or not self._is_gone(one.pod_uid, seen)
        }

    def _watch(self, seen: SeenHolder) -> None:
        """Take note of the pods of all that is remembered."""
        asked = {place.pod_uid for answer in self.answers for place in answer.possible}
        told = {one.pod_uid for one in self._reported}
        held = {one.pod_uid for one in self._kept.values()}
        self._vanished.look(asked | told | held, seen.pods, complete=seen.complete)

    def _is_gone(self, uid: str, seen: SeenHolder) -> bool:
        """Whether no container of a pod runs or will."""
        pod = seen.pods.get(uid)
        if pod is not None:
            return pod.finished
        # A pod that is not there may not be listed yet; only a whole list tells that it is gone.
        return seen.complete and (uid in seen.ended or self._vanished.is_over(uid))

    def _add_answers(self, found: dict[Key, Held], known: set[Key], pods: NodePods) -> None:
        """A container that started, or whose pod went, may have taken up any answer that it asked for."""
        for answer in self.answers:
            for place in answer.possible:
                pod, key = pods.get(place.pod_uid), (place.pod_uid, place.container, answer.resource)
                # A container that has not started holds nothing, whatever was answered for it.
                if (pod is None or place.container in pod.started) and key not in known:
                    before = found.get(key) or _asked(place, answer.resource)
                    units = tuple(sorted({*before.units, *answer.units}))
                    found[key] = msgspec.structs.replace(before, units=units)

    def _dated(self, found: Iterable[Held], pods: NodePods) -> Iterator[Held]:
        """Which of them run and have been missed for a while."""
        now_s = self._clock.monotonic_s()
        before, self._missed_since_s = self._missed_since_s, {}
        for held in found:
            pod = pods.get(held.pod_uid)
            if pod is None or held.container not in pod.running:
                yield held
                continue
            key = (held.pod_uid, held.container, held.resource)
            # Only those seen now are kept: one that is back and missed again begins anew.
            since_s = self._missed_since_s[key] = before.get(key, now_s)
            yield msgspec.structs.replace(held, lost=now_s - since_s >= LOST_AFTER_S)


def _key(one: RememberedHolder) -> Key:
    return one.pod_uid, one.container, one.resource


def _kept(held: Held) -> RememberedHolder:
    return RememberedHolder(held.pod_uid, held.namespace, held.pod, held.container, held.resource, held.units)


def _held(one: RememberedHolder) -> Held:
    return Held(one.namespace, one.pod, one.container, one.resource, one.units, one.pod_uid, listed=False)


def _and(before: RememberedHolder | None, more: RememberedHolder) -> RememberedHolder:
    """Sources that contradict each other are taken together: the units of both count."""
    if before is None:
        return more
    return msgspec.structs.replace(more, units=tuple(sorted({*before.units, *more.units})))


def _of(pod: NodePod, container: str, resource: str, units: Iterable[str] = ()) -> Held:
    return Held(pod.namespace, pod.name, container, resource, tuple(sorted(units)), pod.uid, listed=False)


def _asked(place: ContainerRef, resource: str) -> Held:
    namespace, _, name = place.pod.partition("/")
    return Held(namespace, name, place.container, resource, (), place.pod_uid, listed=False)


Places = set[tuple[str, str]]
"""Containers by the UIDs of their pods; by the pods' names where the API server does not know the UID."""


def _places(found: Iterable[Held], pods: NodePods) -> Places:
    return {(one.pod_uid if one.pod_uid in pods else one.title, one.container) for one in found}


def _speaks(spoken: Places, pod: NodePod, container: str) -> bool:
    """Whether some source knows what a container holds."""
    return (pod.uid, container) in spoken or (pod.title, container) in spoken


def _only_granted(found: list[Held], pods: NodePods, index: UnitIndex) -> dict[Key, Held]:
    """What containers that started were granted and no other source speaks of."""
    spoken = _places(found, pods)
    held = {(one.resource, unit) for one in found for unit in one.units}
    return {
        (pod.uid, part.container, resource): _of(pod, part.container, resource, names)
        for pod in pods.values()
        for part in (pod.grant.containers if pod.grant is not None and not pod.finished else ())
        if part.container in pod.started and not _speaks(spoken, pod, part.container)
        for resource, names in _granted(part, index, held).items()
    }


def _granted(part: ContainerGrant, index: UnitIndex, held: set[tuple[str, str]]) -> dict[str, set[str]]:
    """The units of a grant by resource; of a replica that it does not name, all that may be it."""
    found: dict[str, set[str]] = {}
    for device in part.devices:
        if device.kind is GrantKind.SHARE:
            found.setdefault(keys.GPU_SHARE, set())
        fitting = index.fitting(device) if device.kind is not GrantKind.SHARE else ()
        for unit in fitting:
            its = found.setdefault(unit.resource, set())
            if len(fitting) == 1 or (unit.resource, unit.id) not in held:
                its.add(unit.id)
    return found


def _unknown(found: Iterable[Held], pods: NodePods, resources: set[str]) -> list[Held]:
    """Containers that run with units of which no source knows which they are."""
    spoken = _places(found, pods)
    return [
        _of(pod, container, resource)
        for pod in pods.values()
        if not pod.finished
        for container, requests in pod.requests.items()
        if container in pod.running and not _speaks(spoken, pod, container)
        for resource in sorted(resources & requests.keys())
    ]
