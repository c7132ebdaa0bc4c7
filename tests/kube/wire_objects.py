"""Builders of objects as an API server sends them: what a test does not speak of is left out."""

import json
from typing import Any

import msgspec

from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod

NVIDIA = "nvidia.com/gpu"
SLOT = "gpufleet.io/gpu-share"


def decoded(written: object, kind: type[Any]) -> Any:
    """The object as the mirror decodes it from the wire."""
    return msgspec.json.decode(json.dumps(written).encode(), type=kind)


def container(name: str = "train", **limits: str) -> dict[str, Any]:
    """A container with limits; in their names two underscores stand for a slash, as in nvidia__gpu."""
    amounts = {resource.replace("nvidia__", "nvidia.com/"): text for resource, text in limits.items()}
    return {"name": name, "resources": {"limits": amounts}}


def limited(name: str, limits: dict[str, str], **more: Any) -> dict[str, Any]:
    """A container with these limits, and whatever else it has."""
    return {"name": name, "resources": {"limits": limits}, **more}


def a_pod(
    *containers: dict[str, Any],
    name: str = "train-0",
    namespace: str = "team-a",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owners: list[dict[str, Any]] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A waiting pod of ours."""
    written = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": labels or {},
            "annotations": annotations or {},
            "ownerReferences": owners or [],
        },
        "spec": {
            "schedulerName": "gpufleet",
            "containers": list(containers) or [limited("train", {})],
            **spec,
        },
        "status": status or {},
    }
    pod: Pod = decoded(written, Pod)
    return pod


def a_node(
    allocatable: dict[str, str] | None = None,
    *,
    name: str = "node-1",
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Node:
    """A node."""
    written = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": allocatable or {}, **(status or {})},
    }
    node: Node = decoded(written, Node)
    return node


def some_devices(*devices: dict[str, Any], name: str = "node-1", driver: str = "") -> NodeDevices:
    """A node's report of its GPUs."""
    report: NodeDevices = decoded(
        {
            "metadata": {"name": name},
            "spec": {"bootID": "boot-1", "driver": driver, "devices": list(devices)},
        },
        NodeDevices,
    )
    return report
