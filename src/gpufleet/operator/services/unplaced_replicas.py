"""Replicas that were asked for and have no place: what is said of them on their owner.

A Deployment says it in a condition, which its controller leaves as it is; the status of other owners is
written anew by theirs, so an Event has to do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.model.phrases import counted
from gpufleet.operator.services.service_pods import ServicePod

CONDITION = "gpufleet.io/ReplicasPlaced"
PLACED, NOT_PLACED = "AllReplicasPlaced", "ReplicasNotPlaced"
PATIENCE_US = 30 * 10**6
"""A replica that is younger may just not have been decided on."""

MESSAGE_CHARACTERS_MAX = 800
"""An Event has room for 1,024 bytes."""


class OwnerCondition(Structure, frozen=True):
    """A condition of an owner."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class OwnerStatus(Structure, frozen=True):
    """The conditions of an owner."""

    conditions: tuple[OwnerCondition, ...] = ()


class Owner(Structure, frozen=True):
    """A Deployment, a ReplicaSet or a StatefulSet."""

    metadata: Metadata
    status: OwnerStatus = OwnerStatus()

    @property
    def condition(self) -> OwnerCondition | None:
        """What we said of its replicas last."""
        return next((one for one in self.status.conditions if one.type == CONDITION), None)


class Unplaced(msgspec.Struct, frozen=True):
    """Replicas of one owner: how many have a place, how many wait, for which reason most, and in words."""

    placed: int
    waiting: int
    reason: str
    message: str

    @property
    def words(self) -> str:
        """The sentence for its owner."""
        have = "has" if self.placed == 1 else "have"
        wait = "waits" if self.waiting == 1 else "wait"
        said = f"{counted(self.placed, 'replica')} {have} a place, {self.waiting} {wait}: {self.message}"
        return said[:MESSAGE_CHARACTERS_MAX]


OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of what makes pods."""


KINDS = ("Deployment", "ReplicaSet", "StatefulSet")
"""Owners whose pods are replicas of a service."""


def replicas_by_owner(
    pods: Iterable[ServicePod], deployments: Mapping[tuple[str, str], str], scheduler_name: str
) -> Mapping[OwnerKey, list[ServicePod]]:
    """The replicas with GPUs of each owner, as far as they are there.

    ``deployments`` names the Deployment of a ReplicaSet, by namespace and name.
    """
    by_owner: defaultdict[OwnerKey, list[ServicePod]] = defaultdict(list)
    for pod in pods:
        owner, namespace = pod.metadata.controller, pod.metadata.namespace
        if owner is None or not pod.gpus or not pod.is_there or pod.spec.scheduler_name != scheduler_name:
            continue
        deployment = deployments.get((namespace, owner.name)) if owner.kind == "ReplicaSet" else None
        kind, name = (owner.kind, owner.name) if deployment is None else ("Deployment", deployment)
        if kind in KINDS:
            by_owner[kind, namespace, name].append(pod)
    return by_owner


def unplaced(
    replicas: Mapping[OwnerKey, list[ServicePod]], now_us: int
) -> Mapping[OwnerKey, Unplaced | None]:
    """What there is to say of each owner; None where each replica has a place.

    An owner is left out while replicas wait of which nothing is decided yet: what was said of it stays.
    """
    found: dict[OwnerKey, Unplaced | None] = {}
    for key, pods in replicas.items():
        of_owner = _unplaced(pods, now_us)
        if of_owner is not None or all(pod.spec.node_name for pod in pods):
            found[key] = of_owner
    return found


def _unplaced(pods: list[ServicePod], now_us: int) -> Unplaced | None:
    """What replicas wait for; None where none has waited for long enough, and with a reason."""
    old = [pod for pod in pods if now_us - pod.created_us >= PATIENCE_US]
    waits = [said for pod in old if (said := pod.waits) is not None]
    if not waits:
        return None
    reason = min(Counter(one.reason for one in waits).items(), key=lambda found: (-found[1], found[0]))[0]
    message = next(one.message for one in waits if one.reason == reason)
    placed = sum(bool(pod.spec.node_name) for pod in pods)
    return Unplaced(placed, len(waits), reason, message)
