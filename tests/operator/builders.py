"""Nodes and policies for tests, as short as the rule that they check."""

from typing import Any

import msgspec

from gpufleet.kube.codec.fleet_policies import read_fleet_policy
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.operator.node_facts import NodeFacts, node_facts
from gpufleet.operator.node_objects import DriverReport, PolicyNode

DIGEST = "registry.example.com/driver@sha256:" + "a" * 64
OTHER_DIGEST = "registry.example.com/driver@sha256:" + "b" * 64
TOOLKIT = "registry.example.com/toolkit@sha256:" + "c" * 64
GPU = {"gpu": "yes"}


def policy_object(name: str = "all", select: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A FleetPolicy as it is written; it selects nodes with the label gpu=yes."""
    selector = {"matchLabels": GPU if select is None else select}
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "FleetPolicy",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {"nodeSelector": selector, **spec},
    }


def decoded(written: dict[str, Any]) -> wire.FleetPolicy:
    """A FleetPolicy as it comes over the wire."""
    return msgspec.json.decode(msgspec.json.encode(written), type=wire.FleetPolicy)


def policy(name: str = "all", select: dict[str, str] | None = None, **spec: Any) -> FleetPolicy:
    """A policy."""
    return read_fleet_policy(decoded(policy_object(name, select, **spec)))


def node_object(
    name: str = "n1",
    labels: dict[str, str] | None = None,
    taints: tuple[tuple[str, str, str], ...] = (),
    annotations: dict[str, str] | None = None,
    managers: dict[str, tuple[str, ...]] | None = None,
    ours: tuple[str, ...] = (),
    annotation_managers: dict[str, tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """A Node as the API server has it; ``managers`` wrote these labels, and policies wrote ``ours``.

    ``annotation_managers`` wrote these annotations.
    """
    written = dict({"kubelet": ("gpu",)} if managers is None else managers)
    fields = [_managed(manager, "Update", keys) for manager, keys in written.items()]
    for manager, keys in (annotation_managers or {}).items():
        fields.append(_managed(manager, "Update", keys, part="f:annotations"))
    if ours:
        fields.append(_managed("gpufleet-policy", "Apply", ours))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {**GPU, **(labels or {})},
            "annotations": annotations or {},
            "managedFields": fields,
        },
        "spec": {"taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in taints]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def node(name: str = "n1", driver: str = "", **parts: Any) -> NodeFacts:
    """What is known of a node; ``driver`` as its agent reports it."""
    found = msgspec.json.decode(msgspec.json.encode(node_object(name, **parts)), type=PolicyNode)
    if not driver:
        return node_facts(found)
    report = {"metadata": {"name": name}, "spec": {"driver": driver}}
    return node_facts(found, msgspec.json.decode(msgspec.json.encode(report), type=DriverReport))


def _managed(manager: str, operation: str, keys: tuple[str, ...], part: str = "f:labels") -> dict[str, Any]:
    fields: dict[str, Any] = {"f:metadata": {part: {f"f:{key}": {} for key in keys}}}
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}
