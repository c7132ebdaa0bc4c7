"""Writes a fleet and the work as a node list and a task list, as `gpufleet replay` reads them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gpufleet.files.atomic_write import atomic_write
from gpufleet.model.node import Node
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.taint import EXISTS, Taint, Toleration
from gpufleet.plan.history.demand import Demand
from gpufleet.replay.csv_export import Cell, seconds_text, write_csv
from gpufleet.replay.trace_nodes import NODE_COLUMNS
from gpufleet.replay.trace_tasks import TASK_COLUMNS, TaskRecord

NODES_FILE, TASKS_FILE = "nodes.csv", "tasks.csv"


def write_traces(nodes: Sequence[Node], demand: Demand, folder: Path) -> None:
    """Both lists, into a folder that is there."""
    least = {str(gang.name): gang.min_members for gang in demand.gangs}
    columns = [column.name for column in TASK_COLUMNS if not column.unused]
    with atomic_write(folder / NODES_FILE) as file:
        write_csv(file, [column.name for column in NODE_COLUMNS], map(_node_row, nodes))
    with atomic_write(folder / TASKS_FILE) as file:
        write_csv(file, columns, _task_rows(demand.tasks, least))


def _node_row(node: Node) -> Sequence[Cell]:
    first = node.devices[0] if node.devices else None
    numas = [device.numa_node for device in node.devices]
    return (
        node.name,
        node.allocatable.cpu_milli,
        node.allocatable.memory_bytes // MEBIBYTE,
        len(node.devices),
        None if first is None else first.model,
        None if first is None else first.memory_mib,
        node.allocatable.pods,
        ";".join(f"{key}={value}" for key, value in sorted(node.labels.items())),
        ";".join(map(_taint, node.taints)),
        ";".join(str(device.link_group) for device in node.devices),
        "" if None in numas else ";".join(map(str, numas)),
    )


def _taint(taint: Taint) -> str:
    return f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"


def _task_rows(tasks: Iterable[TaskRecord], least: dict[str, int]) -> Iterator[Sequence[Cell]]:
    for task in tasks:
        shape, gpu = task.shape, task.shape.gpu
        yield (
            task.name,
            shape.resources.cpu_milli,
            shape.resources.memory_bytes // MEBIBYTE,
            gpu.count,
            gpu.gpu_milli,
            "|".join(gpu.models),
            gpu.memory_mib,
            ";".join(f"{key}={value}" for key, value in shape.node_selector),
            ";".join(map(_toleration, shape.tolerations)),
            task.priority,
            task.queue,
            task.gang,
            None if task.gang is None else least[task.gang],
            seconds_text(task.created_at_us),
            None,
            None if task.withdrawn_at_us is None else seconds_text(task.withdrawn_at_us),
            None if task.duration_us is None else seconds_text(task.duration_us),
        )


def _toleration(one: Toleration) -> str:
    value = "" if one.operator == EXISTS else f"={one.value}"
    return f"{one.key or '*'}{value}{':' + one.effect if one.effect else ''}"
