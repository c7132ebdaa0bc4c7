"""How long a diagnosis takes: 2,000 nodes of 8 GPUs and 16,000 pods, half of them waiting.

Asking a server is not in it, reading its answers is. A second such cluster has a fault in nearly everything.
The reference is msgspec, which reads the same JSON into plain values and looks at nothing.
Processor time is taken, as a diagnosis has one thread. ``bench.advise`` publishes the figures.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.figures import Figure, figure
from bench.progress import say
from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.trimming import manifest_of
from gpufleet.kube.resources import DEPLOYMENTS, NODE_DEVICES, NODES, PODS, REPLICA_SETS, Kind
from gpufleet.progress.collection_pause import without_collections

NODE_COUNT, POD_COUNT, REPLICAS, GPUS, TEAMS = 2000, 16_000, 10, 8, 50
WELL_S, BROKEN_S = 2.0, 5.0
NOW = dt.datetime(2026, 11, 22, 12, 0, tzinfo=dt.UTC)
MADE = "2026-11-22T11:00:00Z"

Body = dict[str, Any]


def node(number: int) -> Body:
    """A node that is well."""
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": str(GPUS)}
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {"taints": [taint]},
        "status": status,
    }


def report(number: int) -> Body:
    """What the node's agent says."""
    devices = [
        {"id": f"GPU-{number}-{index}", "model": "H100-80GB", "memoryMiB": 81559, "health": "healthy"}
        for index in range(GPUS)
    ]
    return {"metadata": {"name": f"node-{number}"}, "spec": {"devices": devices, "holders": []}}


def pod_spec() -> Body:
    """What every pod asks for."""
    amounts = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}
    container = {
        "name": "main",
        "image": "registry.example/serve:1.4",
        "env": [{"name": "MODE", "value": "fast"}],
        "resources": {"limits": amounts, "requests": amounts},
    }
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return {"schedulerName": "gpufleet", "tolerations": tolerations, "containers": [container]}


def owned(number: int, kind: str, name: str) -> Body:
    """The metadata of something that a controller of this name made."""
    owner = {"kind": kind, "name": name, "controller": True}
    return {"namespace": f"team-{number % TEAMS}", "creationTimestamp": MADE, "ownerReferences": [owner]}


def pod(number: int) -> Body:
    """A pod that runs, or one that waits for room."""
    work = number // REPLICAS
    runs = number < POD_COUNT // 2
    state = "True" if runs else "False"
    conditions = [{"type": name, "status": state} for name in ("PodScheduled", "Ready")]
    place = {"nodeName": f"node-{number % NODE_COUNT}"} if runs else {}
    return {
        "metadata": {**owned(work, "ReplicaSet", f"work-{work}"), "name": f"pod-{number}"},
        "spec": {**pod_spec(), **place},
        "status": {"phase": "Running" if runs else "Pending", "conditions": conditions},
    }


def broken_node(number: int) -> Body:
    """A node with one of eight faults."""
    body = node(number)
    status, spec = body["status"], body["spec"]
    match number % 8:
        case 0:
            status["conditions"] = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        case 1:
            spec["unschedulable"] = True
        case 2:
            status["allocatable"] = {**status["allocatable"], "nvidia.com/gpu": "0"}
        case 3:
            status["conditions"].append({"type": "DiskPressure", "status": "True"})
        case 4:
            spec["taints"].append({"key": f"team-{number}", "value": "only", "effect": "NoSchedule"})
        case 5:
            status["capacity"] = status["allocatable"] = {"cpu": "128", "memory": "1Ti", "pods": "250"}
        case 6:
            body["metadata"]["labels"].pop("nvidia.com/gpu.product")
        case 7:
            status["allocatable"] = {**status["allocatable"], "nvidia.com/gpu": "7"}
    return body


