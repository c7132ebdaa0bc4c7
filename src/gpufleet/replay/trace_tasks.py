"""Reads a task list: what a fleet was asked to run, and when.

The columns are those of the public openb trace and ours beyond them; ``docs/trace-files.md``
tells each one's meaning, default and an example. Equal requests share one ``Shape``: a trace
has few of them, the cells of a row seldom need parsing, and the engine finds a shape by identity.
``trace`` joins the list with a node list.
"""

import os
from collections.abc import Collection

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DEFAULT_QUEUE, GangName, GpuModelName, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.replay import trace_cells, trace_list_cells
from gpufleet.replay.results import SkippedRow
from gpufleet.replay.table_bytes import TableLimits
from gpufleet.replay.table_columns import Column
from gpufleet.replay.trace_gangs import TraceGangs, Turn
from gpufleet.replay.trace_models import ModelNames
from gpufleet.replay.trace_table import Table, open_table
from gpufleet.replay.trace_times import RecordedTimes, check_time_columns

# The API's priorities have 32 bits.
LOWEST_PRIORITY, HIGHEST_PRIORITY = -(2**31), 2**31 - 1

# Three groups of columns are each read as one: what a task asks for, what decides its turn, its times.
TASK_COLUMNS = (
    Column("name", required=True),
    Column("cpu_milli", required=True),
    Column("memory_mib", required=True),
    Column("num_gpu", required=True),
    Column("gpu_milli", required=True),
    Column("gpu_spec"),
    Column("gpu_memory_mib"),
    Column("node_selector"),
    Column("tolerations"),
    Column("priority"),
    Column("queue"),
    Column("gang"),
    Column("gang_min_members"),
    Column("creation_time"),
    Column("scheduled_time"),
    Column("deletion_time"),
    Column("duration_s"),
    Column("qos", unused=True),
    Column("pod_phase", unused=True),
)
REQUEST_CELLS = slice(1, 9)
TURN_CELLS = slice(9, 13)
TIME_CELLS = slice(13, 17)
GANG_CELL = 11
TASK_LIMITS = TableLimits()


class TaskRecord(msgspec.Struct, frozen=True, gc=False):
    """A task as it was recorded.

    ``created_at_us`` counts from the trace's start. ``duration_us`` is how long it ran once started, None if
    it never started or the trace does not say. ``withdrawn_at_us`` is when it was given up without having
    started.
    """

    name: str
    shape: Shape
    created_at_us: int = 0
    duration_us: int | None = None
    priority: int = 0
    queue: QueueName = DEFAULT_QUEUE
    gang: GangName | None = None
    withdrawn_at_us: int | None = None


class TaskList(msgspec.Struct, frozen=True):
    """The tasks of a file in its order, their gangs, the rows left out, and notes for people.

    ``timed`` is False if the list does not say when tasks were created; all times are then 0.
    """

    tasks: tuple[TaskRecord, ...]
    gangs: tuple[Gang, ...] = ()
    timed: bool = False
    skipped: tuple[SkippedRow, ...] = ()
    notes: tuple[str, ...] = ()


def read_tasks(
    path: str | os.PathLike[str],
    models: Collection[str],
    *,
    skip_bad_rows_pct: float = 0.0,
    limits: TableLimits = TASK_LIMITS,
) -> TaskList:
    """Reads the task list at ``path``; ``models`` are the GPU models of the nodes.

    Up to ``skip_bad_rows_pct`` percent of its rows may be bad and are then left out.
    """
    with open_table(path, TASK_COLUMNS, skip_bad_rows_pct=skip_bad_rows_pct, limits=limits) as table:
        present = table.columns.present
        check_time_columns(present, table.file)
        times = RecordedTimes("creation_time" in present, "scheduled_time" in present)
        gangs_read = TraceGangs()
        tasks = _Tasks(table, models, times, gangs_read).read()
        if not table.bad_rows.skipping:
            table.bad_rows.finish()
        gangs, dropped = gangs_read.finish(table.bad_rows)
        skipped = table.bad_rows.finish()
        if dropped:
            tasks = [task for position, task in enumerate(tasks) if position not in dropped]
        if not tasks:
            raise table.bad_rows.nothing_left("at least one task")
        return TaskList(tuple(tasks), gangs, times.has_creation, skipped, table.columns.notes)


