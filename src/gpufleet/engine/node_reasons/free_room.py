"""What is free on each node, for the words of an answer: how much, and which pods hold the rest.

The engine decides with its own arrays; here the same bookings are summed up pod by pod, so that an answer can
say "gpu-003 has 1 of 8 GPUs free; team-a/train holds 6".
"""

from collections.abc import Iterable

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI, Device, Serves
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod


class PlacedPod(msgspec.Struct, frozen=True):
    """A pod that has a node; a device without a known id is None.

    Room is kept for one that does not run: by a reservation, until pods that end have left, or as for a
    member of the gang that is asked about.
    """

    pod: Pod
    node: NodeName
    devices: tuple[DeviceId | None, ...] = ()
    runs: bool = True

    @property
    def name(self) -> str:
        """The pod's name for people."""
        return self.pod.name or self.pod.uid

    @property
    def gpus(self) -> int:
        """On how many GPUs it is."""
        return self.pod.shape.gpu.count


class FreeRoom(msgspec.Struct):
    """What is left of one node. ``holders`` are the pods that run there, ``kept_for`` those for which room is
    kept; ``unnamed`` counts GPUs in use without a known id.
    """

    node: Node
    cpu_milli: int
    memory_bytes: int
    pods: int
    storage_bytes: int
    other: dict[str, int]
    idle_milli: dict[DeviceId, int]
    free_mib: dict[DeviceId, int]
    unnamed: int = 0
    holders: list[PlacedPod] = []
    kept_for: list[PlacedPod] = []

    @property
    def free_gpus(self) -> int:
        """The number of GPUs that no pod uses, healthy and given out whole."""
        idle = sum(1 for device in self.node.devices if self.is_whole(device))
        return max(0, idle - self.unnamed)

    def is_whole(self, device: Device) -> bool:
        """True if a device can be given out whole now, as far as is known."""
        usable = device.healthy and bool(device.serves & Serves.WHOLE)
        return usable and self.idle_milli[device.id] == WHOLE_GPU_MILLI

    def amount(self, name: str) -> int:
        """What is free of a resource by its name in a verdict."""
        own = {
            "cpu_milli": self.cpu_milli,
            "memory_bytes": self.memory_bytes,
            "pods": self.pods,
            "ephemeral_storage_bytes": self.storage_bytes,
        }
        return own[name] if name in own else self.other.get(name, 0)

    def gpu_holders(self) -> list[PlacedPod]:
        """The pods that hold GPUs here, those with the most first."""
        holding = [one for one in self.holders if one.gpus]
        return sorted(holding, key=lambda one: (-one.gpus, one.name))


def free_room_of(nodes: Iterable[Node], placed: Iterable[PlacedPod]) -> dict[NodeName, FreeRoom]:
    """The room on each node."""
    rooms = {node.name: _empty(node) for node in nodes}
    for one in placed:
        room = rooms.get(one.node)
        if room is not None:
            _take(room, one)
    return rooms


def _empty(node: Node) -> FreeRoom:
    offered = node.allocatable
    return FreeRoom(
        node=node,
        cpu_milli=offered.cpu_milli,
        memory_bytes=offered.memory_bytes,
        pods=offered.pods,
        storage_bytes=offered.ephemeral_storage_bytes,
        other=dict(offered.other),
        idle_milli={device.id: WHOLE_GPU_MILLI for device in node.devices},
        free_mib={device.id: device.memory_mib or 0 for device in node.devices},
    )


def _take(room: FreeRoom, one: PlacedPod) -> None:
    asked, gpu = one.pod.shape.resources, one.pod.shape.gpu
    (room.holders if one.runs else room.kept_for).append(one)
    room.cpu_milli -= asked.cpu_milli
    room.memory_bytes -= asked.memory_bytes
    room.pods -= 1
    room.storage_bytes -= asked.ephemeral_storage_bytes
    for name, amount in asked.other:
        room.other[name] = room.other.get(name, 0) - amount
    totals = {device.id: device.memory_mib or 0 for device in room.node.devices}
    for device in one.devices:
        if device is None or device not in room.idle_milli:
            room.unnamed += 1
            continue
        in_proportion = totals[device] * gpu.gpu_milli // WHOLE_GPU_MILLI
        room.idle_milli[device] -= gpu.gpu_milli
        room.free_mib[device] -= in_proportion if gpu.memory_mib is None or gpu.whole else gpu.memory_mib