def broken_spec(work: int) -> Body:
    """A spec with one of eight faults, in other words for each workload."""
    spec = pod_spec()
    container = spec["containers"][0]
    match work % 8:
        case 0:
            spec["nodeSelector"] = {"nvidia.com/gpu.product": f"NVIDIA-H{work}"}
        case 1:
            spec["runtimeClassName"] = f"nvidia-{work}"
        case 2:
            spec["priorityClassName"] = f"class-{work}"
        case 3:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{work}"}}]
        case 4:
            spec["schedulerName"] = f"scheduler-{work}"
        case 5:
            container["resources"]["limits"] = {"nvidia.com/gpus": "1", "cpu": "8", "memory": "64Gi"}
            container["resources"]["requests"] = {"cpu": "8", "memory": "64Gi"}
        case 6:
            container["resources"]["limits"] = {"nvidia.com/gpu": str(8 + work), "memory": "64Gi"}
            container["resources"]["requests"] = {"nvidia.com/gpu": str(8 + work), "cpu": "8"}
        case 7:
            container["securityContext"] = {"privileged": True}
            container["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
    return spec


def broken_pod(number: int) -> Body:
    """A pod of a workload with a fault: one that waits, or one that ends again and again."""
    body = pod(number)
    work = number // REPLICAS
    name = body["spec"].get("nodeName")
    body["spec"] = {**broken_spec(work), **({"nodeName": name} if name else {})}
    if name:
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off of work-{work}"}}
        last = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": MADE}}
        told = {"name": "main", "restartCount": 9, "ready": False, "state": state, "lastState": last}
        body["status"]["containerStatuses"] = [told]
        body["status"]["conditions"][1]["status"] = "False"
    else:
        said = {"reason": "Unschedulable", "message": f"0/{NODE_COUNT} nodes are available for work-{work}"}
        body["status"]["conditions"][0].update(said)
    return body


@dataclass(frozen=True)
class Making:
    """How the parts of a cluster are made."""

    node: Callable[[int], Body]
    spec: Callable[[int], Body]
    pod: Callable[[int], Body]


WELL = Making(node, lambda _work: pod_spec(), pod)
BROKEN = Making(broken_node, broken_spec, broken_pod)


def objects(making: Making = WELL) -> Iterator[tuple[Kind, bytes]]:
    """Every object of the cluster, as it comes from a server."""
    encode = msgspec.json.encode
    for number in range(NODE_COUNT):
        yield NODES, encode(making.node(number))
        yield NODE_DEVICES, encode(report(number))
    for number in range(POD_COUNT // REPLICAS):
        spec = {"replicas": REPLICAS, "template": {"metadata": {}, "spec": making.spec(number)}}
        name = f"work-{number}"
        own = {"namespace": f"team-{number % TEAMS}", "name": name}
        yield DEPLOYMENTS, encode({"metadata": own, "spec": spec})
        made = {**owned(number, "Deployment", name), "name": name}
        yield REPLICA_SETS, encode({"metadata": made, "spec": spec})
    for number in range(POD_COUNT):
        yield PODS, encode(making.pod(number))


@dataclass(frozen=True)
class Times:
    """Seconds of processor time that a diagnosis takes, and how many causes it tells."""

    plain_s: float
    reading_s: float
    judging_s: float
    causes: int


def times_of(making: Making) -> Times:
    """The diagnosis of such a cluster, as the command makes it, and msgspec's reading of the same."""
    texts = list(objects(making))
    started = time.process_time()
    for _, text in texts:
        msgspec.json.decode(text)
    plain = time.process_time()
    with without_collections():
        manifests = tuple(manifest_of(kind, text) for kind, text in texts)
        read = time.process_time()
        facts = Facts(manifests, NOW, "v1.37.0", frozenset(kind.name for kind, _ in texts))
        diagnosis = diagnose(facts, all_checks())
    judged = time.process_time()
    return Times(plain - started, read - plain, judged - read, len(diagnosis.causes))


def doctor_figures() -> list[Figure]:
    """Reading and judging, a cluster that is well and one that is broken, and the reference."""
    say(f"diagnosing {NODE_COUNT} nodes and {POD_COUNT} pods")
    well, broken = times_of(WELL), times_of(BROKEN)
    count = len(all_checks())
    return [
        figure(
            f"doctor reads and judges {NODE_COUNT} nodes and {POD_COUNT} pods by {count} checks",
            well.reading_s + well.judging_s,
            "s",
            "lower",
            WELL_S,
        ),
        figure("... of that, reading", well.reading_s, "s", "lower"),
        figure(
            "... as a multiple of msgspec's reading",
            (well.reading_s + well.judging_s) / well.plain_s,
            "x",
            "lower",
        ),
        figure(
            "... where nearly everything is broken",
            broken.reading_s + broken.judging_s,
            "s",
            "lower",
            BROKEN_S,
        ),
        figure("... the causes that it tells of it", broken.causes, "causes", "lower"),
    ]
