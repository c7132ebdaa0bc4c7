"""What a pod means, with the help of all the objects it speaks of.

Every object that is looked up on the way is remembered as one that the pod depends on
(``dependencies``), so that the pod is read again when it changes. A pod that cannot be handed to the
engine is ``Held``, with the reason for its owner.
"""

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from gpufleet.cluster.claims.extended_resources import ExtendedResources
from gpufleet.cluster.claims.usable_claims import named_claims, usable_claims
from gpufleet.cluster.nodes.kept_nodes import TOLERATION
from gpufleet.cluster.pods.data_waits import DataWaits
from gpufleet.cluster.pods.dependencies import Dependencies, ObjectKey
from gpufleet.cluster.pods.effective_terms import as_bound, ignored
from gpufleet.cluster.pods.held_devices import devices_of
from gpufleet.cluster.queues.queue_tracker import QueueTracker
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.chosen_nodes import NodesComing, read_chosen_nodes
from gpufleet.kube.codec.eviction_terms import is_preemptible
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.pod import NO_LABELS, GangPart, read_placed_pod, read_pod
from gpufleet.kube.codec.pod_images import images_of_pod
from gpufleet.kube.codec.queues import read_queue
from gpufleet.kube.codec.special_claims import SpecialClaim, without_claimed_resources, without_resources
from gpufleet.kube.codec.volumes import NOTHING, read_volumes
from gpufleet.kube.codec.waits import Wait, waits_of
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.disruption import PriorityClass
from gpufleet.kube.objects.node_devices import Holder
from gpufleet.kube.objects.pod import Pod, PodSpec
from gpufleet.kube.resources import Kind
from gpufleet.model import pod as model
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import Grant, GrantedDevice
from gpufleet.model.identifiers import DEFAULT_QUEUE, DeviceId, NodeName, PodUid, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.model.shape import GpuRequest

LOG = logging.getLogger(__name__)
MALFORMED = "Malformed"
"""The reason that is told for a pod that cannot be understood."""

GRANTS_KEPT_MAX = 64
"""A pod's grant is asked for several times in a row; more than the newest few are not asked for again."""


class Held(msgspec.Struct, frozen=True):
    """Why a pod is not handed to the engine: a reason as in conditions, and words for its owner."""

    reason: str
    message: str


class Placed(msgspec.Struct, frozen=True):
    """What a placed pod is, the terms of its grant, and what it says since that does not count."""

    meaning: model.Pod
    terms: BoundTerms | None = None
    ignored: tuple[str, ...] = ()


class FindGang(Protocol):
    """Which gang a pod belongs to: ``gangs`` knows."""

    def part(self, pod: Pod, lookup: Lookup) -> GangPart | Wait | None:
        """The pod's gang and its role there. Raises ObjectError for what cannot be."""
        ...

    def hold(self, pod: Pod, terms: BoundTerms, lookup: Lookup) -> Membership | None:
        """Note the gang that a placed pod was bound with; what it says of a gang now, if that can be read."""
        ...


