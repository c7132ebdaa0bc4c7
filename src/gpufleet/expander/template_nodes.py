"""The nodes that an option adds, and which nodes of the cluster came from it.

The autoscaler says of a new node what its kubelet would say. What the GPUs of a group are in detail, an agent
has reported of the nodes that the group has today.
"""

import datetime as dt

import msgspec

from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE
from gpufleet.kube.meanings.node_pools import pool_of
from gpufleet.kube.objects.node import Node, Taint
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.model.resource_names import GPU_RESOURCES
from gpufleet.whatif.nodes import NodeTemplate

STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/"
"""How the taints begin that a node loses once it is set up."""

BARRING = ("NoSchedule", "NoExecute")


def template_of(node: Node, picture: Picture) -> NodeTemplate:
    """What each new node is like, with the GPUs that a node of the group reports."""
    taints = tuple(one for one in node.spec.taints if not one.key.startswith(STARTUP_TAINT))
    lasting = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints))
    return NodeTemplate(lasting, _reported_like(node, picture))


def _reported_like(node: Node, picture: Picture) -> NodeDevices | None:
    for other in picture.all(resources.NODES):
        if of_same_group(node, other) and gpus_of(other) == gpus_of(node):
            found: NodeDevices | None = picture.find(resources.NODE_DEVICES, other.metadata.name)
            if found is not None:
                return found
    return None


def of_same_group(node: Node, other: Node) -> bool:
    """Whether both are of one group, as far as labels tell: of one pool, else of one type of instance."""
    labels, others = node.metadata.labels, other.metadata.labels
    pool = pool_of(labels)
    if pool:
        return pool_of(others) == pool
    return bool(labels.get(INSTANCE_TYPE)) and labels[INSTANCE_TYPE] == others.get(INSTANCE_TYPE)


def gpus_of(node: Node) -> tuple[tuple[str, str], ...]:
    """What the kubelet counts of whole GPUs."""
    amounts = node.status.allocatable
    return tuple((name, amounts[name]) for name in GPU_RESOURCES if amounts.get(name, "0") != "0")


def joined(template: Node, picture: Picture, since: dt.datetime) -> list[str]:
    """The nodes like the template that came since then and are ready to be used."""
    return [
        node.metadata.name
        for node in picture.all(resources.NODES)
        if of_same_group(template, node) and _came_since(node, since) and _is_set_up(node, template)
    ]


def _came_since(node: Node, since: dt.datetime) -> bool:
    written = node.metadata.creation_timestamp
    return written is not None and dt.datetime.fromisoformat(written) >= since


def _is_set_up(node: Node, template: Node) -> bool:
    """Whether its GPUs are counted, and no taint bars pods from it that the template does not have."""
    barred = {(one.key, one.effect) for one in node.spec.taints if _bars(one)}
    expected = {(one.key, one.effect) for one in template.spec.taints}
    return barred <= expected and gpus_of(node) == gpus_of(template)


def _bars(taint: Taint) -> bool:
    return taint.effect in BARRING
