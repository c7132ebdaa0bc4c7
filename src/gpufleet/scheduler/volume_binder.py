"""Binding claims before their pod: the second half of WaitForFirstConsumer.

The engine chose a free volume or a provisioner for each unbound claim together with the node. Here
that is written down the way every volume controller understands it: a chosen volume gets the claim
as its ``claimRef``; a claim to be provisioned gets the node in an annotation, which its provisioner
removes if it cannot: then the place is given up at once. The pod is bound once all its claims are.
"""

from collections.abc import Callable

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from gpufleet.kube.replica import is_newer
from gpufleet.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.identifiers import NodeName
from gpufleet.model.model_errors import WorldError
from gpufleet.model.pod_name import PodName

WAIT_S = 600.0
"""How long a claim may take, as in kube-scheduler's bindTimeoutSeconds."""

POLL_EVERY_S = 0.2
"""Volumes are made in seconds; a look reads our own copy of the claim and costs nothing."""

_CLAIM = msgspec.json.Decoder(PersistentVolumeClaim)
_VOLUME = msgspec.json.Decoder(PersistentVolume)


class VolumeTask(msgspec.Struct, frozen=True):
    """An unbound claim and the volume chosen for it; "" where one is to be made."""

    claim: str
    volume: str = ""


class VolumeProblemError(WorldError):
    """A claim could not be bound for this place; another place may do.

    ``refused_claim`` names the claim, with its namespace, if its provisioner turned the node down.
    """

    def __init__(self, problem: str, *, refused_claim: str = "") -> None:
        self.refused_claim = refused_claim
        super().__init__(problem)


class _Chosen(msgspec.Struct, frozen=True):
    """A task with its choice written; ``version`` is the claim's after our write of the node's name."""

    task: VolumeTask
    version: str = ""


FindClaim = Callable[[str, str], PersistentVolumeClaim | None]


class VolumeBinder:
    """Writes the choice and waits. ``find_claim`` looks a claim up in the mirror."""

    def __init__(self, client: Client, find_claim: FindClaim) -> None:
        self.client = client
        self.find_claim = find_claim

    async def prepare(self, pod: PodName, node: NodeName, tasks: tuple[VolumeTask, ...]) -> None:
        """Return once every claim is bound. Raises VolumeProblemError where one cannot be, here."""
        try:
            waiting = [await self._choose(pod, node, task) for task in tasks]
        except (KubeError, msgspec.DecodeError) as problem:
            raise VolumeProblemError(f"a claim's choice was not written: {problem}") from problem
        give_up_at_s = self.client.clock.monotonic_s() + WAIT_S
        while True:
            waiting = [one for one in waiting if not self._bound(pod, node, one)]
            if not waiting:
                return
            if self.client.clock.monotonic_s() > give_up_at_s:
                raise VolumeProblemError(f"claim {waiting[0].task.claim} was not bound in {WAIT_S:.0f} s")
            await self.client.clock.sleep(POLL_EVERY_S)

    async def _choose(self, pod: PodName, node: NodeName, task: VolumeTask) -> _Chosen:
        claim = await self._claim(pod, task)
        # An earlier try of ours or another pod with this claim was first; ``_bound`` compares the volume.
        if claim.bound:
            return _Chosen(task)
        if not task.volume:
            return _Chosen(task, await self._name_node(pod, task, claim, node))
        try:
            await self._give_volume(claim, task.volume)
        except OutcomeUnknown as unknown:
            volume = _VOLUME.decode(await self.client.get(PERSISTENT_VOLUMES, task.volume))
            if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
                raise VolumeProblemError(f"volume {task.volume} was not given away: {unknown}") from unknown
        return _Chosen(task)

    async def _claim(self, pod: PodName, task: VolumeTask) -> PersistentVolumeClaim:
        name = claim_name(task)
        return _CLAIM.decode(await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace=pod.namespace))

    async def _give_volume(self, claim: PersistentVolumeClaim, volume_name: str) -> None:
        volume = _VOLUME.decode(await self.client.get(PERSISTENT_VOLUMES, volume_name))
        holder = volume.spec.claim_ref
        if holder is not None:
            # A reference without a uid keeps the volume for a claim by name, which may be this one.
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
                # By this, Kubernetes' volume controller knows that no person chose the claim, and may take
                # the reference back.
                "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
            },
            "spec": {"claimRef": reference},
        }
        await self.client.patch(PERSISTENT_VOLUMES, volume_name, patch)

    async def _name_node(
        self, pod: PodName, task: VolumeTask, claim: PersistentVolumeClaim, node: NodeName
    ) -> str:
        """Name the node in the claim; the version of the claim from which on it stands there."""
        patch = {
            "metadata": {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {keys.SELECTED_NODE: node},
            }
        }
        try:
            answer = await self.client.patch(
                PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, patch, namespace=claim.metadata.namespace
            )
            written = _CLAIM.decode(answer)
        except OutcomeUnknown as unknown:
            written = await self._claim(pod, task)
            named = written.metadata.annotations.get(keys.SELECTED_NODE) == node
            if not (named or written.bound):
                raise VolumeProblemError(f"no node was named in claim {task.claim}: {unknown}") from unknown
        return written.metadata.resource_version

    def _bound(self, pod: PodName, node: NodeName, chosen_before: _Chosen) -> bool:
        task = chosen_before.task
        claim = self.find_claim(pod.namespace, claim_name(task))
        if claim is None:
            raise VolumeProblemError(f"claim {task.claim} is gone")
        if claim.bound:
            if task.volume and claim.spec.volume_name != task.volume:
                raise VolumeProblemError(f"claim {task.claim} got volume {claim.spec.volume_name}")
            return True
        chosen = claim.metadata.annotations.get(keys.SELECTED_NODE)
        # A mirror that has not seen our own write yet cannot tell that the provisioner has turned the node
        # down.
        if task.volume or chosen == node or is_newer(chosen_before.version, claim.metadata.resource_version):
            return False
        if chosen is not None:
            raise VolumeProblemError(f"claim {task.claim} is being made for node {chosen}")
        problem = f"no volume can be made for claim {task.claim} on node {node}"
        raise VolumeProblemError(problem, refused_claim=claim.metadata.path)


def claim_name(task: VolumeTask) -> str:
    """The claim's name without its namespace."""
    return task.claim.rpartition("/")[2]
