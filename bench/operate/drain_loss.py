"""GPU-hours that a rollout over all nodes of the openb trace loses: planned, and node by node.

Both play the trace in its own time on one engine, and begin when half of its tasks have arrived. One node at
a time is closed, emptied, away for ``AWAY_S``, and open again. Node by node means in the order of names, and
all pods of the node are evicted at once, as by ``kubectl drain``. Planned means ``drain.planner``: it chooses
the next node, and its pods move to places that the engine keeps (``MoveAsked``).

An evicted task begins anew at what it saved last. The trace says nothing of that, so there are four readings
(``Reading``). Where no task saves its work no way can lose less than what those had done at the beginning
that still run at the end, so that figure stands beside.
"""

import enum
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.figures import Figure, figure
from gpufleet.drain.plan import Way
from gpufleet.drain.planner import next_nodes, plan_drain
from gpufleet.drain.question import DrainNode, DrainQuestion, DrainRules, PodThere, RunningWork
from gpufleet.engine.event import Event, MoveAsked, NodeSet, PodAdded, PodBound, PodRemoved
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import BY_QUEUES, find_search
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod import Pod
from gpufleet.replay.saturate import pod_of
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.virtual_time.player import Player

OPENB = Path("data/openb")
US_PER_S, HOUR_US = 1_000_000, 3_600_000_000
AWAY_S = 900
"""A change of a driver with its check: the vendor's container builds for 3 to 5 minutes."""

END_US = 30 * US_PER_S
"""The grace in which pods end by default: a node that had work is away so much later."""

LOSS_MOST, LENGTH_MOST = 0.25, 1.10
"""Targets, of a drain node by node."""

NOTES = (f"drain: 1,213 nodes, one at a time, each away for {AWAY_S} s",)


class Reading(enum.Enum):
    """Which work an evicted task has not lost, and whether its end is known beforehand."""

    NOTHING = "no task saves its work"
    ENDS = "no task saves its work, ends are known"
    ON_REQUEST = "tasks of an hour save it when asked"
    HOURLY = "tasks save it every hour, and when asked"

    @property
    def saves_when_asked(self) -> bool:
        """Whether tasks that have run for an hour save their work when they are asked."""
        return self in {Reading.ON_REQUEST, Reading.HOURLY}


