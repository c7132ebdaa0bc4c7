"""A pod of the API as a version for the interval log: whose it is, what it holds, and since when.

Every moment is one of the server's stamps in this version, or is left open for another version to tell. The
moment of the Binding has microseconds where our scheduler wrote the grant and its clock agrees with the
server's.
"""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.containers import pod_amounts
from gpufleet.kube.codec.field_path import of_object
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.pod import Pod
from gpufleet.ledger.stamped_objects import (
    ENDED_PHASES,
    POD_SCHEDULED,
    READY,
    TRUE,
    StampedContainerStatus,
    StampedPod,
    StampedPodStatus,
)
from gpufleet.ledger.stamps import (
    US_PER_S,
    condition_moments,
    container_moments,
    deletion_us,
    latest,
    metadata_moments,
    moment,
)
from gpufleet.ledger.versions import PodVersion
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.grant import Grant
from gpufleet.model.identifiers import NodeName, PodUid, QueueName
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.requests import total_requests

SKEW_MAX_US = 30 * US_PER_S
"""A scheduler's clock that is farther from the server's is not believed; the server's seconds count then."""

TEMPLATE_HASH = "pod-template-hash"
"""The label by which a ReplicaSet is told from others of its Deployment; its name ends with it."""

NOTHING = parse_quantity("0")
"""What a pod asks for of a resource that it does not name."""


def pod_version(raw: bytes | msgspec.Raw) -> PodVersion:
    """What this version says. Raises ObjectError for a pod that cannot be read."""
    pod, stamped = _POD.decode(raw), _STAMPED.decode(raw)
    metadata, status = stamped.metadata, stamped.status
    with of_object("pod", metadata.path):
        amounts = total_requests(pod_amounts(pod.spec))
    grant = _grant(pod)
    terms = None if grant is None else grant.terms
    gang = None if terms is None else terms.gang
    started, is_first = _started(stamped)
    ready = status.condition(READY)
    turned_us = None if ready is None else moment(ready.last_transition_time)
    is_ready = ready is not None and ready.status == TRUE
    return PodVersion(
        PodUid(metadata.uid),
        int(metadata.resource_version),
        _at_us(stamped),
        namespace=metadata.namespace,
        name=metadata.name,
        queue=_queue(pod.metadata, terms),
        labels=tuple(sorted(metadata.labels.items())),
        owner=owner_of(metadata),
        node=NodeName(pod.spec.node_name),
        bound_us=_bound_us(status, terms, metadata) if pod.spec.node_name else None,
        epoch=0 if grant is None else grant.epoch,
        devices=() if grant is None else granted_devices(grant),
        gang="" if gang is None else gang.gang.name,
        gang_members=1 if gang is None else gang.gang.min_members,
        cpu_milli=amounts.get("cpu", NOTHING).milli_value(),
        memory_bytes=amounts.get("memory", NOTHING).value(),
        started_us=started if is_first else None,
        ready_us=turned_us if is_ready else None,
        # A condition that turned after the start was true before: from when on nothing here tells.
        was_ready=is_ready or (None not in (turned_us, started) and (turned_us or 0) > (started or 0)),
        was_started=started is not None,
        has_readiness_probe=any(one.readiness_probe is not None for one in stamped.spec.containers),
        deletion_us=deletion_us(metadata),
        ended_us=_ended_us(stamped),
    )


def owner_of(metadata: Metadata) -> str:
    """The object that a pod belongs to, as "Job/train"; "" for a pod that stands alone."""
    owner = metadata.controller
    if owner is None:
        return ""
    ending = f"-{metadata.labels.get(TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
        return f"Deployment/{owner.name.removesuffix(ending)}"
    return f"{owner.kind}/{owner.name}"


def _grant(pod: Pod) -> Grant | None:
    """The grant; None where there is none that can be read: then the node's report tells what it holds."""
    text = pod.metadata.annotations.get(keys.GRANT)
    try:
        return None if text is None else read_grant(text)
    except ObjectError:
        return None


def _queue(metadata: Metadata, terms: BoundTerms | None) -> QueueName:
    """The queue with which it was bound, else the one that it names."""
    if terms is not None:
        return terms.queue
    said = named_queue(metadata.labels, metadata.annotations)
    return QueueName("" if said is None else said[1])


def _at_us(pod: StampedPod) -> int:
    status = pod.status
    return latest(
        metadata_moments(pod.metadata),
        condition_moments(status.conditions),
        container_moments(_statuses(status)),
        [moment(status.start_time)],
    )


def _bound_us(status: StampedPodStatus, terms: BoundTerms | None, metadata: Metadata) -> int | None:
    scheduled = status.condition(POD_SCHEDULED)
    is_scheduled = scheduled is not None and scheduled.status == TRUE
    stamp = moment(scheduled.last_transition_time) if scheduled is not None and is_scheduled else None
    # A pod of a kubelet's own files has a node from the beginning, and nothing binds it.
    at_us = stamp or moment(status.start_time) or moment(metadata.creation_timestamp)
    if terms is None or at_us is None:
        return at_us
    return terms.at_us if abs(terms.at_us - at_us) <= SKEW_MAX_US else at_us


def _started(pod: StampedPod) -> tuple[int | None, bool]:
    """The start of the container that started last, as far as is told, and whether that was its first one.

    A container tells of two runs. After more of them its first start is not known.
    """
    told = {one.name: one for one in pod.status.container_statuses}
    found = []
    for container in pod.spec.containers:
        status = told.get(container.name, StampedContainerStatus())
        starts = [at for at in (moment(run.started_at) for run in status.runs) if at is not None]
        if not starts:
            return None, False
        found.append((min(starts), len(starts) > status.restart_count))
    # Of two that started in one second the one of which less is known counts.
    return max(found, key=lambda one: (one[0], not one[1]), default=(None, False))


def _ended_us(pod: StampedPod) -> int | None:
    """When a pod that ended had its last container end.

    Where a container's present run does not tell its end, as of a pod that was evicted or never ran, it is
    the moment of this version. Ends of earlier runs and of containers that prepare the pod are not its end.
    """
    if pod.status.phase not in ENDED_PHASES:
        return None
    told = {one.name: one.state.terminated for one in pod.status.container_statuses}
    last = [told.get(container.name) for container in pod.spec.containers]
    finished = [None if run is None else moment(run.finished_at) for run in last]
    return _at_us(pod) if None in finished else latest(finished)


def _statuses(status: StampedPodStatus) -> tuple[StampedContainerStatus, ...]:
    return (*status.init_container_statuses, *status.container_statuses)


_POD = msgspec.json.Decoder(Pod)
_STAMPED = msgspec.json.Decoder(StampedPod)
