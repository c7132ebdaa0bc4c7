"""A fleet as plain Python objects: the slow and obvious account that the engine is compared with.

Nothing here is cached, packed or incremental: what is free is counted from what is held whenever
somebody asks. ``reference_policies`` scores it, ``ledger`` keeps one beside a running engine.
"""

from dataclasses import dataclass, field

from gpufleet.model.device import Device, Serves
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.shape import GpuRequest, Shape, Within
from gpufleet.model.taint import CORDON, untolerated


@dataclass
class PlainDevice:
    """A GPU and the requests that hold a part of it."""

    device: Device
    holders: list[GpuRequest] = field(default_factory=list)

    @property
    def free_milli(self) -> int:
        """What is left of 1000, below 0 where facts over-commit it."""
        return 1000 - sum(held.gpu_milli for held in self.holders)

    @property
    def idle_milli(self) -> int:
        """What can still be given away: nothing of a sick device."""
        return max(0, self.free_milli) if self.device.healthy else 0

    @property
    def free_mib(self) -> int:
        """Memory left; a device that does not tell its memory counts as having none."""
        return (self.device.memory_mib or 0) - sum(self.mib_of(held) for held in self.holders)

    def mib_of(self, request: GpuRequest) -> int:
        """Memory that a request takes here: all, what it states, or in proportion."""
        total = self.device.memory_mib
        if request.whole:
            return total or 0
        if request.memory_mib is not None:
            return request.memory_mib
        return 0 if total is None else total * request.gpu_milli // 1000

    def fits(self, request: GpuRequest) -> bool:
        """True if one device's part of the request can be given here."""
        if not self.device.healthy:
            return False
        if request.models and self.device.model not in request.models:
            return False
        if request.whole:
            least = request.memory_mib
            large = least is None or (self.device.memory_mib is not None and self.device.memory_mib >= least)
            return large and Serves.WHOLE in self.device.serves and not self.holders
        if Serves.SHARE not in self.device.serves:
            return False
        return request.gpu_milli <= self.idle_milli and self.mib_of(request) <= self.free_mib


def near(device: Device, within: Within) -> int | None:
    """What devices that are near enough to each other have in common."""
    groups = {Within.NODE: 0, Within.NUMA_NODE: device.numa_node, Within.LINK_GROUP: device.link_group}
    return groups[within]


class PlainNode:
    """A node and the shapes that run on it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.devices = [PlainDevice(device) for device in node.devices]
        self.running: list[Shape] = []

    @property
    def device_by_id(self) -> dict[DeviceId, PlainDevice]:
        """The devices by id."""
        return {one.device.id: one for one in self.devices}

    @property
    def free_cpu_milli(self) -> int:
        """CPU left."""
        return self.node.allocatable.cpu_milli - sum(one.resources.cpu_milli for one in self.running)

    @property
    def idle_gpu_milli(self) -> int:
        """GPU left over all devices."""
        return sum(one.idle_milli for one in self.devices)

    def free_amounts(self) -> dict[str, int]:
        """What is left of each host resource by name."""
        free = amounts(self.node.allocatable.pods, Shape(self.node.allocatable))
        for one in self.running:
            for name, amount in amounts(1, one).items():
                free[name] = free.get(name, 0) - amount
        return free

    def accepts(self, shape: Shape) -> bool:
        """True if labels, taints and cordon let the shape in."""
        if self.node.unschedulable and untolerated((CORDON,), shape.tolerations) is not None:
            return False
        if untolerated(self.node.taints, shape.tolerations) is not None:
            return False
        labels = self.node.labels
        selected = all(labels.get(key) == value for key, value in shape.node_selector)
        reachable = all(one.accepts(labels, self.node.name) for one in shape.volume_affinities)
        declared = all(feature in self.node.features for feature in shape.features)
        return selected and reachable and declared and shape.affinity.accepts(labels, self.node.name)

    def has_host_room(self, shape: Shape) -> bool:
        """True if every host resource that is asked for suffices."""
        free = self.free_amounts()
        return all(amount <= free.get(name, 0) for name, amount in amounts(1, shape).items() if amount > 0)

    def fitting_devices(self, shape: Shape) -> list[DeviceId]:
        """Devices that can serve one of those asked for, lowest index first."""
        return [one.device.id for one in self.devices if one.fits(shape.gpu)]

    def fits(self, shape: Shape) -> bool:
        """True if the node has room for one pod of the shape, labels aside."""
        groups = self.fitting_together(shape)
        return self.has_host_room(shape) and any(len(group) >= shape.gpu.count for group in groups)

    def fitting_together(self, shape: Shape) -> list[list[DeviceId]]:
        """Devices that can serve one of those asked for, in the groups in which they are near enough."""
        groups: dict[object, list[DeviceId]] = {None: []} if not shape.gpu.count else {}
        for one in self.devices:
            if one.fits(shape.gpu):
                groups.setdefault(near(one.device, shape.gpu.within), []).append(one.device.id)
        return list(groups.values())

    def take(self, shape: Shape, devices: tuple[DeviceId, ...]) -> None:
        """Run a pod here. Devices that the node does not have are nowhere to be booked."""
        self.running.append(shape)
        known = self.device_by_id
        for one in devices:
            if one in known:
                known[one].holders.append(shape.gpu)

    def give_back(self, shape: Shape, devices: tuple[DeviceId, ...]) -> None:
        """A pod ends."""
        self.running.remove(shape)
        known = self.device_by_id
        for one in devices:
            if one in known:
                known[one].holders.remove(shape.gpu)

    def kinds(self) -> dict[str, int]:
        """How many GPU pods of each kind run: shares, and whole requests by their count."""
        counts: dict[str, int] = {}
        for one in self.running:
            if one.gpu.count:
                kind = f"{one.gpu.count} whole" if one.gpu.whole else "share"
                counts[kind] = counts.get(kind, 0) + 1
        return counts


def amounts(pods: int, shape: Shape) -> dict[str, int]:
    """Host resources by name."""
    resources = shape.resources
    fixed = {
        "cpu_milli": resources.cpu_milli,
        "memory_bytes": resources.memory_bytes,
        "pods": pods,
        "ephemeral_storage_bytes": resources.ephemeral_storage_bytes,
    }
    return fixed | dict(resources.other)


def places_on(place: PlainNode, pod: Pod, most: int) -> int:
    """How many pods of this shape fit on the node, counted by placing them; the node stays as it is."""
    if not place.accepts(pod.shape):
        return 0
    copy = PlainNode(place.node)
    copy.running = list(place.running)
    for mine, theirs in zip(copy.devices, place.devices, strict=True):
        mine.holders = list(theirs.holders)
    count = 0
    while count < most and copy.fits(pod.shape):
        known = copy.device_by_id
        fullest = sorted(copy.fitting_devices(pod.shape), key=lambda one: known[one].idle_milli)
        copy.take(pod.shape, tuple(fullest[: pod.shape.gpu.count]))
        count += 1
    return count