class Recorder:
    """Looks objects up and remembers which were asked for, those that are not there too."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self.keys: set[ObjectKey] = set()

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """The object of a kind and a name, remembered as one that the pod depends on."""
        self.keys.add(ObjectKey(kind, namespace, name))
        return self.cluster.find(kind, name, namespace)

    def all(self, kind: Kind) -> Iterable[Any]:
        """All objects of a kind."""
        self.keys.add(ObjectKey(kind, "", ""))
        return self.cluster.all(kind)


class PodReader:
    """Reads pods and remembers on what each depends."""

    def __init__(self, cluster: Lookup, dependencies: Dependencies, gangs: FindGang) -> None:
        self.cluster = cluster
        self.queues = QueueTracker(cluster)
        self.dependencies = dependencies
        self.gangs = gangs
        self.data_waits = DataWaits(cluster, self._now_us)
        self.extended = ExtendedResources(cluster)
        self.expect_claim: Callable[[SpecialClaim], None] = lambda _: None

    def _now_us(self) -> int:
        """The queues are given their clock after they are made."""
        return self.queues.now_us()

    def read(self, pod: Pod) -> model.Pod | Held:
        """A pod that waits for us, or why it cannot be placed whatever room there is."""
        recorder = Recorder(self.cluster)
        try:
            return self._read(pod, recorder)
        except ObjectError as problem:
            return Held(MALFORMED, str(problem))
        # What it names is noted also where it cannot be read: a change of that may mend it.
        finally:
            self.dependencies.replace(PodUid(pod.metadata.uid), frozenset(recorder.keys))

    def _read(self, pod: Pod, lookup: Recorder) -> model.Pod | Held:
        waits = waits_of(pod)
        if waits:
            return held_by(waits)
        special = self.extended.claim_of(pod)
        if special is not None:
            pod = without_resources(pod, {(use.container, use.resource) for use in special.uses})
        claims = usable_claims(pod, lookup)
        if isinstance(claims, Wait):
            return held_by((claims,))
        if special is not None:
            self.expect_claim(special)
            claims = tuple(dict.fromkeys((*claims, special.asks.path)))
        volumes = read_volumes(pod, lookup)
        if volumes.waits:
            return held_by(volumes.waits)
        gang = self.gangs.part(pod, lookup)
        if isinstance(gang, Wait):
            return held_by((gang,))
        found = read_pod(
            pod,
            volumes=volumes.volumes,
            gang=gang,
            namespace_labels=self._namespace_labels(pod, lookup),
            queues=self.queues.of_namespace(pod.metadata.namespace),
            preemptible=_may_be_evicted(pod, lookup),
        )
        found = self.data_waits.decided(with_claims(found, claims) if claims else found, images_of_pod(pod))
        return with_chosen_nodes(found) if isinstance(read_chosen_nodes(pod), NodesComing) else found

    def read_placed(self, pod: Pod) -> Placed:
        """A pod that has a node, placed by any scheduler.

        How much of each GPU it holds, in which queue and on which terms, is what its grant says, not what its
        owner may have written since. An author of pods may write a node's name into a new pod, with amounts
        that no machine has, and the kubelet turns such a pod away: nothing but its grant and its being there
        is counted.
        """
        terms = self.terms(pod)
        recorder = Recorder(self.cluster)
        words = None if terms is None else self.gangs.hold(pod, terms, recorder)
        self.dependencies.replace(PodUid(pod.metadata.uid), frozenset(recorder.keys))
        said = self._read_placed(pod, self._gang_now(pod) if terms is None else None)
        if terms is None:
            return Placed(said)
        return Placed(as_bound(said, terms), terms, ignored(said, words, terms))

    def terms(self, pod: Pod) -> BoundTerms | None:
        """What a placed pod was bound with; None where its grant does not say it."""
        grant = self._grant(pod)
        return None if grant is None else grant.terms

    def read_words_again(self, pod: Pod, terms: BoundTerms) -> None:
        """What a placed pod names may have changed, such as its gang's object."""
        recorder = Recorder(self.cluster)
        self.gangs.hold(pod, terms, recorder)
        self.dependencies.replace(PodUid(pod.metadata.uid), frozenset(recorder.keys))

    def _gang_now(self, pod: Pod) -> GangPart | None:
        try:
            part = self.gangs.part(pod, self.cluster)
        except ObjectError:
            return None
        return part if isinstance(part, GangPart) else None

    def _read_placed(self, pod: Pod, gang: GangPart | None) -> model.Pod:
        """A placed pod as it describes itself now, but for the devices of its grant."""
        pod = without_claimed_resources(pod)
        try:
            volumes = read_volumes(pod, self.cluster).volumes
        except ObjectError:
            volumes = NOTHING.volumes
        labels = self._namespace_labels(pod, self.cluster)
        queues = self.queues.of_namespace(pod.metadata.namespace)
        preemptible = self.preemptible(pod)
        try:
            meaning = read_placed_pod(
                pod,
                volumes=volumes,
                gang=gang,
                namespace_labels=labels,
                queues=queues,
                preemptible=preemptible,
            )
        except ObjectError as problem:
            words = "a placed pod asks for what cannot be; only its place among the pods is counted"
            LOG.error(words, extra={"problem": str(problem)})  # noqa: TRY400
            # The time at which it was made may be what cannot be read.
            metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=None)
            bare = msgspec.structs.replace(pod, metadata=metadata, spec=PodSpec(containers=()))
            meaning = read_placed_pod(
                bare, gang=gang, namespace_labels=labels, queues=queues, preemptible=preemptible
            )
        claims = named_claims(pod)
        if claims:
            meaning = with_claims(meaning, claims)
        granted = self._granted(pod)
        if not granted or agrees(meaning.shape.gpu, granted):
            return meaning
        shape = msgspec.structs.replace(meaning.shape, gpu=request_of(granted))
        return msgspec.structs.replace(meaning, shape=shape)

    def preemptible(self, pod: Pod) -> bool:
        """True unless the priority class of a placed pod says that it is never evicted for others' sake."""
        try:
            return _may_be_evicted(pod, self.cluster)
        except ObjectError:
            return True

    def queue_of(self, pod: Pod) -> QueueName:
        """The queue that a placed pod is counted in."""
        metadata = pod.metadata
        labels = self._namespace_labels(pod, self.cluster)
        try:
            queues = self.queues.of_namespace(metadata.namespace)
            return read_queue(metadata.labels, metadata.annotations, labels, queues)
        # It runs whatever its label says, so it has to count in some queue.
        except InputError:
            return DEFAULT_QUEUE

    def devices(self, pod: Pod, count: int) -> tuple[DeviceId | None, ...]:
        """The devices that a placed pod holds: as its node reports, else as granted, else unknown."""
        held = tuple(dict.fromkeys(DeviceId(one.device) for one in self.holders(pod)))
        return devices_of(count, self.granted(pod), held)

    def holders(self, pod: Pod) -> list[Holder]:
        """What its node reports of what the pod holds."""
        uid = pod.metadata.uid
        return [one for one in self.reported(NodeName(pod.spec.node_name)) if one.pod_uid == uid]

    def reported(self, node: NodeName) -> tuple[Holder, ...]:
        """The holders of devices on a node, as the node reports."""
        report = self.cluster.find(resources.NODE_DEVICES, node)
        return () if report is None else report.spec.holders

    def granted(self, pod: Pod) -> tuple[DeviceId, ...]:
        """The devices that a placed pod was granted."""
        return tuple(granted.device for granted in self._granted(pod))

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        self.dependencies.replace(uid, frozenset())

    def _granted(self, pod: Pod) -> tuple[GrantedDevice, ...]:
        return self.grant(pod) or ()

    def grant(self, pod: Pod) -> tuple[GrantedDevice, ...] | None:
        """The devices of a pod's grant; None where it has one that cannot be read."""
        if keys.GRANT not in pod.metadata.annotations:
            return ()
        grant = self._grant(pod)
        return None if grant is None else granted_devices(grant)

    def _grant(self, pod: Pod) -> Grant | None:
        text = pod.metadata.annotations.get(keys.GRANT)
        if text is None:
            return None
        try:
            return _read_grant(text)
        except ObjectError as problem:
            LOG.warning(
                "a grant cannot be read; the pod's devices are counted as unknown ones",
                extra={"pod": pod.metadata.path, "problem": str(problem)},
            )
            return None

    def _namespace_labels(self, pod: Pod, lookup: Lookup) -> dict[str, str]:
        namespace = lookup.find(resources.NAMESPACES, pod.metadata.namespace)
        return dict(NO_LABELS) if namespace is None else namespace.metadata.labels


