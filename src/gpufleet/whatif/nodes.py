"""Nodes that are added to or taken from a picture of a cluster.

A new node is a copy of one that is there, with fresh names, healthy devices and no pods; or it is as
described. The pods of a node that goes wait again where a controller would make them anew, and are lost where
none would.
"""

import uuid
from collections import Counter

import msgspec

from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.meanings.node_labels import ARCH, HOST_NAME, OS, PRODUCTS
from gpufleet.kube.objects import node_devices as report
from gpufleet.kube.objects.node import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from gpufleet.kube.objects.pod import Pod, PodStatus
from gpufleet.kube.objects.storage import CsiNode
from gpufleet.model import gpu_model
from gpufleet.model.device_id import device_name
from gpufleet.model.gpu_catalogue import GpuModel, Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted, listed
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import AMD_GPU, NVIDIA_GPU
from gpufleet.whatif.request import ADD_NODES, REMOVE_NODE, AddNodes

NODE_STATE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeleted")
"""How taints begin that tell of a node's state, which a new node does not share."""

# A described node is asked about for its GPUs: CPU and memory never run short there, and pods hardly ever.
AMPLE = {"cpu": "100k", "memory": "1Pi"}
PODS = "250"
# More shares of one GPU than are in use anywhere: the slots must not be what runs short.
SLOTS_PER_GPU = 100
# How the device plugins of each vendor count GPUs.
RESOURCES = {Vendor.NVIDIA: NVIDIA_GPU, Vendor.AMD: AMD_GPU}
SHARING = (report.WHOLE, report.SHARES, report.MIXED)
"""The sharing modes that a described node can have; MIG needs a layout, which a description lacks."""

_IDS = uuid.UUID("b5c6f3a2-4a0e-4d0b-9f58-5d5ad1f0a2b7")
"""A fixed namespace, so that the ids of new nodes and devices are equal in every run."""


def add_nodes(picture: Picture, wanted: AddNodes) -> str:
    """Put new nodes into the picture. Returns what they are like. Raises InputError."""
    template = _described(wanted) if wanted.gpus is not None else _template(picture, wanted)
    names = add_copies(picture, template, wanted.count, wanted.name)
    span = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{counted(wanted.count, 'node')} more ({span}), {template.words}"


def add_copies(picture: Picture, template: "NodeTemplate", count: int, begin: str) -> list[str]:
    """Put new nodes made from a template into the picture. Returns their names, which begin so."""
    names = _free_names(picture, count, begin)
    for name in names:
        _put(picture, resources.NODES, name, _renamed(template.node, name))
        if template.devices is not None:
            _put(picture, resources.NODE_DEVICES, name, _fresh(template.devices, name))
        if template.csi is not None:
            own = msgspec.structs.replace(template.csi.metadata, name=name, uid="")
            _put(picture, resources.CSI_NODES, name, msgspec.structs.replace(template.csi, metadata=own))
    return names


def check_add_nodes(wanted: AddNodes) -> None:
    """Find what is wrong in nodes that are described, whatever the cluster has. Raises InputError."""
    if wanted.gpus is not None:
        _described(wanted)


class NodeTemplate(msgspec.Struct, frozen=True):
    """What new nodes are made from, and what they are like in words."""

    node: Node
    devices: report.NodeDevices | None = None
    csi: CsiNode | None = None
    words: str = ""


def _template(picture: Picture, wanted: AddNodes) -> NodeTemplate:
    name = wanted.like or _most_common(picture)
    node: Node | None = picture.find(resources.NODES, name)
    if node is None:
        raise unknown_node(picture, name, ADD_NODES)
    words = f"like {harmless(name)}"
    if not wanted.like:
        words += ", of which kind there are most"
    devices = picture.find(resources.NODE_DEVICES, name)
    return NodeTemplate(node, devices, picture.find(resources.CSI_NODES, name), words)


