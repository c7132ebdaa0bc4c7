"""What the tests of trace files share: small tables, and values laid flat to compare them with JSON."""

from pathlib import Path
from typing import Any

from gpufleet.model.node import Node
from gpufleet.model.resources import MEBIBYTE
from gpufleet.replay.trace_tasks import TaskRecord

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus" / "traces"
NODE_HEADER = "sn,cpu_milli,memory_mib,gpu,model"
TASK_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
MODELS = ("A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32")


def table(folder: Path, *rows: str, header: str = TASK_HEADER, name: str = "list.csv") -> Path:
    """A file with a header and rows."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in (header, *rows)), encoding="utf-8", newline="")
    return path


def flat_task(task: TaskRecord) -> dict[str, Any]:
    """A task with the columns' names."""
    shape = task.shape
    return {
        "name": task.name,
        "cpu_milli": shape.resources.cpu_milli,
        "memory_mib": shape.resources.memory_bytes / MEBIBYTE,
        "num_gpu": shape.gpu.count,
        "gpu_milli": shape.gpu.gpu_milli,
        "gpu_memory_mib": shape.gpu.memory_mib,
        "models": list(shape.gpu.models),
        "node_selector": [list(pair) for pair in shape.node_selector],
        "tolerations": [[one.key, one.operator, one.value, one.effect] for one in shape.tolerations],
        "created_at_us": task.created_at_us,
        "duration_us": task.duration_us,
        "priority": task.priority,
        "queue": task.queue,
        "gang": task.gang,
    }


def flat_node(node: Node) -> dict[str, Any]:
    """A node with the columns' names."""
    first = node.devices[0] if node.devices else None
    return {
        "name": node.name,
        "cpu_milli": node.allocatable.cpu_milli,
        "memory_mib": node.allocatable.memory_bytes / MEBIBYTE,
        "max_pods": node.allocatable.pods,
        "gpus": len(node.devices),
        "model": first.model if first else None,
        "gpu_memory_mib": first.memory_mib if first else None,
        "link_groups": [device.link_group for device in node.devices],
        "numa_nodes": [device.numa_node for device in node.devices],
        "labels": dict(node.labels),
        "taints": [str(taint) for taint in node.taints],
    }