class _Tasks:
    """One walk over the rows."""

    def __init__(
        self, table: Table, models: Collection[str], times: RecordedTimes, gangs: TraceGangs
    ) -> None:
        self._table = table
        self._shapes = _Shapes(models)
        self._turns = _Turns()
        self._times = times
        self._gangs = gangs
        self._row_of_name: dict[str, int] = {}

    def read(self) -> list[TaskRecord]:
        tasks: list[TaskRecord] = []
        for row, lines, cells in self._table.rows:
            try:
                task = self._task(row, cells, len(tasks))
            except InputError as error:
                self._table.bad_rows.refuse(row, error, lines)
                if cells[GANG_CELL]:
                    self._gangs.lose(cells[GANG_CELL], row)
            else:
                tasks.append(task)
        return tasks

    def _task(self, row: int, cells: tuple[str, ...], position: int) -> TaskRecord:
        name = trace_cells.name(cells[0], "name")
        shape = self._shapes[cells[REQUEST_CELLS]]
        turn = self._turns[cells[TURN_CELLS]]
        times = self._times.read(cells[TIME_CELLS])
        trace_cells.refuse_twice(self._row_of_name, name, "name", row)
        self._gangs.join(turn, row, position, times.created_at_us)
        return TaskRecord(
            name,
            shape,
            times.created_at_us,
            times.duration_us,
            turn.priority,
            turn.queue,
            turn.gang,
            times.withdrawn_at_us,
        )


class _Shapes(dict[tuple[str, ...], Shape]):
    """The shape of each distinct request, by its cells; requests that mean the same share one."""

    def __init__(self, models: Collection[str]) -> None:
        super().__init__()
        self._models = ModelNames(models)
        self._by_value: dict[Shape, Shape] = {}

    def __missing__(self, cells: tuple[str, ...]) -> Shape:
        cpu, memory, num_gpu, gpu_milli, gpu_spec, gpu_memory, selector, tolerated = cells
        shape = Shape(
            resources=Resources(trace_cells.cpu_milli(cpu), trace_cells.memory_bytes(memory)),
            gpu=_gpu_request(
                trace_cells.gpu_count(num_gpu, "num_gpu"),
                trace_cells.whole_number(gpu_milli, "gpu_milli", at_most=WHOLE_GPU_MILLI),
                trace_cells.gpu_memory_mib(gpu_memory),
                self._models.accepted(trace_list_cells.parts(gpu_spec, "gpu_spec", "|"), "gpu_spec"),
            ),
            node_selector=tuple(sorted(trace_list_cells.label_pairs(selector, "node_selector").items())),
            tolerations=trace_list_cells.tolerations(tolerated, "tolerations"),
        )
        shape = self._by_value.setdefault(shape, shape)
        self[cells] = shape
        return shape


def _gpu_request(
    count: int, milli: int, memory_mib: int | None, models: tuple[GpuModelName, ...]
) -> GpuRequest:
    """The request, if its parts agree."""
    if count == 0:
        _refuse_without_gpu("gpu_milli", milli)
        _refuse_without_gpu("gpu_memory_mib", memory_mib)
        _refuse_without_gpu("gpu_spec", "|".join(models))
    elif count > 1 and milli != WHOLE_GPU_MILLI:
        whole = f"{WHOLE_GPU_MILLI} for more than one GPU; a share is of one GPU"
        raise InputError(f"a share of {count} GPUs", field="gpu_milli", value=milli, expected=whole)
    elif milli == 0 and memory_mib is None:
        some = f"1 to {WHOLE_GPU_MILLI}, or a share by gpu_memory_mib alone"
        raise InputError("asks for nothing of a GPU", field="gpu_milli", value=milli, expected=some)
    elif milli == WHOLE_GPU_MILLI and memory_mib is not None:
        empty = "an empty cell: a whole GPU comes with all of its memory"
        raise InputError(
            "a memory beside a whole GPU", field="gpu_memory_mib", value=memory_mib, expected=empty
        )
    return GpuRequest(count, milli, memory_mib, models)


def _refuse_without_gpu(column: str, value: object) -> None:
    if value:
        raise InputError(
            "asks something of GPUs while num_gpu is 0",
            field=column,
            value=value,
            expected="0 or nothing, or a number of GPUs in num_gpu",
        )


class _Turns(dict[tuple[str, ...], Turn]):
    """The turn of each distinct priority, queue and gang, by its cells."""

    def __missing__(self, cells: tuple[str, ...]) -> Turn:
        priority, queue, gang, least = cells
        if least and not gang:
            raise InputError(
                "a minimum without a gang", field="gang_min_members", value=least, expected="a gang"
            )
        turn = Turn(
            priority=_priority(priority),
            queue=QueueName(trace_cells.name(queue, "queue")) if queue else DEFAULT_QUEUE,
            gang=GangName(trace_cells.name(gang, "gang")) if gang else None,
            gang_min_members=_least_members(least),
        )
        self[cells] = turn
        return turn


def _priority(cell: str) -> int:
    if not cell:
        return 0
    return trace_cells.signed_number(cell, "priority", at_least=LOWEST_PRIORITY, at_most=HIGHEST_PRIORITY)


def _least_members(cell: str) -> int | None:
    return trace_cells.pod_count(cell, "gang_min_members", at_least=1) if cell else None
