"""Devices are written into claims before their pod is bound, in the order of Kubernetes' own scheduler.

First the finalizer, so that the claim stays while it has devices; then the allocation and the pod's entry in
``reservedFor`` in one write of the status; the Binding comes after it. Each write names the version that it
rests on, so that of two writers one fails, reads anew and goes on from what stands there: a writer that ends
after any write is continued by the next. A claim that has devices of another's choice is left as it is.

A claim without devices is not read first: its first write rests on what the watch told of it, and the second
on the answer to the first.

What was written for a Binding that did not happen is given back: the entry of the pod, and the devices where
no other pod has an entry. A pod that has a node after all keeps everything.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.codec.resource_claims import EXACT_COUNT, read_resource_claim
from gpufleet.kube.codec.special_claims import SpecialClaim
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.objects.pod import ExtendedResourceClaim, ExtendedResourceUse, Pod
from gpufleet.kube.objects.resource_claims import (
    Consumer,
    ResourceClaimObject,
    ResourceClaimStatus,
    WrittenAllocation,
    WrittenChoice,
    WrittenRequest,
)
from gpufleet.kube.resources import PODS, RESOURCE_CLAIMS
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.model_errors import WorldError
from gpufleet.model.pod_name import PodName

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Kubernetes' name: its claim controller takes the finalizer away with the allocation."""

OF_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
"""Kubernetes' annotation of a claim that a scheduler made for extended resources of a pod."""

ATTEMPTS_MAX = 8
"""Other pods of a shared claim write it too, each once; after so many changes the place is given up."""


class ClaimProblemError(WorldError):
    """A claim could not get these devices for this pod; another place may do."""


@dataclass(frozen=True, slots=True)
class ClaimTask:
    """A claim by name and uid, and the devices chosen for it; None where it has some already.

    ``special`` is set for the claim for extended resources of the pod; its ``uid`` is "" until it is made.
    """

    name: str
    uid: str
    allocation: WrittenAllocation | None = None
    special: SpecialClaim | None = None


_POD = msgspec.json.Decoder(Pod)
_CLAIM = msgspec.json.Decoder(ResourceClaimObject)

KnownClaims = Callable[[str, str], ResourceClaimObject | None]
"""What the watch told last of the claim of a namespace and name."""


class ClaimWriter:
    """Writes what was chosen for claims."""

    def __init__(self, client: Client, known: KnownClaims, *, may_write: Callable[[], bool]) -> None:
        self.client = client
        self.known = known
        self.may_write = may_write

    async def prepare(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Return once the pod may use each claim. Raises ClaimProblemError where it cannot."""
        try:
            for task in tasks:
                await self._prepare(pod, task)
                if task.special is not None:
                    await self._name_in_status(pod, task.special)
        except LeadershipLost:
            raise
        except (KubeError, msgspec.DecodeError) as problem:
            raise ClaimProblemError(f"a claim was not written: {problem}") from problem

    async def _prepare(self, pod: PodName, task: ClaimTask) -> None:
        claim = self._untouched(pod, task)
        for _ in range(ATTEMPTS_MAX):
            try:
                claim = await self._advance(pod, task, claim or await self._read(pod, task))
            # What stands in the claim now says what is left to write, whichever scheduler wrote it.
            except (Conflict, OutcomeUnknown):
                claim = None
            else:
                if claim is None:
                    return
        raise ClaimProblemError(f"claim {task.name} changed with each of {ATTEMPTS_MAX} attempts")

    def _untouched(self, pod: PodName, task: ClaimTask) -> ResourceClaimObject | None:
        """The claim as the watch told it, if a write follows from that: its version shows whether it is old.

        A refusal, or the answer that nothing is left to write, needs the claim as it is now.
        """
        claim = self.known(pod.namespace, task.name)
        if claim is None or task.allocation is None or claim.metadata.uid != task.uid:
            return None
        is_open = claim.metadata.deletion_timestamp is None and claim.status == ResourceClaimStatus()
        return claim if is_open else None

    async def _advance(
        self, pod: PodName, task: ClaimTask, claim: ResourceClaimObject
    ) -> ResourceClaimObject | None:
        """Make the next write; the claim after it, or None if nothing is left to write."""
        allocation, finalizers = _agreed(claim, task), claim.metadata.finalizers
        consumer = Consumer(resource="pods", name=pod.name, uid=pod.uid)
        if any(one.uid == pod.uid for one in claim.status.reserved_for):
            return None
        self._check_leadership()
        version = {"resourceVersion": claim.metadata.resource_version}
        # A claim that has devices is in the care of the scheduler that gave them.
        if claim.status.allocation is None and FINALIZER not in finalizers:
            metadata = {**version, "finalizers": [*finalizers, FINALIZER]}
            answer = await self.client.patch(
                RESOURCE_CLAIMS, task.name, {"metadata": metadata}, namespace=pod.namespace
            )
            return _CLAIM.decode(answer)
        if claim.status.allocation is None and is_made_ready_first(allocation):
            # Kubernetes' scheduler counts the time in which devices have to be ready from here, so the next
            # leader can, too.
            began = whole_time(self.client.clock.now())
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=began)
        status = ResourceClaimStatus(allocation, (*claim.status.reserved_for, consumer))
        body = {"metadata": version, "status": status}
        await self.client.patch(
            RESOURCE_CLAIMS, task.name, body, namespace=pod.namespace, subresource="status"
        )
        return None

    async def give_back(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Undo what was written for a pod that was not bound. After a KubeError or DecodeError try again.

        Devices go only where they are those of the task, or had to be made ready, and no other pod may use
        the claim.
        """
        if not await self._has_node(pod):
            for task in tasks:
                await self._give_back(pod, task)

    async def _has_node(self, pod: PodName) -> bool:
        try:
            found = _POD.decode(await self.client.get(PODS, pod.name, namespace=pod.namespace))
        except NotFound:
            return False
        return found.metadata.uid == pod.uid and bool(found.spec.node_name)

    async def _give_back(self, pod: PodName, task: ClaimTask) -> None:
        try:
            raw = await self.client.get(RESOURCE_CLAIMS, task.name, namespace=pod.namespace)
        except NotFound:
            return
        claim = _CLAIM.decode(raw)
        allocation, users = claim.status.allocation, claim.status.reserved_for
        if (task.uid and claim.metadata.uid != task.uid) or allocation is None:
            return
        others = [one for one in users if one.uid != pod.uid]
        is_ours = task.allocation is not None and _devices(allocation) == _devices(task.allocation)
        # Devices that do not become ready keep no pod, whichever leader chose them.
        ends = (is_ours or is_made_ready_first(allocation)) and not others
        if not ends and len(others) == len(users):
            return
        self._check_leadership()
        # An entry that was added since is not lost: the version makes the write fail.
        version = {"resourceVersion": claim.metadata.resource_version}
        status = {"reservedFor": others or None, **({"allocation": None} if ends else {})}
        await self.client.patch(
            RESOURCE_CLAIMS,
            task.name,
            {"metadata": version, "status": status},
            namespace=pod.namespace,
            subresource="status",
        )

    def _check_leadership(self) -> None:
        if not self.may_write():
            raise LeadershipLost("leadership is no longer certain, so nothing more is written into claims")

    async def _read(self, pod: PodName, task: ClaimTask) -> ResourceClaimObject:
        try:
            return _CLAIM.decode(await self.client.get(RESOURCE_CLAIMS, task.name, namespace=pod.namespace))
        except NotFound as problem:
            if task.special is None:
                raise ClaimProblemError(f"claim {task.name} is not there any more") from problem
        self._check_leadership()
        body = written_claim(task.special, pod)
        return _CLAIM.decode(
            await self.client.create(RESOURCE_CLAIMS, body, name=task.name, namespace=pod.namespace)
        )

    async def _name_in_status(self, pod: PodName, claim: SpecialClaim) -> None:
        """Write into the pod's status which claim has the devices that its containers ask for by number.

        The kubelet reads it there.
        """
        self._check_leadership()
        status = ExtendedResourceClaim(claim.name, tuple(ExtendedResourceUse(*use) for use in claim.uses))
        # With the uid, so that no other pod of this name is written.
        body = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}
        answer = await self.client.patch(PODS, pod.name, body, namespace=pod.namespace, subresource="status")
        if _POD.decode(answer).status.extended_resource_claim_status is None:
            problem = "the API server keeps no extendedResourceClaimStatus of a pod"
            raise ClaimProblemError(f"{problem}: its gate DRAExtendedResource is off")


