"""Devices are written into claims before their pod is bound, in the order of Kubernetes' own scheduler.

First the finalizer, so that the claim stays while it has devices; then the allocation and the pod's entry in
``reservedFor`` in one write of the status; the Binding comes after it. Each write names the version that was
read, so that of two writers one fails, reads anew and goes on from what stands there: a writer that ends
after any write is continued by the next. A claim that has devices of another's choice is left as it is.

The scheduler does not use it yet: the engine chooses no devices for claims, and pods with claims are held
back with that reason (``kube.codec.waits``).
"""

from dataclasses import dataclass

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.resource_claims import (
    Consumer,
    ResourceClaimObject,
    ResourceClaimStatus,
    WrittenAllocation,
)
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import RESOURCE_CLAIMS
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.model_errors import WorldError
from gpufleet.model.pod_name import PodName

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Kubernetes' name: its claim controller takes the finalizer away with the allocation."""

ATTEMPTS_MAX = 8
"""Other pods of a shared claim write it too, each once; after so many changes the place is given up."""


class ClaimProblemError(WorldError):
    """A claim could not get these devices for this pod; another place may do."""


@dataclass(frozen=True, slots=True)
class ClaimTask:
    """A claim by name and uid, and the devices chosen for it; None where it has some already."""

    name: str
    uid: str
    allocation: WrittenAllocation | None = None


class _Finalized(Structure, frozen=True):
    finalizers: tuple[str, ...] = ()


class _Protected(Structure, frozen=True):
    metadata: _Finalized = _Finalized()


_CLAIM = msgspec.json.Decoder(ResourceClaimObject)
_PROTECTED = msgspec.json.Decoder(_Protected)


class ClaimWriter:
    """Writes what was chosen for claims."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def prepare(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Return once the pod may use each claim. Raises ClaimProblemError where it cannot."""
        try:
            for task in tasks:
                await self._prepare(pod, task)
        except (KubeError, msgspec.DecodeError) as problem:
            raise ClaimProblemError(f"a claim was not written: {problem}") from problem

    async def _prepare(self, pod: PodName, task: ClaimTask) -> None:
        for _ in range(ATTEMPTS_MAX):
            try:
                if await self._advance(pod, task):
                    return
            # What stands in the claim now says what is left to write, whichever scheduler wrote it.
            except (Conflict, OutcomeUnknown):
                continue
        raise ClaimProblemError(f"claim {task.name} changed with each of {ATTEMPTS_MAX} attempts")

    async def _advance(self, pod: PodName, task: ClaimTask) -> bool:
        """Make the next write; True if none is left."""
        raw = await self._read(pod, task)
        claim, finalizers = _CLAIM.decode(raw), _PROTECTED.decode(raw).metadata.finalizers
        allocation = _agreed(claim, task)
        consumer = Consumer(resource="pods", name=pod.name, uid=pod.uid)
        if any(one.uid == pod.uid for one in claim.status.reserved_for):
            return True
        version = {"resourceVersion": claim.metadata.resource_version}
        # A claim that has devices is in the care of the scheduler that gave them.
        if claim.status.allocation is None and FINALIZER not in finalizers:
            metadata = {**version, "finalizers": [*finalizers, FINALIZER]}
            await self.client.patch(
                RESOURCE_CLAIMS, task.name, {"metadata": metadata}, namespace=pod.namespace
            )
            return False
        status = ResourceClaimStatus(allocation, (*claim.status.reserved_for, consumer))
        body = {"metadata": version, "status": status}
        await self.client.patch(
            RESOURCE_CLAIMS, task.name, body, namespace=pod.namespace, subresource="status"
        )
        return True

    async def _read(self, pod: PodName, task: ClaimTask) -> bytes:
        try:
            return await self.client.get(RESOURCE_CLAIMS, task.name, namespace=pod.namespace)
        except NotFound as problem:
            raise ClaimProblemError(f"claim {task.name} is not there any more") from problem


def _agreed(claim: ResourceClaimObject, task: ClaimTask) -> WrittenAllocation:
    """The allocation that the claim has, or is to have. Raises ClaimProblemError where that cannot be."""
    metadata, there = claim.metadata, claim.status.allocation
    if metadata.uid != task.uid:
        raise ClaimProblemError(f"claim {task.name} was made anew")
    if metadata.deletion_timestamp is not None:
        raise ClaimProblemError(f"claim {task.name} is being deleted")
    found = there or task.allocation
    if found is None:
        raise ClaimProblemError(f"claim {task.name} gave back its devices")
    if task.allocation is not None and _devices(found) != _devices(task.allocation):
        raise ClaimProblemError(f"claim {task.name} got other devices")
    return found


def _devices(allocation: WrittenAllocation) -> list[tuple[str, str, str, str]]:
    # The id of a share is left out: each writer makes its own.
    return [(one.request, one.driver, one.pool, one.device) for one in allocation.devices.results]
