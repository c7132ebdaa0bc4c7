"""The published protocol: work arrives until the fleet is full, is placed or fails at once, and
never leaves.

Time is the number of the arrival. A unit that is refused is taken back before the next one comes,
so it is never tried again.
"""

from collections.abc import Callable, Iterable, Sequence

from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.event import Event, GangRemoved, GangSet, PodAdded, PodRemoved
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, GangUnschedulable, Unschedulable
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from gpufleet.replay.arrivals import ArrivalUnit
from gpufleet.replay.csv_export import Placement
from gpufleet.replay.fragmentation_meter import FragmentationMeter
from gpufleet.replay.measured_engine import MeasuredEngine
from gpufleet.replay.tally import ITS_GANG, Tally, cause
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.virtual_time.player import Player


class SaturateRun:
    """Feeds units to an engine one by one."""

    def __init__(self, measured: MeasuredEngine, meter: FragmentationMeter, tally: Tally) -> None:
        self.measured = measured
        self.meter = meter
        self.tally = tally
        self.placements: list[Placement] = []
        self._rows = measured.engine.state.fleet.row_by_name
        self._player = Player(measured, self)
        self._binds: dict[PodUid, Bind] = {}
        self._instructions: list[AnyInstruction] = []

    def run(self, units: Sequence[ArrivalUnit], progress: Callable[[int], None] | None = None) -> None:
        """Let all units arrive; ``progress`` hears how many have, every thousand."""
        undo: tuple[Event, ...] = ()
        for number, unit in enumerate(units, start=1):
            self._player.wait_until(number)
            self._player.happen(undo + events_of(unit))
            undo = self._settle(unit, number)
            self._binds.clear()
            self._instructions.clear()
            if progress is not None and number % 1000 == 0:
                progress(number)

    def started(self, bind: Bind) -> Iterable[Event]:
        """A task has its place. The bind is not confirmed, because nothing here ever leaves its place."""
        self._binds[bind.uid] = bind
        return ()

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """A trace describes no queues, and here only work of queues evicts."""
        raise BrokenInvariantError(f"a replay has no queues, but {evict.uid} was evicted")

    def other_instruction(self, said: AnyInstruction) -> None:
        """What the engine says of a unit that it refused."""
        self._instructions.append(said)

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """Nothing is ever due: what is placed stays."""
        raise BrokenInvariantError(f"nothing leaves here, but {uids} are due")

    def _settle(self, unit: ArrivalUnit, number: int) -> tuple[Event, ...]:
        """Count what came of a unit; the events that take back what was refused."""
        undo: list[Event] = []
        for task in unit.tasks:
            bind = self._binds.get(PodUid(task.name))
            if bind is not None:
                self.meter.measure(self._rows[bind.node])
                self.tally.count(task.shape.gpu, None, self.meter.fragmented)
                self.placements.append(placement_of(task, bind, number))
                continue
            reason = self._refusal(task)
            self.tally.count(task.shape.gpu, reason, self.meter.fragmented)
            self.placements.append(Placement(task.name, None, at_us=number, reason=reason))
            undo.append(PodRemoved(PodUid(task.name)))
        if unit.gang is not None and not self._binds:
            undo.append(GangRemoved(unit.gang.name))
        return tuple(undo)

    def _refusal(self, task: TaskRecord) -> str:
        """The cause of a refusal: as the engine told it, else as it explains it when asked."""
        for one in self._instructions:
            if isinstance(one, GangUnschedulable) and one.placeable and not self._binds:
                # Some of its members would find a node, and none starts. A member that is left over when
                # its gang has started lacks what the verdict says.
                return ITS_GANG
            if isinstance(one, Unschedulable | GangUnschedulable) and one.verdict is not None:
                return cause(one.verdict)
        verdict = self.measured.engine.explain(PodUid(task.name))
        return ITS_GANG if verdict is None else cause(verdict)


def events_of(unit: ArrivalUnit) -> tuple[Event, ...]:
    """A unit's arrival as events."""
    pods = tuple(PodAdded(pod_of(task)) for task in unit.tasks)
    return pods if unit.gang is None else (GangSet(unit.gang), *pods)


def pod_of(task: TaskRecord) -> Pod:
    """A task as a pod."""
    return Pod(
        uid=PodUid(task.name),
        shape=task.shape,
        queue=task.queue,
        priority=task.priority,
        gang=task.gang,
        created_at_us=task.created_at_us,
    )


def placement_of(task: TaskRecord, bind: Bind, at_us: int) -> Placement:
    """Where a task went, for the table of placements."""
    return Placement(task.name, bind.node, bind.devices, task.shape.gpu.gpu_milli, at_us)