def is_made_ready_first(allocation: WrittenAllocation) -> bool:
    """True if the Binding of a pod has to wait until conditions of the devices hold."""
    return any(one.binding_conditions for one in allocation.devices.results)


def _agreed(claim: ResourceClaimObject, task: ClaimTask) -> WrittenAllocation:
    """The allocation that the claim has, or is to have. Raises ClaimProblemError where that cannot be."""
    metadata, there = claim.metadata, claim.status.allocation
    if task.uid and metadata.uid != task.uid:
        raise ClaimProblemError(f"claim {task.name} was made anew")
    if task.special is not None:
        _check_special(claim, task.special)
    if metadata.deletion_timestamp is not None:
        raise ClaimProblemError(f"claim {task.name} is being deleted")
    found = there or task.allocation
    if found is None:
        raise ClaimProblemError(f"claim {task.name} gave back its devices")
    if task.allocation is not None and _devices(found) != _devices(task.allocation):
        raise ClaimProblemError(f"claim {task.name} got other devices")
    return found


def _check_special(claim: ResourceClaimObject, special: SpecialClaim) -> None:
    """Raise ClaimProblemError for a claim of this name that is another's, or asks for something else."""
    if not any(owner.uid == special.pod for owner in claim.metadata.owner_references):
        raise ClaimProblemError(f"claim {special.name} was not made for this pod: delete it")
    if read_resource_claim(claim) != special.asks:
        problem = f"claim {special.name} asks for something else than the pod does by the classes of now"
        raise ClaimProblemError(f"{problem}: delete it")


def written_claim(claim: SpecialClaim, pod: PodName) -> dict[str, object]:
    """The claim for extended resources of a pod, as Kubernetes' scheduler makes it but for its name.

    Its name is the same with each attempt, so that an earlier one is found and none is made twice.
    """
    owner = OwnerReference("v1", "Pod", pod.name, pod.uid, controller=True)
    requests = [
        WrittenRequest(
            one.name, WrittenChoice(one.class_name, allocation_mode=EXACT_COUNT, count=one.devices)
        )
        for one in claim.requests
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": claim.name,
            "namespace": claim.namespace,
            "annotations": {OF_EXTENDED_RESOURCES: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _devices(allocation: WrittenAllocation) -> list[tuple[str, str, str, str]]:
    # The id of a share is left out: each writer makes its own.
    return [(one.request, one.driver, one.pool, one.device) for one in allocation.devices.results]
