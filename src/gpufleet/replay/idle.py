"""What keeps GPUs idle at the end of a run, by type of node.

Every idle part of a GPU is split over the list's GPU requests by how often they come: a request that
would fit counts its part as usable, one that is too large for what is left as scraps, one that lacks
CPU or memory of the node as that.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.node import Node
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import Shape
from gpufleet.replay.results import NodePicture, NodeTypeIdle
from gpufleet.replay.trace_tasks import TaskRecord

# As for the typical tasks of the published experiments (``typical``).
TYPICAL_PCT = 95
# Types of nodes are told by their memory in GiB.
MEBIBYTES_A_GIBIBYTE = 1024


def typical_gpu_shapes(tasks: Iterable[TaskRecord]) -> list[tuple[Shape, int]]:
    """The most frequent GPU requests, memory included, that cover 95 % of the GPU tasks; with counts."""
    counts = Counter(task.shape for task in tasks if task.shape.gpu.count > 0)
    kept: list[tuple[Shape, int]] = []
    covered = 0
    for shape, count in counts.most_common():
        if 100 * covered >= TYPICAL_PCT * counts.total():
            break
        kept.append((shape, count))
        covered += count
    return kept


def node_type(node: Node) -> str:
    """A type of node in words: "8x G2, 96 cores, 384 GiB"."""
    models = Counter(device.model or "GPU" for device in node.devices)
    gpus = " + ".join(f"{count}x {model}" for model, count in models.items()) or "no GPU"
    cores = f"{node.allocatable.cpu_milli / 1000:g} cores"
    gibibytes = node.allocatable.memory_bytes / (MEBIBYTE * MEBIBYTES_A_GIBIBYTE)
    return f"{gpus}, {cores}, {gibibytes:.0f} GiB"


def reason_for(shape: Shape, milli: int, free_gpus: int, cpu_milli: int, memory_bytes: int) -> str:
    """Why a request does not use the idle ``milli`` of a device: what is lacking, or "usable"."""
    if shape.gpu.gpu_milli > milli or (shape.gpu.count > 1 and shape.gpu.count > free_gpus):
        return "scraps"
    lacks_cpu = shape.resources.cpu_milli > cpu_milli
    lacks_memory = shape.resources.memory_bytes > memory_bytes
    if lacks_cpu and lacks_memory:
        return "cpu and memory"
    if lacks_cpu:
        return "cpu"
    return "memory" if lacks_memory else "usable"


def split_by_reason(
    requests: list[tuple[Shape, int]], idle_milli: list[int], cpu_milli: int, memory_bytes: int
) -> dict[str, float]:
    """The idle milli of a node's devices by reason, each request weighing by its count."""
    everything = sum(count for _, count in requests)
    weights = weights_by_reason(requests, idle_milli, cpu_milli, memory_bytes)
    return {reason: weight / everything for reason, weight in weights.items()}


def weights_by_reason(
    requests: list[tuple[Shape, int]], idle_milli: list[int], cpu_milli: int, memory_bytes: int
) -> dict[str, int]:
    """The idle milli of a node's devices times the counts of the requests, by reason: whole numbers."""
    free_gpus = sum(1 for milli in idle_milli if milli == WHOLE_GPU_MILLI)
    found: dict[str, int] = {}
    # Most GPUs of a node are alike: wholly free, or nothing is left of them.
    for milli, devices in Counter(idle_milli).items():
        for shape, count in requests:
            reason = reason_for(shape, milli, free_gpus, cpu_milli, memory_bytes)
            found[reason] = found.get(reason, 0) + devices * milli * count
    return found


class FleetView:
    """Reads the fleet of an engine at the end of a run."""

    def __init__(self, engine: Engine) -> None:
        self._fleet = engine.state.fleet
        self._tables = engine.state.store.tables

    def idle_milli(self, row: int) -> list[int]:
        """Idle milli of each device of a node."""
        first = int(self._tables.nodes[layout.NODE_FIRST_DEVICE, row])
        count = int(self._tables.nodes[layout.NODE_DEVICE_COUNT, row])
        return [int(milli) for milli in self._tables.devices[layout.DEVICE_IDLE_MILLI, first : first + count]]

    def idle_of_all(self) -> np.ndarray:
        """Idle milli of every device of the fleet, by its place in the engine's tables."""
        idle: np.ndarray = self._tables.devices[layout.DEVICE_IDLE_MILLI].copy()
        return idle

    def row_of_device(self, place: int) -> int:
        """The node of a device."""
        return int(self._tables.devices[layout.DEVICE_NODE, place])

    def free_host(self, row: int) -> tuple[int, int]:
        """Free CPU milli and memory bytes of a node."""
        free = self._tables.resources_free[row]
        return int(free[layout.RESOURCE_CPU_MILLI]), int(free[layout.RESOURCE_MEMORY_BYTES])

    def idle_by_type(self, requests: list[tuple[Shape, int]]) -> list[NodeTypeIdle]:
        """Idle GPUs of each type of node, split by reason; the type with most GPUs first."""
        nodes: Counter[str] = Counter()
        gpus: Counter[str] = Counter()
        idle_milli: Counter[str] = Counter()
        milli_by_reason: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for row, node in enumerate(self._fleet.nodes):
            if node is None or not node.devices:
                continue
            kind = node_type(node)
            nodes[kind] += 1
            gpus[kind] += len(node.devices)
            idle = self.idle_milli(row)
            cpu_milli, memory_bytes = self.free_host(row)
            idle_milli[kind] += sum(idle)
            # Most nodes of a full cluster have nothing idle, and to split costs time.
            if any(idle):
                for reason, milli in split_by_reason(requests, idle, cpu_milli, memory_bytes).items():
                    milli_by_reason[kind][reason] += milli
        return [
            NodeTypeIdle(
                node_type=kind,
                nodes=nodes[kind],
                gpus=count,
                idle_gpus=idle_milli[kind] / 1000,
                idle_by_reason={
                    reason: round(milli / 1000, 4)
                    for reason, milli in sorted(milli_by_reason[kind].items())
                    if milli
                },
            )
            for kind, count in gpus.most_common()
        ]

    def picture(self) -> list[NodePicture]:
        """Every node: used milli of each device, used percent of CPU."""
        return [
            NodePicture(
                name=node.name,
                node_type=node_type(node),
                gpu_used_milli=[1000 - milli for milli in self.idle_milli(row)],
                cpu_used_pct=used_pct(node.allocatable.cpu_milli, self.free_host(row)[0]),
            )
            for row, node in enumerate(self._fleet.nodes)
            if node is not None
        ]


def used_pct(total: int, free: int) -> float:
    """Used percent of an amount, 0 of nothing."""
    return round(100 * (total - free) / total, 1) if total else 0.0
