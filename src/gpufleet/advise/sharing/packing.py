"""Places pods on the fleet with the engine, so that what is promised is what a scheduler can do.

A GPU is offered in one mode at a time, so each group of pods is placed on the GPUs that no earlier group
touched: those are shown to the engine as serving nothing.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from gpufleet.engine.event import Event, NodeSet, PodAdded
from gpufleet.engine.instruction import Bind
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Serves
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.model.taint import EXISTS, Toleration

POLICY = "gpu-packing"


class Ask(msgspec.Struct, frozen=True):
    """One pod to place, or ``pods`` that belong together."""

    uid: str
    gpu: GpuRequest
    cpu_milli: int = 0
    host_memory_mib: int = 0
    pods: int = 1


class PackedPod(msgspec.Struct, frozen=True):
    """The node and the devices that a pod got."""

    node: NodeName
    devices: tuple[DeviceId, ...]


class PackedFleet:
    """A fleet that fills up, group by group."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._closed: set[DeviceId] = set()
        self._spent: dict[NodeName, tuple[int, int, int]] = {}

    def pack(self, asks: Sequence[Ask], barred: Collection[NodeName] = ()) -> Mapping[str, PackedPod]:
        """Places what fits off the barred nodes, largest first, and closes the used GPUs to later groups."""
        engine = Engine(find_policy(POLICY))
        ordered = sorted(asks, key=lambda ask: (-ask.gpu.count, -ask.gpu.gpu_milli, ask.uid))
        events: list[Event] = [NodeSet(self._shown(node)) for node in self._nodes if node.name not in barred]
        events += [PodAdded(_pod(ask, turn)) for turn, ask in enumerate(ordered)]
        places = {
            str(one.uid): PackedPod(one.node, one.devices)
            for one in engine.step(0, events)
            if isinstance(one, Bind)
        }
        for ask in asks:
            if ask.uid in places:
                self._spend(ask, places[ask.uid])
        return places

    def _spend(self, ask: Ask, place: PackedPod) -> None:
        cpu, memory, pods = self._spent.get(place.node, (0, 0, 0))
        self._spent[place.node] = (cpu + ask.cpu_milli, memory + ask.host_memory_mib, pods + ask.pods)
        self._closed |= set(place.devices)

    def _shown(self, node: Node) -> Node:
        cpu, memory, pods = self._spent.get(node.name, (0, 0, 0))
        has = node.allocatable
        left = Resources(has.cpu_milli - cpu, has.memory_bytes - memory * MEBIBYTE, has.pods - pods)
        devices = tuple(
            msgspec.structs.replace(device, serves=Serves.NOTHING) if device.id in self._closed else device
            for device in node.devices
        )
        return msgspec.structs.replace(node, allocatable=left, devices=devices)


def _pod(ask: Ask, turn: int) -> Pod:
    host = Resources(ask.cpu_milli, ask.host_memory_mib * MEBIBYTE, 1)
    # GPU nodes are tainted to keep others out; a pod that uses a GPU today is let in.
    shape = Shape(host, ask.gpu, tolerations=(Toleration(operator=EXISTS),))
    return Pod(uid=PodUid(ask.uid), shape=shape, name=ask.uid, created_at_us=turn)
