"""Verbs that break a cluster, beside those of ``patient``: nodes without a kubelet, parts of a GPU stack."""

import time
from itertools import count
from typing import Any

from gpufleet.localkube import simulated_nodes
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.doctor.patient import Patient

NAMES = [f"gpu-{number:03}" for number in range(1, 7)]
"""The nodes of the cluster."""


_ADDED = count(1)
"""Each added node has a name of its own: Kubernetes counts on how long a node of one name is silent."""


def add_node(patient: Patient, prefix: str = "plain", model: str = "H100-80GB", gpus: int = 8) -> str:
    """A node that nobody keeps alive: what is written of it stays. Returns its name."""
    prefix = f"{prefix}-{next(_ADDED)}-"
    name = f"{prefix}001"
    patient.removed_at_the_end(f"/api/v1/nodes/{name}")
    made = SimulatedNodes(1, gpus, gpu_model(model), prefix=prefix, managed=False)
    simulated_nodes.create(patient.cluster, made)
    return name


def say_of_node(patient: Patient, name: str, condition: str, status: str, reason: str) -> None:
    """Let the kubelet of a node that is added say this of itself."""
    told = {"type": condition, "status": status, "reason": reason, "message": "told by a test"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "told by a test"}
    conditions: list[Object] = [told] if condition == "Ready" else [ready, told]
    patient.change(f"/api/v1/nodes/{name}/status", {"status": {"conditions": conditions}})


PODS = "/api/v1/namespaces/default/pods"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
SETTLED_S = 30.0


def a_daemon(name: str, image: str, container: Object | None = None, **spec: Any) -> Object:
    """A DaemonSet of one container that our scheduler places."""
    labels = {"app": name}
    main = {"name": "main", "image": image, **(container or {})}
    template = {"schedulerName": "gpufleet", "terminationGracePeriodSeconds": 0, "containers": [main], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }


def running(patient: Patient, app: str, count: int = len(NAMES)) -> list[str]:
    """The names of the pods of an app, when so many of them run."""
    end_s = time.monotonic() + SETTLED_S
    while True:
        found = patient.api.call("GET", f"{PODS}?labelSelector=app%3D{app}")["items"]
        ready = [one["metadata"]["name"] for one in found if one["status"]["phase"] == "Running"]
        if len(ready) >= count:
            return ready
        assert time.monotonic() < end_s, [(one["metadata"]["name"], one["status"]) for one in found]
        time.sleep(0.1)


def say_of_container(patient: Patient, pod: str, reason: str, message: str = "") -> None:
    """Let the kubelet say that the container of a running pod waits for this."""
    waiting = {
        "name": "main",
        "image": "there",
        "imageID": "",
        "ready": False,
        "restartCount": 5,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }
    unready = [
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "told by a test"}
    ]
    told = {"containerStatuses": [waiting], "conditions": unready}
    patient.change(f"{PODS}/{pod}/status", {"status": told})


def a_kind(group: str, kind: str, plural: str, version: str = "v1", scope: str = "Cluster") -> Object:
    """The definition of another project's kind, of which the server checks nothing."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [served],
        },
    }


def define(patient: Patient, *kind: str) -> None:
    """Have the server serve a kind until the end of the test."""
    definition = a_kind(*kind)
    patient.apply(definition)
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    end_s = time.monotonic() + SETTLED_S
    while patient.api.request("GET", path)[0] != 200:
        assert time.monotonic() < end_s, path
        time.sleep(0.1)