@functools.lru_cache(maxsize=GRANTS_KEPT_MAX)
def _read_grant(text: str) -> Grant:
    """The grant of an annotation; each is asked for several times in a row."""
    return read_grant(text)


def _may_be_evicted(pod: Pod, lookup: Lookup) -> bool:
    name = pod.spec.priority_class_name
    found: PriorityClass | None = lookup.find(resources.PRIORITY_CLASSES, name) if name else None
    return found is None or is_preemptible(found)


def with_claims(pod: model.Pod, claims: tuple[str, ...]) -> model.Pod:
    """The pod, which is placed with devices for these claims."""
    relations = msgspec.structs.replace(pod.shape.relations, device_claims=claims)
    return msgspec.structs.replace(pod, shape=msgspec.structs.replace(pod.shape, relations=relations))


def with_chosen_nodes(pod: model.Pod) -> model.Pod:
    """The pod, for which nodes that join are kept."""
    tolerations = (*pod.shape.tolerations, TOLERATION)
    return msgspec.structs.replace(pod, shape=msgspec.structs.replace(pod.shape, tolerations=tolerations))


def held_by(waits: tuple[Wait, ...]) -> Held:
    """Several things waited for as one reason, that of the first."""
    return Held(waits[0].reason.value, "; ".join(wait.message for wait in waits))


def agrees(request: GpuRequest, granted: tuple[GrantedDevice, ...]) -> bool:
    """True if the grant gives what is asked for; memory that was not asked for is in proportion."""
    meant = request_of(granted)
    same = (request.count, request.gpu_milli) == (meant.count, meant.gpu_milli)
    return same and (request.whole or request.memory_mib in {None, meant.memory_mib})


def request_of(granted: tuple[GrantedDevice, ...]) -> GpuRequest:
    """The request that these devices serve."""
    first = granted[0]
    if first.undivided:
        return GpuRequest(len(granted), WHOLE_GPU_MILLI)
    return GpuRequest(len(granted), first.gpu_milli, first.memory_mib)
