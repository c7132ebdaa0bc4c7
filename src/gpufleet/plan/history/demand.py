"""The work of a history, and the fleet that is there, in the names of the catalogue's GPU models.

A trace names models in its own way. Nodes that are bought have the catalogue's names, so tasks and nodes of
the trace get them too, or a task would find no new node.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from gpufleet.model import gpu_model
from gpufleet.model.device import UNKNOWN_MODEL
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.shape import Shape
from gpufleet.plan.instance_types import InstanceType
from gpufleet.replay.trace import Trace
from gpufleet.replay.trace_nodes import read_nodes
from gpufleet.replay.trace_tasks import TaskRecord, read_tasks

HISTORY = "--history"


class Demand(msgspec.Struct, frozen=True):
    """Tasks with their times, and their gangs.

    Waits count of tasks that were asked for at ``counts_from_us`` or later: what came before is there so that
    the fleet is not empty then. ``source`` says where the work is from.
    """

    tasks: tuple[TaskRecord, ...]
    gangs: tuple[Gang, ...] = ()
    counts_from_us: int = 0
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def counting(self) -> tuple[TaskRecord, ...]:
        """The tasks whose waits count."""
        return tuple(task for task in self.tasks if task.created_at_us >= self.counts_from_us)

    def without(self, shapes: frozenset[Shape]) -> "Demand":
        """The work without tasks of these shapes, and without gangs that have such a member."""
        broken = {task.gang for task in self.tasks if task.gang is not None and task.shape in shapes}
        tasks = tuple(
            task for task in self.tasks if task.shape not in shapes and (task.gang or "") not in broken
        )
        gangs = tuple(gang for gang in self.gangs if gang.name not in broken)
        return msgspec.structs.replace(self, tasks=tasks, gangs=gangs)

    def on(self, nodes: Sequence[Node]) -> Trace:
        """The work beside a fleet, as a replay takes it."""
        return Trace(tuple(nodes), self.tasks, self.gangs, timed=True)


def read_history(history: Path, types: Sequence[InstanceType], nodes: Sequence[Node]) -> Demand:
    """The tasks of a trace. Raises InputError and TraceError."""
    models = {one.gpu_model for one in types} | {
        str(device.model) for node in nodes for device in node.devices if device.model
    }
    found = read_tasks(history, models)
    if not found.timed:
        expected = "a column creation_time: waits pass in time"
        raise InputError("has no times", field=HISTORY, value=str(history), expected=expected)
    if not any(task.shape.gpu.count for task in found.tasks):
        expected = "at least one task with GPUs"
        raise InputError("asks for no GPU", field=HISTORY, value=str(history), expected=expected)
    named = _Names()
    tasks = tuple(msgspec.structs.replace(task, shape=named.shape(task.shape)) for task in found.tasks)
    return Demand(tasks, found.gangs, source=history.name, notes=found.notes)


def with_catalogue_names() -> Callable[[Shape], Shape]:
    """Shapes as they are, in the catalogue's names of GPU models; equal ones are one object."""
    return _Names().shape


def named_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Nodes as they are, in the catalogue's names of GPU models."""
    return tuple(map(_Names().node, nodes))


def read_fleet(path: Path | None) -> tuple[Node, ...]:
    """The nodes that are there; none without a list. Raises InputError and TraceError."""
    if path is None:
        return ()
    return named_nodes(read_nodes(path).nodes)


class _Names:
    """The catalogue's names of models; a model that it does not know keeps the name that it has."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, Shape] = {}

    def node(self, node: Node) -> Node:
        devices = tuple(
            msgspec.structs.replace(device, model=_catalogue_name(device.model)) for device in node.devices
        )
        return msgspec.structs.replace(node, devices=devices)

    def shape(self, shape: Shape) -> Shape:
        """Equal shapes stay one object, by which the engine finds them."""
        found = self._shapes.get(shape)
        if found is None:
            models = tuple(dict.fromkeys(_catalogue_name(one) for one in shape.gpu.models))
            gpu = msgspec.structs.replace(shape.gpu, models=models)
            found = self._shapes[shape] = msgspec.structs.replace(shape, gpu=gpu)
        return found


def _catalogue_name(name: GpuModelName) -> GpuModelName:
    known = None if name == UNKNOWN_MODEL else gpu_model.find(name)
    return name if known is None else GpuModelName(known.name)
