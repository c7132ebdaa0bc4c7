"""How long a diagnosis takes: 2,000 nodes of 8 GPUs and 16,000 pods, half of them waiting.

Asking a server is not in it, reading its answers is. The reference is msgspec, which reads the same JSON into
plain values and looks at nothing. ``bench.advise`` publishes the figures.
"""

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.figures import Figure, figure
from bench.progress import say
from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.trimming import manifest_of
from gpufleet.kube.resources import DEPLOYMENTS, NODE_DEVICES, NODES, PODS, REPLICA_SETS, Kind

NODE_COUNT, POD_COUNT, REPLICAS, GPUS, TEAMS = 2000, 16_000, 10, 8, 50
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


def objects() -> Iterator[tuple[Kind, bytes]]:
    """Every object of the cluster, as it comes from a server."""
    encode = msgspec.json.encode
    for number in range(NODE_COUNT):
        yield NODES, encode(node(number))
        yield NODE_DEVICES, encode(report(number))
    for number in range(POD_COUNT // REPLICAS):
        spec = {"replicas": REPLICAS, "template": {"metadata": {}, "spec": pod_spec()}}
        name = f"work-{number}"
        own = {"namespace": f"team-{number % TEAMS}", "name": name}
        yield DEPLOYMENTS, encode({"metadata": own, "spec": spec})
        made = {**owned(number, "Deployment", name), "name": name}
        yield REPLICA_SETS, encode({"metadata": made, "spec": spec})
    for number in range(POD_COUNT):
        yield PODS, encode(pod(number))


def doctor_figures() -> list[Figure]:
    """Reading, judging, and the reference."""
    texts = list(objects())
    say(f"diagnosing {NODE_COUNT} nodes and {POD_COUNT} pods")
    started = time.perf_counter()
    for _, text in texts:
        msgspec.json.decode(text)
    plain = time.perf_counter() - started
    started = time.perf_counter()
    manifests = tuple(manifest_of(kind, text) for kind, text in texts)
    reading = time.perf_counter() - started
    facts = Facts(manifests, NOW, "v1.37.0", frozenset(kind.name for kind, _ in texts))
    started = time.perf_counter()
    diagnose(facts, all_checks())
    judging = time.perf_counter() - started
    return [
        figure(f"doctor reads {len(texts)} objects", reading, "s", "lower"),
        figure("... as a multiple of msgspec's reading", reading / plain, "x", "lower"),
        figure(f"doctor judges them by {len(all_checks())} checks", judging, "s", "lower"),
        figure("... as a multiple of msgspec's reading", judging / plain, "x", "lower"),
    ]
