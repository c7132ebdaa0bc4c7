"""A recorded fleet and what it was asked to run: a node list and a task list, read together.

The task list may name only GPU models that the node list has or the catalogue knows, so the
node list comes first. The replay's runner feeds these values to the engine; ``data_files``
finds the lists that come with gpufleet.
"""

import os

import msgspec

from gpufleet.model.gang import Gang
from gpufleet.model.node import Node
from gpufleet.replay.results import SkippedRow
from gpufleet.replay.trace_nodes import read_nodes
from gpufleet.replay.trace_tasks import TaskRecord, read_tasks


class Trace(msgspec.Struct, frozen=True):
    """Nodes and tasks in the order of their files, and what the reading left out.

    ``timed`` is False if the task list does not say when tasks were created. ``notes`` are for
    people: columns that were not understood and did no harm.
    """

    nodes: tuple[Node, ...]
    tasks: tuple[TaskRecord, ...]
    gangs: tuple[Gang, ...] = ()
    timed: bool = False
    skipped: tuple[SkippedRow, ...] = ()
    notes: tuple[str, ...] = ()

    def tasks_by_creation(self) -> tuple[TaskRecord, ...]:
        """The tasks by time of creation; equal times keep the order of the file."""
        return tuple(sorted(self.tasks, key=lambda task: task.created_at_us))


def read_trace(
    nodes_path: str | os.PathLike[str],
    tasks_path: str | os.PathLike[str],
    *,
    skip_bad_rows_pct: float = 0.0,
) -> Trace:
    """Reads both lists; of each, up to ``skip_bad_rows_pct`` percent of the rows may be bad."""
    nodes = read_nodes(nodes_path, skip_bad_rows_pct=skip_bad_rows_pct)
    models = {device.model for node in nodes.nodes for device in node.devices if device.model}
    tasks = read_tasks(tasks_path, models, skip_bad_rows_pct=skip_bad_rows_pct)
    return Trace(
        nodes=nodes.nodes,
        tasks=tasks.tasks,
        gangs=tasks.gangs,
        timed=tasks.timed,
        skipped=nodes.skipped + tasks.skipped,
        notes=nodes.notes + tasks.notes,
    )
