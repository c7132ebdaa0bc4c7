"""The provisioner of a local cluster's default StorageClass: a folder of the node for each claim.

A claim of the class ``standard`` waits for its first pod. When a scheduler has named a node in it, a volume
is made that can be used on that node alone; it goes with its claim. On a simulated node nothing is stored. On
the real one it is a folder that the kubelet makes and that goes with the cluster.

``python -m gpufleet.localkube.local_volumes KUBECONFIG`` runs beside the cluster (`up`), as kind and minikube
run a provisioner of theirs.
"""

import asyncio
import logging
import sys
from pathlib import Path

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.meanings import node_labels
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects.storage import STORAGE, PersistentVolume, PersistentVolumeClaim
from gpufleet.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from gpufleet.kube.status import AlreadyExists, NotFound

LOG = logging.getLogger(__name__)
STORAGE_CLASS = "standard"
PROVISIONER = "gpufleet.io/local-volumes"
"""As `usual_objects` has both."""

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
RELEASED = "Released"
FOLDER = "/var/lib/kubelet/local-volumes"
"""A folder that the real node has to itself, so nothing of it stays on the machine."""

AGAIN_S = 2.0
"""What the server refused once is tried again after a moment, as for anything else that it has to do."""


class LocalVolumes:
    """Makes a volume for each claim with a node, and removes the volumes of claims that are gone."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._wake = asyncio.Event()
        self.claims = Mirror(
            client, PERSISTENT_VOLUME_CLAIMS, msgspec.json.Decoder(PersistentVolumeClaim), self._on_change
        )
        self.volumes = Mirror(
            client, PERSISTENT_VOLUMES, msgspec.json.Decoder(PersistentVolume), self._on_change
        )

    def _on_change(self, _change: object) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.claims.run())
            group.create_task(self.volumes.run())
            await self.claims.wait_listed()
            await self.volumes.wait_listed()
            while True:
                self._wake.clear()
                if not await self._turn():
                    await asyncio.sleep(AGAIN_S)
                    continue
                await self._wake.wait()

    async def _turn(self) -> bool:
        """Everything that is to be done now; False if something of it has to be tried again."""
        done = True
        for claim in [one for one in self.claims.objects.values() if self._lacks_volume(one)]:
            done &= await self._make(claim)
        for volume in [one for one in self.volumes.objects.values() if _is_left(one)]:
            done &= await self._remove(volume)
        return done

    def _lacks_volume(self, claim: PersistentVolumeClaim) -> bool:
        """True for a claim of ours whose node is chosen, and that has no volume yet."""
        return (
            claim.storage_class == STORAGE_CLASS
            and not claim.spec.volume_name
            and keys.SELECTED_NODE in claim.metadata.annotations
            and self.volumes.get(volume_name(claim)) is None
        )

    async def _make(self, claim: PersistentVolumeClaim) -> bool:
        name = volume_name(claim)
        try:
            await self.client.create(PERSISTENT_VOLUMES, volume_for(claim), name=name)
        except AlreadyExists:
            # It is there already: made in a turn before this one, and not heard of yet.
            return True
        except KubeError as problem:
            LOG.warning("a volume was not made", extra={"volume": name, "problem": str(problem)})
            return False
        return True

    async def _remove(self, volume: PersistentVolume) -> bool:
        name = volume.metadata.name
        try:
            await self.client.delete(PERSISTENT_VOLUMES, name)
        except NotFound:
            return True
        except KubeError as problem:
            LOG.warning("a volume was not removed", extra={"volume": name, "problem": str(problem)})
            return False
        return True


def _is_left(volume: PersistentVolume) -> bool:
    """True for a volume of ours that its claim has left."""
    ours = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
    return ours and volume.status.phase == RELEASED and volume.metadata.deletion_timestamp is None


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The name of a claim's volume, by which two provisioners would make one."""
    return f"pvc-{claim.metadata.uid}"


def volume_for(claim: PersistentVolumeClaim) -> bytes:
    """A volume as large as the claim asks, on the node that was chosen for it."""
    name, node = volume_name(claim), claim.metadata.annotations[keys.SELECTED_NODE]
    on_node = {"key": node_labels.HOST_NAME, "operator": "In", "values": [node]}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }
    spec = {
        "capacity": {"storage": claim.spec.resources.requests.get(STORAGE, "1Gi")},
        "accessModes": list(claim.spec.access_modes),
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": STORAGE_CLASS,
        "claimRef": reference,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        "hostPath": {"path": f"{FOLDER}/{name}", "type": "DirectoryOrCreate"},
    }
    metadata = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    )


async def main(kubeconfig: Path) -> None:
    """Provision volumes until killed."""
    async with connect(ClusterChoice(kubeconfig=kubeconfig), connections=4) as connection:
        await LocalVolumes(connection.client).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(Path(sys.argv[1])))
