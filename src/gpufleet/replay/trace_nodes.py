"""Reads a node list: what machines and GPUs a replayed fleet has.

The columns are those of the public openb trace and ours beyond them; ``docs/trace-files.md``
tells each one's meaning, default and an example. ``trace`` joins the list with a task list.
"""

import functools
import os

import msgspec

from gpufleet.model import gpu_model
from gpufleet.model.device import UNKNOWN_MODEL, Device
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from gpufleet.replay import trace_cells, trace_list_cells
from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.results import SkippedRow
from gpufleet.replay.table_bytes import TableLimits
from gpufleet.replay.table_columns import Column
from gpufleet.replay.trace_table import Table, open_table

# Bounds the memory of a run: far more than any cluster has.
MOST_GPUS = 1_000_000
# What the published experiments allow on a node.
DEFAULT_MAX_PODS = 1001

NODE_COLUMNS = (
    Column("sn", alias="name", required=True),
    Column("cpu_milli", required=True),
    Column("memory_mib", required=True),
    Column("gpu", required=True),
    Column("model"),
    Column("gpu_memory_mib"),
    Column("max_pods"),
    Column("labels"),
    Column("taints"),
    Column("link_groups"),
    Column("numa_nodes"),
)
GPU_CELLS = ("model", "gpu_memory_mib", "link_groups", "numa_nodes")
NODE_LIMITS = TableLimits(rows=1_000_000)


class NodeList(msgspec.Struct, frozen=True):
    """The nodes of a file in its order, the rows left out, and notes for people."""

    nodes: tuple[Node, ...]
    skipped: tuple[SkippedRow, ...] = ()
    notes: tuple[str, ...] = ()


def read_nodes(
    path: str | os.PathLike[str],
    *,
    skip_bad_rows_pct: float = 0.0,
    limits: TableLimits = NODE_LIMITS,
) -> NodeList:
    """Reads the node list at ``path``.

    Up to ``skip_bad_rows_pct`` percent of its rows may be bad and are then left out.
    """
    with open_table(path, NODE_COLUMNS, skip_bad_rows_pct=skip_bad_rows_pct, limits=limits) as table:
        nodes = _nodes(table)
        skipped = table.bad_rows.finish()
        if not nodes:
            raise table.bad_rows.nothing_left("at least one node")
        return NodeList(tuple(nodes), skipped, table.columns.notes)


def _nodes(table: Table) -> list[Node]:
    nodes: list[Node] = []
    row_of_name: dict[str, int] = {}
    gpus = 0
    for row, lines, cells in table.rows:
        try:
            node = _node(cells)
            trace_cells.refuse_twice(row_of_name, node.name, "sn", row)
        except InputError as error:
            table.bad_rows.refuse(row, error, lines)
            continue
        nodes.append(node)
        gpus += len(node.devices)
        if gpus > MOST_GPUS:
            raise TraceError(f"has more than {MOST_GPUS:,} GPUs", file=table.file, row=row)
    return nodes


def _node(cells: tuple[str, ...]) -> Node:
    sn, cpu, memory, gpu, model, gpu_memory, max_pods, labels, taints, *per_gpu = cells
    name = NodeName(trace_cells.name(sn, "sn"))
    gpus = trace_cells.gpu_count(gpu, "gpu")
    resources = Resources(
        cpu_milli=trace_cells.cpu_milli(cpu),
        memory_bytes=trace_cells.memory_bytes(memory),
        pods=trace_cells.pod_count(max_pods, "max_pods") if max_pods else DEFAULT_MAX_PODS,
    )
    gpu_cells = (model, gpu_memory, *per_gpu)
    return Node(
        name=name,
        allocatable=resources,
        devices=_devices(name, gpus, gpu_cells) if gpus else _no_devices(gpu_cells),
        labels=trace_list_cells.label_pairs(labels, "labels"),
        taints=trace_list_cells.taints(taints, "taints"),
    )


def _devices(node: NodeName, gpus: int, gpu_cells: tuple[str, ...]) -> tuple[Device, ...]:
    model, memory, link_groups, numa_nodes = gpu_cells
    model_name = _model(model)
    usable_mib = trace_cells.gpu_memory_mib(memory) or _nominal_memory_mib(model_name)
    links = _per_gpu(link_groups, "link_groups", gpus)
    numas = _per_gpu(numa_nodes, "numa_nodes", gpus)
    return tuple(
        Device(
            id=DeviceId(f"{node}/{index}"),
            model=model_name,
            memory_mib=usable_mib,
            link_group=links[index] if links else 0,
            numa_node=numas[index] if numas else None,
        )
        for index in range(gpus)
    )


def _no_devices(gpu_cells: tuple[str, ...]) -> tuple[Device, ...]:
    for column, cell in zip(GPU_CELLS, gpu_cells, strict=True):
        if cell:
            raise InputError(
                "says something about GPUs while gpu is 0",
                field=column,
                value=cell,
                expected="an empty cell, or a number of GPUs in gpu",
            )
    return ()


def _model(cell: str) -> GpuModelName:
    if not cell:
        return UNKNOWN_MODEL
    if "|" in cell:
        raise InputError("a list of models", field="model", value=cell, expected="one model a node")
    return GpuModelName(trace_cells.name(cell, "model"))


@functools.lru_cache(maxsize=1024)
def _nominal_memory_mib(model: GpuModelName) -> int | None:
    known = gpu_model.find(model)
    return None if known is None else known.memory_mib


def _per_gpu(cell: str, column: str, gpus: int) -> list[int]:
    """One small number a GPU, none if the cell is empty."""
    numbers = [trace_cells.gpu_count(part, column) for part in trace_list_cells.parts(cell, column)]
    if numbers and len(numbers) != gpus:
        raise InputError(
            f"has {len(numbers)} numbers for {gpus} GPUs",
            field=column,
            value=cell,
            expected="one number for each GPU, separated by ;",
        )
    return numbers
