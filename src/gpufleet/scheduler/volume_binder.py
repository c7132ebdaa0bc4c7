"""Binding claims before their pod: the second half of WaitForFirstConsumer.

The engine chose a free volume or a provisioner for each unbound claim together with the node. Here
that is written down the way every volume controller understands it: a chosen volume gets the claim
as its ``claimRef``; a claim to be provisioned gets the node in an annotation, which its provisioner
removes if it cannot. The pod is bound once all its claims are.
"""

from collections.abc import Callable

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.errors import KubeError
from gpufleet.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from gpufleet.kube.outcome import OutcomeUnknown
from gpufleet.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from gpufleet.model.errors import WorldError
from gpufleet.model.identifiers import NodeName
from gpufleet.scheduler.wire_text import PodName

WAIT_S = 600.0
"""How long a claim may take, as in kube-scheduler's bindTimeoutSeconds."""

LOOK_EVERY_S = 0.2
_CLAIM = msgspec.json.Decoder(PersistentVolumeClaim)
_VOLUME = msgspec.json.Decoder(PersistentVolume)


class VolumeTask(msgspec.Struct, frozen=True):
    """An unbound claim and the volume chosen for it; "" where one is to be made."""

    claim: str
    volume: str = ""


class VolumeProblemError(WorldError):
    """A claim could not be bound for this place; another place may do."""


FindClaim = Callable[[str, str], PersistentVolumeClaim | None]


class VolumeBinder:
    """Writes the choice and waits. ``find_claim`` looks a claim up in the mirror."""

    def __init__(self, client: Client, find_claim: FindClaim) -> None:
        self.client = client
        self.find_claim = find_claim

    async def prepare(self, pod: PodName, node: NodeName, tasks: tuple[VolumeTask, ...]) -> None:
        """Return once every claim is bound. Raises VolumeProblemError where one cannot be, here."""
        try:
            for task in tasks:
                await self._choose(pod, node, task)
        except KubeError as problem:
            raise VolumeProblemError(f"a claim's choice was not written: {problem}") from problem
        give_up_at_s = self.client.clock.monotonic_s() + WAIT_S
        waiting = list(tasks)
        while waiting:
            waiting = [task for task in waiting if not self._bound(pod, node, task)]
            if waiting:
                if self.client.clock.monotonic_s() > give_up_at_s:
                    raise VolumeProblemError(f"claim {waiting[0].claim} was not bound in {WAIT_S:.0f} s")
                await self.client.clock.sleep(LOOK_EVERY_S)

    async def _choose(self, pod: PodName, node: NodeName, task: VolumeTask) -> None:
        name = claim_name(task)
        body = await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace=pod.namespace)
        claim = _CLAIM.decode(body)
        if claim.bound:
            return
        try:
            if task.volume:
                await self._give_volume(claim, task.volume)
            else:
                await self._name_node(claim, node)
        except OutcomeUnknown:
            # Whether it was written is seen by the wait that follows, which has a limit.
            return

    async def _give_volume(self, claim: PersistentVolumeClaim, volume_name: str) -> None:
        volume = _VOLUME.decode(await self.client.get(PERSISTENT_VOLUMES, volume_name))
        holder = volume.spec.claim_ref
        if holder is not None:
            if holder.uid and holder.uid != claim.metadata.uid:
                raise VolumeProblemError(f"volume {volume_name} was taken by another claim")
            if (holder.namespace, holder.name) != (claim.metadata.namespace, claim.metadata.name):
                raise VolumeProblemError(f"volume {volume_name} is kept for another claim")
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        patch = {
            # The version makes this fail if another scheduler was faster.
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
            },
            "spec": {"claimRef": reference},
        }
        await self.client.patch(PERSISTENT_VOLUMES, volume_name, patch)

    async def _name_node(self, claim: PersistentVolumeClaim, node: NodeName) -> None:
        patch = {
            "metadata": {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {keys.SELECTED_NODE: node},
            }
        }
        await self.client.patch(
            PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, patch, namespace=claim.metadata.namespace
        )

    def _bound(self, pod: PodName, node: NodeName, task: VolumeTask) -> bool:
        claim = self.find_claim(pod.namespace, claim_name(task))
        if claim is None:
            raise VolumeProblemError(f"claim {task.claim} is gone")
        if claim.bound:
            if task.volume and claim.spec.volume_name != task.volume:
                raise VolumeProblemError(f"claim {task.claim} got volume {claim.spec.volume_name}")
            return True
        chosen = claim.metadata.annotations.get(keys.SELECTED_NODE)
        if not task.volume and chosen is not None and chosen != node:
            raise VolumeProblemError(f"claim {task.claim} is being made for node {chosen}")
        return False


def claim_name(task: VolumeTask) -> str:
    """The claim's name without its namespace."""
    return task.claim.rpartition("/")[2]
