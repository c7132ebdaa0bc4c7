"""What kubelets say: of pods that run on the simulated nodes, and of nodes that nobody simulates."""

import datetime as dt
import time
from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import MERGE, POLL_EVERY_S, WAIT_S, Patient

PODS = "/api/v1/namespaces/default/pods"


def running_pods(patient: Patient, app: str, count: int = 1) -> list[str]:
    """The names of the pods with this label ``app``, once so many of them run."""
    end_s = time.monotonic() + WAIT_S
    while True:
        pods = patient.api.call("GET", f"{PODS}?labelSelector=app%3D{app}")["items"]
        names = sorted(one["metadata"]["name"] for one in pods if one["status"].get("phase") == "Running")
        if len(names) >= count:
            return names
        assert time.monotonic() < end_s, [one["status"] for one in pods]
        time.sleep(POLL_EVERY_S)


def say_of_container(patient: Patient, pod: str, restarts: int = 0, **state: Any) -> None:
    """What the kubelet says of the only container of a running pod: ``state``, ``lastState``."""
    told: Object = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": restarts}
    unready = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    status = {"containerStatuses": [{**told, **state}], "conditions": unready}
    patient.api.call("PATCH", f"{PODS}/{pod}/status", {"status": status}, MERGE)


def waiting(reason: str, message: str = "") -> Object:
    """A container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def ended(reason: str, code: int = 1) -> Object:
    """A container that ended."""
    return {"terminated": {"reason": reason, "exitCode": code}}


def now() -> str:
    """The time, as the API writes it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_real_node(name: str, kubelet: str = "") -> Object:
    """A node with GPUs that KWOK does not play; it stays Ready for the length of a test."""
    there = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
    names: tuple[str, ...] = (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
    )
    names += ("kubeProxyVersion", "operatingSystem", "architecture")
    node_info = dict.fromkeys(names, "") | {"kubeletVersion": kubelet}
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": False},
        "status": {"capacity": there, "allocatable": there, "conditions": [ready], "nodeInfo": node_info},
    }
