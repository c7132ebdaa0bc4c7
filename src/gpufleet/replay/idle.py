"""What keeps GPUs idle at the end of a run, by type of node.

Every idle part of a GPU is asked which of the list's GPU requests it could still serve. If none is
small enough it is a scrap; else it is blocked by the CPU or memory of its node, or usable.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from gpufleet.engine import layout
from gpufleet.engine.scheduler import Engine
from gpufleet.model.node import Node
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import Shape
from gpufleet.replay.results import NodePicture, NodeTypeIdle
from gpufleet.replay.trace_tasks import TaskRecord

TYPICAL_PCT = 95
MEBIBYTES_A_GIBIBYTE = 1024


def typical_gpu_shapes(tasks: Iterable[TaskRecord]) -> list[Shape]:
    """The most frequent GPU requests, memory included, that cover 95 % of the GPU tasks."""
    counts = Counter(task.shape for task in tasks if task.shape.gpu.count > 0)
    kept: list[Shape] = []
    covered = 0
    for shape, count in counts.most_common():
        if 100 * covered >= TYPICAL_PCT * counts.total():
            break
        kept.append(shape)
        covered += count
    return kept


def node_type(node: Node) -> str:
    """A type of node in words: "8x G2, 96 cores, 384 GiB"."""
    models = Counter(device.model or "GPU" for device in node.devices)
    gpus = " + ".join(f"{count}x {model}" for model, count in models.items()) or "no GPU"
    cores = f"{node.allocatable.cpu_milli / 1000:g} cores"
    gibibytes = node.allocatable.memory_bytes / (MEBIBYTE * MEBIBYTES_A_GIBIBYTE)
    return f"{gpus}, {cores}, {gibibytes:.0f} GiB"


def blocked_by(shapes: list[Shape], idle_milli: list[int], cpu_milli: int, memory_bytes: int) -> list[str]:
    """For each device of a node, why its idle part stays idle."""
    whole = sum(1 for milli in idle_milli if milli == 1000)
    reasons = []
    for milli in idle_milli:
        candidates = [
            shape
            for shape in shapes
            if shape.gpu.gpu_milli <= milli and (shape.gpu.count == 1 or shape.gpu.count <= whole)
        ]
        enough_cpu = [shape for shape in candidates if shape.resources.cpu_milli <= cpu_milli]
        enough_memory = [shape for shape in candidates if shape.resources.memory_bytes <= memory_bytes]
        if not candidates:
            reasons.append("scraps")
        elif any(shape.resources.memory_bytes <= memory_bytes for shape in enough_cpu):
            reasons.append("usable")
        elif enough_memory:
            reasons.append("cpu")
        elif enough_cpu:
            reasons.append("memory")
        else:
            reasons.append("cpu and memory")
    return reasons


class FleetView:
    """Reads the fleet of an engine at the end of a run."""

    def __init__(self, engine: Engine) -> None:
        self._fleet = engine.books.fleet
        self._tables = engine.books.store.tables

    def idle_milli(self, row: int) -> list[int]:
        """Idle milli of each device of a node."""
        first = int(self._tables.nodes[layout.NODE_FIRST_DEVICE, row])
        count = int(self._tables.nodes[layout.NODE_DEVICE_COUNT, row])
        return [int(milli) for milli in self._tables.devices[layout.DEVICE_IDLE_MILLI, first : first + count]]

    def free_host(self, row: int) -> tuple[int, int]:
        """Free CPU milli and memory bytes of a node."""
        free = self._tables.resources_free[row]
        return int(free[layout.RESOURCE_CPU_MILLI]), int(free[layout.RESOURCE_MEMORY_BYTES])

    def idle_by_type(self, shapes: list[Shape]) -> list[NodeTypeIdle]:
        """Idle GPUs of each type of node, split by reason; the type with most GPUs first."""
        nodes: Counter[str] = Counter()
        gpus: Counter[str] = Counter()
        milli_by_reason: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row, node in enumerate(self._fleet.nodes):
            if node is None or not node.devices:
                continue
            kind = node_type(node)
            nodes[kind] += 1
            gpus[kind] += len(node.devices)
            idle = self.idle_milli(row)
            cpu_milli, memory_bytes = self.free_host(row)
            if any(idle):
                for milli, reason in zip(
                    idle, blocked_by(shapes, idle, cpu_milli, memory_bytes), strict=True
                ):
                    milli_by_reason[kind][reason] += milli
        return [
            NodeTypeIdle(
                node_type=kind,
                nodes=nodes[kind],
                gpus=count,
                idle_gpus=milli_by_reason[kind].total() / 1000,
                idle_by_reason={
                    reason: milli / 1000 for reason, milli in sorted(milli_by_reason[kind].items()) if milli
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