class Running(msgspec.Struct):
    """A task that runs: where, since when, and how much of it was done before."""

    task: TaskRecord
    node: NodeName
    since_us: int
    done_us: int

    def saved_us(self, at_us: int, reading: Reading) -> int:
        """When its work was saved last without being asked."""
        ran_us = at_us - self.since_us
        return self.since_us + (ran_us // HOUR_US * HOUR_US if reading is Reading.HOURLY else 0)


class Outcome(msgspec.Struct):
    """What a rollout cost."""

    lost_milli_us: int = 0
    waited_milli_us: int = 0
    evictions: int = 0
    length_us: int = 0
    by_task: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def most_of_one(self) -> int:
        """How often the task was evicted that was evicted most."""
        return max(self.by_task.values(), default=0)

    @property
    def lost_gpu_hours(self) -> float:
        """The work that ended with pods."""
        return self.lost_milli_us / 1000 / HOUR_US


class Play:
    """The trace on an engine, and a rollout through its nodes."""

    def __init__(self, trace: Trace, reading: Reading) -> None:
        self.reading = reading
        self.nodes = {node.name: node for node in trace.nodes}
        self.engine = Engine(find_policy("best-fit"), victims=find_search(BY_QUEUES))
        self.player = Player(self.engine, self)
        self.player.happen([NodeSet(node) for node in trace.nodes])
        self.tasks = {PodUid(task.name): task for task in trace.tasks}
        self.done_us: dict[PodUid, int] = {}
        self.waits_since_us: dict[PodUid, int] = {}
        self.running: dict[PodUid, Running] = {}
        self.outcome = Outcome()
        self._numbers = itertools.count()
        self._asked_to_save: set[PodUid] = set()
        arrivals = sorted(task.created_at_us for task in trace.tasks)
        self.begin_us = arrivals[len(arrivals) // 2]
        for turn, task in enumerate(trace.tasks_by_creation(), start=1):
            self.player.later(task.created_at_us, PodUid(task.name), turn)
        self.player.wait_until(self.begin_us)

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """A task arrives the first time that something is due for it, and ends the second time."""
        events: list[Event] = []
        for uid in uids:
            if uid in self.tasks and uid not in self.done_us:
                self.done_us[uid] = 0
                self.waits_since_us[uid] = self.player.at_us
                events.append(PodAdded(pod_of(self.tasks[uid])))
            elif self.running.pop(uid, None) is not None:
                events.append(PodRemoved(uid))
        return events

    def started(self, bind: Bind) -> Iterable[Event]:
        """A task runs until it has done all of its work."""
        task, at_us = self.tasks[bind.uid], self.player.at_us
        waited_us = at_us - self.waits_since_us.pop(bind.uid)
        if at_us > self.begin_us:
            self.outcome.waited_milli_us += waited_us * task.shape.gpu.total_milli
        self.running[bind.uid] = Running(task, bind.node, at_us, self.done_us[bind.uid])
        if task.duration_us is not None:
            self.player.later(at_us + max(0, task.duration_us - self.done_us[bind.uid]), bind.uid)
        return (PodBound(self.pod(bind.uid), bind.node, bind.devices, at_us),)

    def pod(self, uid: PodUid) -> Pod:
        """A task as a pod of this uid."""
        return msgspec.structs.replace(pod_of(self.tasks[uid]), uid=uid, name=self.tasks[uid].name)

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """A task ends, and its controller makes it anew, from what it saved last."""
        return self.end_and_make_anew(evict.uid)

    def end_and_make_anew(self, uid: PodUid) -> tuple[Event, ...]:
        """The pod is gone, and another one waits in its place."""
        at_us, ran = self.player.at_us, self.running.pop(uid)
        saved_us = at_us if uid in self._asked_to_save else ran.saved_us(at_us, self.reading)
        self.outcome.lost_milli_us += (at_us - saved_us) * ran.task.shape.gpu.total_milli
        self.outcome.evictions += 1
        self.outcome.by_task[ran.task.name] += 1
        again = PodUid(f"{ran.task.name}~{next(self._numbers)}")
        self.tasks[again] = ran.task
        self.done_us[again] = ran.done_us + saved_us - ran.since_us
        self.waits_since_us[again] = at_us
        return PodRemoved(uid), PodAdded(self.pod(again))

    def other_instruction(self, said: AnyInstruction) -> None:
        """What waits is counted when it starts."""

    def node_by_node(self) -> Outcome:
        """In the order of names, everything at once."""
        for name in sorted(self.nodes):
            self.close(name)
            there = [uid for uid, one in self.running.items() if one.node == name]
            self.player.happen([event for uid in there for event in self.end_and_make_anew(uid)])
            self.be_away(name, had_work=bool(there))
        return self.ended()

    def planned(self) -> Outcome:
        """The node that loses least is next, and its work moves to places that are kept."""
        left = set(self.nodes)
        while left:
            with self.engine.relocating() as places:
                (name,) = next_nodes(self.question(left, frozenset()), places)
            left.discard(name)
            self.close(name)
            with self.engine.relocating() as places:
                plan = plan_drain(self.question({name}, frozenset(left)), places)
            moving = [work for work in plan.work if work.way is Way.MOVES]
            self._asked_to_save = {PodUid(work.name) for work in moving if work.is_asked_to_save}
            moves = [move for work in moving for move in work.moves]
            self.player.happen([MoveAsked(PodUid(one.uid), NodeName(one.target)) for one in moves])
            stuck = [uid for uid, one in self.running.items() if one.node == name]
            # What has no place is evicted all the same, so that the rollout goes on.
            self.player.happen([event for uid in stuck for event in self.end_and_make_anew(uid)])
            self.be_away(name, had_work=bool(plan.work))
        return self.ended()

    def question(self, names: set[NodeName], later: frozenset[NodeName]) -> DrainQuestion:
        """The nodes, and the work as it runs now."""
        at_us = self.player.at_us
        nodes = tuple(DrainNode(name, 1000 * len(self.nodes[name].devices)) for name in sorted(names))
        work = tuple(self.as_work(uid, one, at_us) for uid, one in self.running.items())
        return DrainQuestion(at_us, nodes, work, DrainRules(away_s=AWAY_S), later)

    def as_work(self, uid: PodUid, one: Running, at_us: int) -> RunningWork:
        """A task as the planner knows it."""
        pods = (PodThere(uid, one.task.name, one.node, one.task.shape.gpu.total_milli),)
        saves = self.reading.saves_when_asked and at_us - one.since_us >= HOUR_US
        return RunningWork(uid, pods, self.end_us(uid), one.saved_us(at_us, self.reading), saves)

    def end_us(self, uid: PodUid) -> int | None:
        """When a task will have ended, where that is known beforehand."""
        one = self.running[uid]
        if self.reading is not Reading.ENDS or one.task.duration_us is None:
            return None
        return one.since_us + one.task.duration_us - one.done_us

    def least_lost(self, length_us: int) -> float:
        """What tasks have done by now that will still run so much later, in GPU-hours."""
        at_us, found = self.player.at_us, 0
        for one in self.running.values():
            left_us = None if one.task.duration_us is None else one.since_us + one.task.duration_us - at_us
            if left_us is None or left_us > length_us:
                found += (at_us - one.since_us) * one.task.shape.gpu.total_milli
        return found / 1000 / HOUR_US

    def close(self, name: NodeName) -> None:
        """The node takes nothing new."""
        self.player.happen([NodeSet(msgspec.structs.replace(self.nodes[name], unschedulable=True))])

    def be_away(self, name: NodeName, *, had_work: bool) -> None:
        """The node is changed, and takes work again."""
        self.player.wait_until(self.player.at_us + AWAY_S * US_PER_S + (END_US if had_work else 0))
        self.player.happen([NodeSet(self.nodes[name])])

    def ended(self) -> Outcome:
        """The rollout is over."""
        self.outcome.length_us = self.player.at_us - self.begin_us
        return self.outcome


def figures() -> list[Figure]:
    """All readings, each judged against a drain node by node of the same trace."""
    trace = read_trace(OPENB / "openb_node_list_gpu_node.csv", OPENB / "openb_pod_list_default.csv")
    found: list[Figure] = []
    for reading in Reading:
        plain, play = Play(trace, reading).node_by_node(), Play(trace, reading)
        least = play.least_lost(plain.length_us)
        planned = play.planned()
        share = planned.lost_milli_us / plain.lost_milli_us
        longer = planned.length_us / plain.length_us

        def row(
            name: str, value: float, unit: str, target: float | None = None, *, words: str = reading.value
        ) -> Figure:
            return figure(f"drain, {words}: {name}", value, unit, "lower", target)

        found += [
            row("lost node by node", plain.lost_gpu_hours, "GPU-hours"),
            row("lost by plan", planned.lost_gpu_hours, "GPU-hours"),
            row("share of node by node", share, "x", LOSS_MOST),
            row("length of node by node", longer, "x", LENGTH_MOST),
            row("evictions node by node", plain.evictions, "pods"),
            row("evictions by plan", planned.evictions, "pods"),
            row("most evictions of one task by plan", planned.most_of_one, "pods"),
        ]
        if not reading.saves_when_asked:
            found.append(row("least that any way loses", least, "GPU-hours"))
    return found