def _most_common(picture: Picture) -> str:
    """The first by name of the nodes with GPUs of which kind there are most."""
    kinds: Counter[tuple[str, ...]] = Counter()
    first: dict[tuple[str, ...], str] = {}
    for _, name in sorted(picture.objects.get(resources.NODES, ())):
        kind = _kind(picture, name)
        if kind:
            kinds[kind] += 1
            first.setdefault(kind, name)
    if not kinds:
        expected = "gpus= and model=, or like="
        raise InputError("there is no node with GPUs to copy", field=ADD_NODES, expected=expected)
    return first[min(kinds, key=lambda kind: (-kinds[kind], first[kind]))]


def _kind(picture: Picture, name: str) -> tuple[str, ...]:
    devices: report.NodeDevices | None = picture.find(resources.NODE_DEVICES, name)
    if devices is not None:
        return tuple(device.model for device in devices.spec.devices)
    amounts = picture.find(resources.NODES, name).status.allocatable  # type: ignore[union-attr]
    return tuple(f"{key}={amounts[key]}" for key in RESOURCES.values() if amounts.get(key, "0") != "0")


def _described(wanted: AddNodes) -> NodeTemplate:
    gpus = wanted.gpus or 0
    for key, text in (("cpu", wanted.cpu), ("memory", wanted.memory)):
        if text:
            parse_quantity(text, field=f"{ADD_NODES} {key}")
    if wanted.sharing not in SHARING:
        expected = ", ".join(SHARING)
        raise InputError("no such sharing", field=ADD_NODES, value=wanted.sharing, expected=expected)
    amounts = {"cpu": wanted.cpu or AMPLE["cpu"], "memory": wanted.memory or AMPLE["memory"], "pods": PODS}
    ample = [key for key, text in (("CPU", wanted.cpu), ("memory", wanted.memory)) if not text]
    unlimited = f", whose {' and '.join(ample)} limit nothing" if ample else ""
    if not gpus:
        node = _node(amounts, dict(wanted.labels), wanted)
        return NodeTemplate(node, None, None, f"without GPUs{unlimited}")
    model = read_model(wanted.model)
    amounts[RESOURCES[model.vendor]] = str(gpus)
    if wanted.sharing != report.WHOLE:
        amounts[keys.GPU_SHARE] = str(gpus * SLOTS_PER_GPU)
    product = {PRODUCTS[model.vendor]: model.labels[0] if model.labels else str(model.name)}
    labels = {**product, **dict(wanted.labels)}
    devices = tuple(
        report.ReportedDevice(
            id=f"GPU-{index}",
            vendor=model.vendor.value,
            model=str(model.name),
            memory_mib=model.memory_mib,
            usable_memory_mib=model.memory_mib,
            sharing=wanted.sharing,
        )
        for index in range(gpus)
    )
    listing = report.NodeDevices(NodeMetadata(), report.NodeDevicesSpec(devices=devices))
    words = f"each with {counted(gpus, 'GPU')} {model.name}{unlimited}"
    return NodeTemplate(_node(amounts, labels, wanted), listing, None, words)


def read_model(name: str) -> GpuModel:
    """The one model of that name. Raises InputError."""
    found = gpu_model.matching(name)
    if len(found) == 1 and found[0].vendor in RESOURCES:
        return found[0]
    if found:
        expected = "one of " + ", ".join(str(model.name) for model in found)
        raise InputError("may mean several models", field=ADD_NODES, value=name, expected=expected)
    near = gpu_model.nearest_name(name)
    expected = f"a model of the catalogue; did you mean {near}?" if near else "a model such as H100-80GB"
    raise InputError("no such model of GPU", field=ADD_NODES, value=name, expected=expected)


def _node(amounts: dict[str, str], labels: dict[str, str], wanted: AddNodes) -> Node:
    everywhere = {OS: "linux", ARCH: "amd64"}
    taints = tuple(Taint(one.key, one.effect, one.value) for one in wanted.taints)
    return Node(
        NodeMetadata(labels={**everywhere, **labels}),
        NodeSpec(taints),
        NodeStatus(allocatable={**amounts, **dict(wanted.amounts)}),
    )


def _renamed(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels, HOST_NAME: name}
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(NODE_STATE_TAINTS))
    metadata = msgspec.structs.replace(node.metadata, name=name, uid=_uid(name), labels=labels)
    return msgspec.structs.replace(node, metadata=metadata, spec=NodeSpec(taints))


