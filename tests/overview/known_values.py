"""What is known of a small fleet, for tests of lines and frames: builders of objects and of measurements."""

import datetime as dt
from typing import Any

import msgspec

from gpufleet.explain.queue_answer import SCHEMA, AnswerSource, QueueRow, QueuesAnswer
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.overview.rows.engine_report import EngineReport, GangReport
from gpufleet.overview.rows.known import Known
from gpufleet.usage.agent_use import CardUse, DeviceUse, NodeUse

NOW = dt.datetime(2026, 3, 1, 12, 0, 0, tzinfo=dt.UTC)
GIB = 1 << 30


def node(name: str, *, ready: str = "True", gpus: int = 8, **spec: Any) -> Node:
    """A node whose kubelet counts so many GPUs."""
    status = {
        "allocatable": {"nvidia.com/gpu": str(gpus)},
        "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}],
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Node)


def report(name: str, *, gpus: int = 8, unwell: int = 0, holders: int = 0, part: str = "") -> NodeDevices:
    """The agent's report; the first ``unwell`` of the GPUs are out of service. ``part`` ends each id."""
    devices = [
        {
            "id": f"GPU-{name}-{number}{part}",
            "model": "H100-80GB",
            "memoryMiB": 80_000,
            "health": "unhealthy" if number < unwell else "healthy",
            "healthReason": "Xid 79" if number < unwell else "",
        }
        for number in range(gpus)
    ]
    held = [{"device": devices[number]["id"], "podUID": f"u{number}"} for number in range(holders)]
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"devices": devices, "holders": held}}, NodeDevices
    )


def pod(name: str, *, on: str = "", gpus: int = 1, why: str = "", **more: Any) -> Pod:
    """A pod that asks for whole GPUs, running on a node or waiting with the words of a scheduler."""
    namespace = more.pop("namespace", "team")
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": more.pop("uid", f"uid-{namespace}-{name}"),
        "creationTimestamp": "2026-03-01T11:00:00Z",
        "labels": more.pop("labels", {}),
        "annotations": more.pop("annotations", {}),
        "ownerReferences": more.pop("owners", []),
    }
    phase = more.pop("phase", "Running" if on else "Pending")
    engine_report = [{"type": "PodScheduled", "status": "False", "message": why}] if why else []
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {
        "schedulerName": "gpufleet",
        "nodeName": on,
        "containers": [{"name": "main", "resources": {"limits": limits}}],
        **more,
    }
    value = {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": engine_report}}
    return msgspec.convert(value, Pod)


def measured(*pods: tuple[str, float, float], at_s: float | None = None, busy: float = 0.9) -> NodeUse:
    """Use of a node: of each pod its name, its ratio and its memory in GiB, each on a card of its own."""
    use = NodeUse(NOW.timestamp() if at_s is None else at_s)
    for number, (name, ratio, memory) in enumerate(pods):
        use.cards[f"c{number}"] = CardUse(busy, 80.0 * GIB, memory * GIB, 500.0, 60.0)
        use.pods["team", name] = {f"c{number}/": DeviceUse(f"c{number}", 1.0, ratio, memory * GIB, 1000.0)}
    return use


def engine_report(*queues: QueueRow, gangs: tuple[GangReport, ...] = (), **more: Any) -> EngineReport:
    """What the engine says."""
    return EngineReport(QueuesAnswer(SCHEMA, AnswerSource.ENGINE, "", queues), gangs, **more)


def known(*objects: Node | NodeDevices | Pod, **more: Any) -> Known:
    """A fleet of these objects."""
    found: dict[type, dict[tuple[str, str], Any]] = {Node: {}, NodeDevices: {}, Pod: {}}
    for one in objects:
        found[type(one)][one.metadata.namespace, one.metadata.name] = one
    return Known(
        **{"now": NOW, "scheduler_name": "gpufleet", **more},
        pods=found[Pod],
        nodes=found[Node],
        devices=found[NodeDevices],
    )
