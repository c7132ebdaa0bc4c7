"""The GPUs of a node, from its report and from what its pods were granted.

A report can go away, come back older than what was placed since, or name other GPUs than those that pods
hold: it was deleted, restored from a backup, or written over. Pods that were placed count all the same.

- Where devices are granted by id, or an agent reports them, and there is no readable report now, the node is
  ``unreported``: it keeps the GPUs that were known of it, and gets no work that asks for any. All of it
  follows from the API: the pods' grants, the agent's condition on the Node, a report that cannot be read.
- A device that a pod holds and the report lacks is shown all the same, so that it is charged, and is given to
  no other pod. Where the node has more such devices than its kubelet counts beyond those reported, as many
  reported ones without a holder are closed: the report and the pods then name the same GPUs differently.
- A device that the report says is held by a pod of which the API does not know that it is on the node, or
  that it ended there, is closed until the report drops that holder: its container may run on.
- A MIG instance is counted under its resource's name. One that is held without a request for that name, by a
  process outside Kubernetes, an unknown pod, or a pod that was given more than it asks for, is not free.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.kube.codec.node import counted_gpus, is_anonymous, labelled_device
from gpufleet.kube.objects import node as wire
from gpufleet.model.device import Device, Serves
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.node import Node


class UncountedInstance(msgspec.Struct, frozen=True, order=True):
    """A MIG instance of ``device`` that is held, and that no pod's request for ``resource`` is charged for.

    ``holder`` says in words what holds it, where the report does.
    """

    resource: str
    device: str
    holder: str = ""


class UnknownHeld(msgspec.Struct, frozen=True):
    """Devices that pods hold which the API does not know, and MIG instances that no pod is charged for."""

    devices: frozenset[DeviceId] = frozenset()
    instances: tuple[UncountedInstance, ...] = ()


class HeldOnNode(msgspec.Struct, frozen=True):
    """What the pods of a node hold, as they were granted it or as is reported.

    ``opaque`` says that a pod has a grant that cannot be read; ``promised`` are devices of pods that are on
    their way there. ``unknown`` is what is reported as held by pods which the API does not know.
    """

    ids: tuple[DeviceId, ...] = ()
    opaque: bool = False
    promised: tuple[DeviceId, ...] = ()
    unknown: UnknownHeld = UnknownHeld()

    @property
    def by_id(self) -> bool:
        """Whether devices of the node were granted by id."""
        return self.opaque or bool(self.ids)


def agent_reports(node: wire.Node) -> bool:
    """Whether an agent has said of this node that it watches its GPUs."""
    return any(condition.type == wire.GPU_HEALTHY for condition in node.status.conditions)


def unreported(node: Node, written: wire.Node, held: HeldOnNode, last: Sequence[Device]) -> Node:
    """A node without a readable report: with the devices that were last reported, else with as many as its
    kubelet counts, among them those that its pods were granted.

    Where pods were granted devices that the last report lacked, the node has no more devices for that than
    its kubelet counts: as many of the last report that no pod holds are other names of the same GPUs.
    """
    ghosts = [labelled_device(one, written) for one in missing(held.ids, last)]
    if not last:
        return _without_report(node, (*ghosts, *node.devices[len(ghosts) :]))
    doubled = len(ghosts) - max(0, len(node.devices) - len(last))
    free = [one.id for one in last if one.id not in {*held.ids, *held.promised}]
    renamed = set(free[: max(0, doubled)])
    return _without_report(node, (*(one for one in last if one.id not in renamed), *ghosts))


def _without_report(node: Node, devices: tuple[Device, ...]) -> Node:
    return msgspec.structs.replace(node, devices=devices, unreported=True, counted_only=False)


def with_missing(node: Node, written: wire.Node, held: HeldOnNode, taken: frozenset[DeviceId]) -> Node:
    """The node with devices that its pods hold and its report lacks; ``taken`` are devices of other nodes."""
    lacking = missing(held.ids, node.devices)
    if not lacking:
        return node
    beyond = max(0, counted_gpus(written) - len(node.devices))
    held_by_others = {*held.ids, *held.promised, *held.unknown.devices}
    closed: set[DeviceId] = set()
    for device in node.devices:
        if len(closed) < len(lacking) - beyond and device.id not in held_by_others:
            closed.add(device.id)
    shown = [_closed(device) if device.id in closed else device for device in node.devices]
    ghosts = [_closed(labelled_device(one, written)) for one in lacking if one not in taken]
    return msgspec.structs.replace(node, devices=(*shown, *ghosts))


def with_unknown(node: Node, held: HeldOnNode) -> Node:
    """A node without what is held there beside the requests of its pods.

    A resource of which nothing is left stays named, with 0: the node offers it, and others have it.
    """
    if held.unknown == UnknownHeld():
        return node
    closed = held.unknown.devices
    instances = Counter(one.resource for one in held.unknown.instances)
    shown = (_closed(device) if device.id in closed else device for device in node.devices)
    # The report and the kubelet's count are not of one moment, so more may be held than is counted.
    other = tuple((name, max(0, amount - instances[name])) for name, amount in node.allocatable.other)
    allocatable = msgspec.structs.replace(node.allocatable, other=other)
    return msgspec.structs.replace(node, devices=tuple(shown), allocatable=allocatable)


def missing(held: Iterable[DeviceId], shown: Iterable[Device]) -> list[DeviceId]:
    """The devices that are held and not shown, each once."""
    there = {device.id for device in shown}
    return [one for one in dict.fromkeys(held) if one not in there and not is_anonymous(one)]


def _closed(device: Device) -> Device:
    return msgspec.structs.replace(device, serves=Serves.NOTHING)