def _fresh(devices: report.NodeDevices, name: str) -> report.NodeDevices:
    """The devices under new names, healthy and without holders."""
    ids: dict[DeviceId, str] = {}
    fresh = []
    for device in devices.spec.devices:
        parts = device_name(DeviceId(device.id))
        # Replicas and instances of one card stay on one card.
        card = ids.setdefault(parts.card, f"GPU-{_uid(f'{name}/{len(ids)}')}")
        own = msgspec.structs.replace(parts, card=DeviceId(card)).id
        well = msgspec.structs.replace(device, id=own, health=report.HEALTHY, health_reason="", taints=())
        fresh.append(well)
    spec = report.NodeDevicesSpec(driver=devices.spec.driver, devices=tuple(fresh))
    return report.NodeDevices(msgspec.structs.replace(devices.metadata, name=name, uid=""), spec)


def _uid(text: str) -> str:
    return str(uuid.uuid5(_IDS, text))


def _free_names(picture: Picture, count: int, begin: str) -> list[str]:
    taken = {name for _, name in picture.objects.get(resources.NODES, ())}
    found: list[str] = []
    number = 0
    while len(found) < count:
        number += 1
        if f"{begin}-{number}" not in taken:
            found.append(f"{begin}-{number}")
    return found


def _put(picture: Picture, kind: resources.Kind, name: str, value: object) -> None:
    picture.objects.setdefault(kind, {})["", name] = value


def unknown_node(picture: Picture, name: str, field: str) -> InputError:
    """The error for a name that no node has; it says which name may have been meant."""
    names = sorted(name for _, name in picture.objects.get(resources.NODES, ()))
    near = nearest(name, names)
    if near is not None:
        expected = f"a node that is there; did you mean {harmless(near)}?"
    elif names:
        expected = f"a node that is there, such as {listed(names)}"
    else:
        expected = "a cluster with nodes"
    return InputError("no such node", field=field, value=name, expected=expected)


class Displaced(msgspec.Struct, frozen=True):
    """What becomes of the pods of a node that goes: ``again`` wait again, ``lost`` have no controller that
    makes them anew, ``foreign`` are another scheduler's.
    """

    again: tuple[Pod, ...]
    lost: tuple[Pod, ...]
    foreign: int


def remove_node(picture: Picture, name: str, created_at: str, scheduler_name: str) -> Displaced:
    """Take a node out of the picture; ``created_at`` is when its pods are made anew. Raises InputError."""
    if picture.find(resources.NODES, name) is None:
        raise unknown_node(picture, name, REMOVE_NODE)
    for kind in (resources.NODES, resources.NODE_DEVICES, resources.CSI_NODES):
        picture.objects.get(kind, {}).pop(("", name), None)
    attachments = picture.objects.get(resources.VOLUME_ATTACHMENTS, {})
    for key in [key for key, one in attachments.items() if one.spec.node_name == name]:
        del attachments[key]
    pods = picture.objects.get(resources.PODS, {})
    again, lost, foreign = [], [], 0
    for pod in [pod for pod in pods.values() if pod.spec.node_name == name]:
        key = (pod.metadata.namespace, pod.metadata.name)
        del pods[key]
        controller = pod.metadata.controller
        # Pods of a DaemonSet and static pods belong to their node and go with it.
        ends = pod.terminal or pod.metadata.deletion_timestamp is not None
        if ends or (controller is not None and controller.kind in {"DaemonSet", "Node"}):
            continue
        if pod.spec.scheduler_name != scheduler_name:
            foreign += 1
        elif controller is None:
            lost.append(pod)
        else:
            pods[key] = made_anew(pod, created_at)
            again.append(pods[key])
    return Displaced(tuple(again), tuple(lost), foreign)


def made_anew(pod: Pod, created_at: str) -> Pod:
    """The pod as its controller would make it again."""
    annotations = {key: text for key, text in pod.metadata.annotations.items() if key != keys.GRANT}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations, creation_timestamp=created_at)
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))
