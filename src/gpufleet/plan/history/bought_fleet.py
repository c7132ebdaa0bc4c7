"""Nodes of a catalogue's types as the engine takes them, and what of a node can hold which task."""

from collections.abc import Sequence

from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE, PRODUCTS, REGION, ZONE
from gpufleet.ledger.node_versions import SPOT
from gpufleet.model import gpu_model
from gpufleet.model.device import Device
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.node import Node
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.model.shape import Shape
from gpufleet.model.spot import KARPENTER_CAPACITY_TYPE
from gpufleet.model.taint import NO_SCHEDULE, Taint, untolerated
from gpufleet.plan.instance_types import InstanceType
from gpufleet.plan.waiting_work import allocatable_cpu_milli, allocatable_memory_mib, sizes_on

SPOT_TAINT = Taint(KARPENTER_CAPACITY_TYPE, SPOT, NO_SCHEDULE)
"""On spot nodes, so that only work goes there that is meant to."""

NODE_PODS_MAX = 250
"""As many pods as a node takes that `gpufleet whatif` describes."""

Counts = tuple[int, ...]
"""How many nodes of each type."""


def bought(types: Sequence[InstanceType], counts: Counts) -> list[Node]:
    """So many nodes of each type."""
    return [
        _node(one, f"{one.node_names}-{number}")
        for one, count in zip(types, counts, strict=True)
        for number in range(1, count + 1)
    ]


def cost_micro(types: Sequence[InstanceType], counts: Counts) -> int:
    """What they cost for an hour."""
    return sum(count * one.price_micro for one, count in zip(types, counts, strict=True))


def can_hold(one: InstanceType, shape: Shape) -> bool:
    """Whether an empty node of a type takes a task, by sizes, models, labels and its taint."""
    return has_room(one, shape) and not untolerated(taints_of(one), shape.tolerations)


def taints_of(one: InstanceType) -> tuple[Taint, ...]:
    """The taints of a node of a type: those of the pool that buys it, and that of spot capacity."""
    own = tuple(taint for taint in one.taints if taint != SPOT_TAINT)
    return (*own, SPOT_TAINT) if one.capacity_type == SPOT else own


def has_room(one: InstanceType, shape: Shape) -> bool:
    """Whether an empty node of a type has room for a task, by sizes, models and labels."""
    labels = labels_of(one)
    return sizes_on(shape, one) is not None and all(
        labels.get(key) == value for key, value in shape.node_selector
    )


def labels_of(one: InstanceType) -> dict[str, str]:
    """The labels that a provider and the discovery of GPUs give such a node."""
    labels = {
        INSTANCE_TYPE: one.name,
        REGION: one.region,
        ZONE: one.zone,
        KARPENTER_CAPACITY_TYPE: one.capacity_type,
    }
    model = gpu_model.find(one.gpu_model)
    if model is not None and model.labels:
        labels[PRODUCTS[model.vendor]] = model.labels[0]
    return {**{key: value for key, value in labels.items() if value}, **dict(one.labels)}


def _node(one: InstanceType, name: str) -> Node:
    model = GpuModelName(one.gpu_model)
    return Node(
        name=NodeName(name),
        allocatable=Resources(
            cpu_milli=allocatable_cpu_milli(one),
            memory_bytes=allocatable_memory_mib(one) * MEBIBYTE,
            pods=NODE_PODS_MAX,
        ),
        devices=tuple(
            Device(id=DeviceId(f"{name}/{index}"), model=model, memory_mib=one.gpu_memory_mib)
            for index in range(one.gpus)
        ),
        labels=labels_of(one),
        taints=taints_of(one),
    )
