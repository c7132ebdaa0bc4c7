"""The makers of volumes in a simulated cluster: a provisioner of local volumes, and the volume controller.

A claim that waits for its first consumer is theirs once a scheduler has named a node in it: then a volume is
made that can be used on that node alone, or the node is turned down by removing its name. A volume that was
given a claim, by one of the two or by a scheduler, is bound to it in the order of Kubernetes' volume
controller: first the claim learns of its volume, then both say that they are bound.
"""

import asyncio
from collections.abc import Callable
from random import Random

import msgspec

from gpufleet.kube.transport import Request
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import CLAIMS, VOLUMES
from gpufleet.simulation.refusal import JsonObject

STORAGE_CLASS = "local-disks"
PROVISIONER = "disks.example.com"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
USER = "system:serviceaccount:kube-system:volumes"
MERGE = "application/merge-patch+json"
# Drawn anew for each step: a scheduler sees claims between being bound and not.
STEPS_WITHIN_S = (0.05, 1.5)


class VolumeActors:
    """The provisioner and the volume controller. ``refuses`` says which nodes get no volume."""

    def __init__(self, server: ApiServer, random: Random) -> None:
        self.server = server
        self.refuses: Callable[[JsonObject, str], bool] = refuses_none
        self.refused = 0
        self._random = random

    async def run(self) -> None:
        """Act on every write, for ever."""
        cursor = 0
        while True:
            waiting = self.server.store.next_write()
            revision = self.server.store.revision
            for kind, act in ((CLAIMS, self._provision), (VOLUMES, self._bind)):
                for written in self.server.store.since(kind, cursor, revision):
                    if written.value is not None:
                        self._later(act, written.name)
            cursor = revision
            await waiting

    def _later(self, act: Callable[[tuple[str, str]], None], name: tuple[str, str]) -> None:
        asyncio.get_running_loop().call_later(self._random.uniform(*STEPS_WITHIN_S), act, name)

    def _provision(self, name: tuple[str, str]) -> None:
        """Make a volume for a claim that names a node, or turn the node down."""
        claim = self.server.store.get(CLAIMS, name)
        if claim is None or claim["spec"].get("volumeName"):
            return
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        volume = f"pvc-{claim['metadata']['uid']}"
        if node is None or self.server.store.get(VOLUMES, ("", volume)) is not None:
            return
        if self.refuses(claim, node):
            self.refused += 1
            # How a provisioner says that the node will not do: a scheduler is to choose another.
            self._patch(_claim_path(name), {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "uid": claim["metadata"]["uid"]}
        made = local_volume(volume, node)
        made["spec"]["claimRef"] = {**reference, "namespace": name[0], "name": name[1]}
        self.server.add(made, USER)

    def _bind(self, name: tuple[str, str]) -> None:
        """Bind a volume to the claim that it was given to, one step at a time."""
        volume = self.server.store.get(VOLUMES, name)
        reference = (volume or {"spec": {}})["spec"].get("claimRef")
        if volume is None:
            return
        if not reference:
            if volume["status"].get("phase") != "Available":
                self._patch(f"{_volume_path(name)}/status", {"status": {"phase": "Available"}})
            return
        claimed = (reference["namespace"], reference["name"])
        claim = self.server.store.get(CLAIMS, claimed)
        if claim is None or claim["metadata"]["uid"] != reference.get("uid", claim["metadata"]["uid"]):
            return
        if not claim["spec"].get("volumeName"):
            bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name[1]}}
            self._patch(_claim_path(claimed), bound)
        elif claim["spec"]["volumeName"] != name[1]:
            return
        for path, found in ((_volume_path(name), volume), (_claim_path(claimed), claim)):
            if (found.get("status") or {}).get("phase") != "Bound":
                self._patch(f"{path}/status", {"status": {"phase": "Bound"}})

    def _patch(self, path: str, patch: JsonObject) -> None:
        self.server.answer(Request("PATCH", path, msgspec.json.encode(patch), MERGE), USER)


def refuses_none(_claim: JsonObject, _node: str) -> bool:
    """Every node gets its volume."""
    return False


def storage_class(name: str = STORAGE_CLASS, provisioner: str = PROVISIONER) -> JsonObject:
    """A class of storage with claims that wait for their first consumer."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, namespace: str, class_name: str = STORAGE_CLASS) -> JsonObject:
    """A claim of the class, for one node at a time."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def local_volume(name: str, node: str, class_name: str = STORAGE_CLASS) -> JsonObject:
    """A volume that can be used on one node alone."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "local": {"path": f"/disks/{name}"},
        },
    }


def _volume_path(name: tuple[str, str]) -> str:
    return f"/api/v1/persistentvolumes/{name[1]}"


def _claim_path(name: tuple[str, str]) -> str:
    return f"/api/v1/namespaces/{name[0]}/persistentvolumeclaims/{name[1]}"
