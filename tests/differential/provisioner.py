"""A small provisioner: makes a volume for each claim for which a scheduler has named a node."""

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.client import Client
from gpufleet.kube.objects.storage import PersistentVolumeClaim
from gpufleet.kube.status import AlreadyExists
from tests.differential.builder import HOSTNAME
from tests.differential.cases import Manifest

_CLAIM = msgspec.json.Decoder(PersistentVolumeClaim)


async def provision(client: Client) -> None:
    """Look once at all claims."""
    async for page in client.list_pages(resources.PERSISTENT_VOLUME_CLAIMS):
        for raw in page.items or ():
            claim = _CLAIM.decode(raw)
            node = claim.metadata.annotations.get(keys.SELECTED_NODE)
            if node is None or claim.spec.volume_name or claim.metadata.deletion_timestamp is not None:
                continue
            volume = _volume(claim, node)
            try:
                await client.create(resources.PERSISTENT_VOLUMES, volume, name=volume["metadata"]["name"])
            except AlreadyExists:
                continue


def _volume(claim: PersistentVolumeClaim, node: str) -> Manifest:
    metadata = claim.metadata
    here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"made-{metadata.uid}"},
        "spec": {
            "capacity": claim.spec.resources.requests,
            "accessModes": list(claim.spec.access_modes),
            "storageClassName": claim.storage_class,
            "hostPath": {"path": "/made"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
        },
    }
