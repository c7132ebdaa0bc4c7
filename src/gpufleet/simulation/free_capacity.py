"""How much room a cluster has left, counted anew from its objects by the judge."""

import msgspec

from gpufleet.simulation import pod_facts
from gpufleet.simulation.history import CLAIMS, NODE_DEVICES, NODES, PODS, VOLUMES, History
from gpufleet.simulation.pod_facts import GPU, Needs
from gpufleet.simulation.refusal import JsonObject


class NodeRoom(msgspec.Struct):
    """What is left of one node: CPU, memory, and thousandths of each device (None: devices unnamed)."""

    labels: dict[str, str]
    cpu_milli: int
    memory_bytes: int
    pods: int
    devices: dict[str, int]
    unnamed_gpus: int

    def take(self, pod: JsonObject, held: dict[str, int]) -> None:
        """Count a pod that is bound here, with what its node reports of it."""
        needs = pod_facts.needs_of(pod)
        self.cpu_milli -= needs.cpu_milli
        self.memory_bytes -= needs.memory_bytes
        self.pods -= 1
        # What the node reports is the fact; what was granted counts until there is a report.
        granted = held or {one.device: one.gpu_milli for one in pod_facts.grant_of(pod)[1]}
        for device, gpu_milli in granted.items():
            self.devices[device] = self.devices.get(device, 0) - gpu_milli
        if not granted:
            self.unnamed_gpus -= needs.gpu_milli // 1000

    def fits(self, pod: JsonObject) -> bool:
        """Whether a waiting pod could be bound here."""
        needs = pod_facts.needs_of(pod)
        selector = (pod["spec"].get("nodeSelector") or {}).items()
        return (
            self.pods > 0
            and needs.within(Needs(self.cpu_milli, self.memory_bytes, 0))
            and all(self.labels.get(key) == value for key, value in selector)
            and self._has_gpus(needs.gpu_milli)
        )

    def place(self, pod: JsonObject) -> None:
        """Count a pod as if it were bound here: shares where they fit tightest."""
        needs = pod_facts.needs_of(pod)
        self.cpu_milli -= needs.cpu_milli
        self.memory_bytes -= needs.memory_bytes
        self.pods -= 1
        left = needs.gpu_milli
        for device in sorted(self.devices, key=lambda name: self.devices[name]):
            part = min(1000, left)
            if left and self.devices[device] >= part:
                self.devices[device] -= part
                left -= part
        self.unnamed_gpus -= left // 1000

    def _has_gpus(self, gpu_milli: int) -> bool:
        if gpu_milli == 0:
            return True
        if not self.devices:
            return gpu_milli % 1000 == 0 and self.unnamed_gpus >= gpu_milli // 1000
        if gpu_milli < 1000:
            return any(free >= gpu_milli for free in self.devices.values())
        # A pod that holds an id that is not reported runs on a GPU all the same: one that is reported by now.
        unknown = -sum(free for free in self.devices.values() if free < 0)
        whole = sum(free >= 1000 for free in self.devices.values())
        return whole - -(-unknown // 1000) >= gpu_milli // 1000


def rooms_for(history: History, pod: JsonObject, rooms: dict[str, NodeRoom]) -> dict[str, NodeRoom]:
    """The rooms where the volumes of the pod can be used; none where one of its claims is not there."""
    claims, volumes = history.final(CLAIMS), history.final(VOLUMES)
    for name in pod_facts.claims_of(pod):
        claim = claims.get((pod["metadata"]["namespace"], name))
        if claim is None:
            return {}
        volume = volumes.get(("", claim["spec"].get("volumeName") or ""))
        if volume is not None:
            nodes = pod_facts.nodes_of_volume(volume)
            rooms = {node: room for node, room in rooms.items() if node in nodes}
    return rooms


def rooms_of(history: History) -> dict[str, NodeRoom]:
    """The room of every node that takes pods, as the run left it."""
    reports = history.final(NODE_DEVICES)
    rooms = {
        name: _empty(node, reports.get(("", name)))
        for (_, name), node in history.final(NODES).items()
        if not _is_closed(node)
    }
    for pod in history.final(PODS).values():
        node = pod_facts.node_of(pod)
        if node in rooms and not pod_facts.is_over(pod):
            held = pod_facts.facts_of(reports.get(("", node)))
            rooms[node].take(pod, held.get(pod["metadata"]["uid"], {}))
    return rooms


def _is_closed(node: JsonObject) -> bool:
    spec = node.get("spec") or {}
    # Any taint closes a node: the judge knows of no pod that tolerates one, and may miss a way, never invent
    # one.
    return bool(spec.get("unschedulable") or spec.get("taints"))


def _empty(node: JsonObject, report: JsonObject | None) -> NodeRoom:
    allocatable = node["status"]["allocatable"]
    devices = (report or {"spec": {}})["spec"].get("devices") or []
    return NodeRoom(
        node["metadata"].get("labels") or {},
        pod_facts.milli(allocatable["cpu"]),
        pod_facts.amount(allocatable["memory"]),
        int(allocatable.get("pods", "110")),
        {device["id"]: 1000 for device in devices if device.get("health", "healthy") == "healthy"},
        int(allocatable.get(GPU, 0)),
    )
