"""Claims, classes and volumes for a real server, and a small provisioner that makes volumes."""

import threading
from typing import Self

from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MAKER = "maker.example.com"
POLL_EVERY_S = 0.1


def storage_class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer") -> Object:
    """A class of storage."""
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def claim(name: str, of: str, mode: str = "ReadWriteOnce") -> Object:
    """A claim for a little storage of a class."""
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": of}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def volume(name: str, of: str, key: str, value: str, mode: str = "ReadWriteOnce") -> Object:
    """A volume that only nodes with this label can use."""
    here = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": [mode],
            "storageClassName": of,
            "local": {"path": "/srv"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
    }


class Provisioner:
    """Makes a volume on the node that a claim names; a node in ``full`` it turns down as provisioners do."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.full: set[str] = set()
        self.turned_down: list[tuple[str, str]] = []
        self._cluster = cluster
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        with self._cluster.api() as api:
            while not self._end.wait(POLL_EVERY_S):
                for one in api.call("GET", CLAIMS)["items"]:
                    self._look(api, one)

    def _look(self, api: Api, one: Object) -> None:
        metadata, spec = one["metadata"], one["spec"]
        node = metadata.get("annotations", {}).get(SELECTED_NODE)
        if node is None or spec.get("volumeName") or spec["storageClassName"] != "made":
            return
        name = metadata["name"]
        if node in self.full:
            self.turned_down.append((name, node))
            patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            api.call("PATCH", f"{CLAIMS}/{name}", patch, "application/merge-patch+json")
            return
        made = volume(f"made-{metadata['uid']}", "made", "kubernetes.io/hostname", node)
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default"}
        made["spec"]["claimRef"] = {**reference, "name": name, "uid": metadata["uid"]}
        status, _ = api.request("POST", VOLUMES, made)
        assert status in (201, 409)
