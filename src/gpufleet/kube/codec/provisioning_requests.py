"""ProvisioningRequests as we write them, and what their conditions say.

A request names PodTemplates of its namespace, which have to be there before it. Both are owned by members of
the gang, so Kubernetes deletes them with the gang, also while no scheduler is there.
"""

import enum
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.queue_provisioning import ProvisioningTerms
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.objects.provisioning_requests import ProvisioningRequest
from gpufleet.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS
from gpufleet.model.identifiers import GangName
from gpufleet.model.model_errors import InputError

POD_SETS_MAX = 32
"""A request has at most so many kinds of pods; the definition of its kind says so."""

OWNERS_MAX = 16
"""So many members own a request: it stays while one of them does."""

_NAME_MAX = 40
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105
"""How the volumes begin that the API server adds to each pod, and would add to one of the template again."""

# What belongs to one pod and not to pods like it.
_OF_ONE_POD = ("nodeName", "schedulingGates", "ephemeralContainers", "hostname")
_CONTAINERS = ("containers", "initContainers")


class Stage(enum.Enum):
    """How far a request is, by the condition of which the status is True; the last of these counts."""

    PENDING = "Pending"
    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    BOOKING_EXPIRED = "BookingExpired"
    CAPACITY_REVOKED = "CapacityRevoked"
    FAILED = "Failed"


OVER = frozenset({Stage.BOOKING_EXPIRED, Stage.CAPACITY_REVOKED, Stage.FAILED})
"""Nothing is kept or bought for such a request any more."""


class RequestState(msgspec.Struct, frozen=True):
    """A request of ours: for which gang, which attempt, how far it is, since when, and what is said of it."""

    name: str
    namespace: str
    gang: GangName
    attempt: int
    class_name: str
    stage: Stage
    message: str = ""
    since_us: int = 0
    owners: tuple[OwnerReference, ...] = ()


def read_request(found: ProvisioningRequest) -> RequestState | None:
    """A request as it stands; None for one that is not ours."""
    said = found.metadata.annotations
    gang, attempt = said.get(keys.PROVISIONED_GANG), said.get(keys.PROVISIONING_ATTEMPT, "")
    if not gang or not re.fullmatch(r"[1-9][0-9]{0,3}", attempt):
        return None
    stage, message, since_us = Stage.PENDING, "", 0
    by_type = {one.type: one for one in found.status.conditions if one.status == "True"}
    for possible in Stage:
        condition = by_type.get(possible.value)
        if condition is not None:
            stage, message, since_us = possible, condition.message, _moment(condition.last_transition_time)
    metadata, class_name = found.metadata, found.spec.provisioning_class_name
    return RequestState(
        metadata.name,
        metadata.namespace,
        GangName(gang),
        int(attempt),
        class_name,
        stage,
        message,
        since_us,
        metadata.owner_references,
    )


def _moment(text: str | None) -> int:
    try:
        return microseconds(text)
    except InputError:
        return 0


def request_name(gang: GangName, first_owner: OwnerReference, attempt: int) -> str:
    """A name that follows from its arguments: what one scheduler began the next one finds by it."""
    words = _NOT_IN_NAMES.sub("-", gang.rpartition("/")[2].lower())[:_NAME_MAX].strip("-")
    digest = hashlib.sha256(f"{gang} {first_owner.uid}".encode()).hexdigest()[:10]
    return f"{words or 'gang'}-{digest}-{attempt}"


def template_name(request: str, position: int) -> str:
    """The name of a PodTemplate of a request."""
    return f"{request}-{position}"


def owner_of(name: str, uid: str) -> OwnerReference:
    """A pod as an owner."""
    return OwnerReference("v1", "Pod", name, uid)


def template_body(name: str, pod: bytes, owners: Iterable[OwnerReference]) -> bytes:
    """A PodTemplate with pods like this one, which is given as the server has it."""
    found: dict[str, Any] = msgspec.json.decode(pod)
    spec = {key: value for key, value in found["spec"].items() if key not in _OF_ONE_POD}
    spec["volumes"] = [one for one in spec.get("volumes", []) if not _is_token(one)]
    for part in _CONTAINERS:
        if part in spec:
            spec[part] = [_without_token(one) for one in spec[part]]
    template = {"metadata": {"labels": found["metadata"].get("labels", {})}, "spec": spec}
    body = {
        "apiVersion": POD_TEMPLATES.api_version,
        "kind": POD_TEMPLATES.name,
        "metadata": {"name": name, "ownerReferences": list(owners)},
        "template": template,
    }
    return msgspec.json.encode(body)


def _without_token(container: dict[str, Any]) -> dict[str, Any]:
    mounts = [one for one in container.get("volumeMounts", []) if not _is_token(one)]
    return {**container, "volumeMounts": mounts}


def _is_token(volume: dict[str, Any]) -> bool:
    return str(volume.get("name", "")).startswith(_TOKEN_VOLUME)


def request_body(
    name: str,
    gang: GangName,
    attempt: int,
    counts: Sequence[int],
    terms: ProvisioningTerms,
    owners: Iterable[OwnerReference],
) -> bytes:
    """A request for so many pods of each of its PodTemplates."""
    pod_sets = [
        {"podTemplateRef": {"name": template_name(name, position)}, "count": count}
        for position, count in enumerate(counts)
    ]
    annotations = {keys.PROVISIONED_GANG: gang, keys.PROVISIONING_ATTEMPT: str(attempt)}
    body = {
        "apiVersion": PROVISIONING_REQUESTS.api_version,
        "kind": PROVISIONING_REQUESTS.name,
        "metadata": {"name": name, "annotations": annotations, "ownerReferences": list(owners)},
        "spec": {
            "provisioningClassName": terms.class_name,
            "parameters": dict(terms.parameters),
            "podSets": pod_sets,
        },
    }
    return msgspec.json.encode(body)
