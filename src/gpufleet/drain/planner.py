"""Plans a drain: the order of nodes, and for each gang whether it is waited for or where it moves.

Nodes go in waves of ``DrainRules.nodes_at_once``. The next wave is made of the nodes that cost least, unless
one has work that had better move soon (``choose``). Work moves to nodes that are drained already or not at
all, and to one that is drained later only where nothing else is free: so it moves once. Its places are found
before it is told to end, by ``Places``, which counts on all that was planned before. Work whose known end
comes before the deadline is waited for, and work without a place until others' ends make one.

``operator`` needs of it ``DrainPlan.nodes`` (the order), and for a node that is under way ``WorkPlan.at_s``
(until when to wait) and ``WorkPlan.moves`` (what to write into ``keys.MOVE_TO``). A plan is made anew
whenever something changed: what moved already runs elsewhere by then.
"""

import heapq
from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.drain.plan import SCHEMA, DrainPlan, Losses, NodePlan, PodMove, Shortage, Way, WorkPlan
from gpufleet.drain.question import MILLI_PER_GPU, US_PER_S, DrainNode, DrainQuestion, Places, RunningWork
from gpufleet.model.identifiers import NodeName, PodUid

TRIED_MAX = 8
"""Nodes whose work is tried elsewhere before a wave: a wave has to be found while a cluster is looked at."""

S_PER_HOUR = 3600
"""Losses are told in GPU-hours, as they are paid for."""


def plan_drain(
    question: DrainQuestion, places: Places, at: str = "", notes: tuple[str, ...] = ()
) -> DrainPlan:
    """The plan. ``at`` is its moment in words. Uses ``places`` up."""
    planning = _Planning(question, places)
    while planning.left:
        planning.next_wave()
    short = planning.shortage()
    lost = _sum(one.lost_gpu_hours for one in planning.nodes)
    return DrainPlan(SCHEMA, at, tuple(planning.nodes), tuple(planning.work), short, lost, notes)


def next_nodes(question: DrainQuestion, places: Places) -> tuple[NodeName, ...]:
    """The nodes that are best drained next, as many as may be closed at once. Changes nothing."""
    return tuple(node.name for node in _Planning(question, places).choose())


def gpu_hours(milli_us: float) -> float:
    """Thousandths of a GPU times microseconds, in GPU-hours."""
    return milli_us / (MILLI_PER_GPU * US_PER_S * S_PER_HOUR)


def _sum(losses: Iterable[Losses]) -> Losses:
    every = list(losses)
    return Losses(
        sum(one.evicted for one in every), sum(one.idle for one in every), sum(one.away for one in every)
    )


class _Planned(msgspec.Struct, frozen=True):
    """Work as it ran when its node was closed, and until when it holds its GPUs; None: longer than that.

    ``closed_nodes`` of its nodes were closed at that moment.
    """

    work: RunningWork
    plan: WorkPlan
    until_us: int | None
    closed_nodes: int


class _Planning:
    """The waves so far, at the moment at which the next one begins."""

    def __init__(self, question: DrainQuestion, places: Places) -> None:
        self.question = question
        self.rules = question.rules
        self.places = places
        self.at_us = question.now_us
        self.left = {node.name: node for node in question.nodes}
        self.work: list[WorkPlan] = []
        self.nodes: list[NodePlan] = []
        self._untils_us = {one.name: one.until_us for one in question.nodes if one.until_us is not None}
        self._closed: frozenset[NodeName] = frozenset()
        self._running = {one.name: one for one in question.work}
        self._on: dict[NodeName, dict[str, None]] = {}
        for one in question.work:
            self._come(one)
        self._ends = [(one.ends_at_us, one.name) for one in question.work if one.ends_at_us is not None]
        heapq.heapify(self._ends)
        self._without_place: list[tuple[RunningWork, int]] = []
        self._wave = 0
        self._wave_nodes: frozenset[NodeName] = frozenset()

    def _deadline_us(self, work: RunningWork) -> int:
        """Until when the end of some work is waited for: the earliest deadline of its nodes."""
        closed_us = (self._untils_us[name] for name in work.nodes & self._untils_us.keys())
        return min(closed_us, default=self.at_us + self.rules.deadline_s * US_PER_S)

    @property
    def _later(self) -> frozenset[NodeName]:
        """The nodes that are drained after those of this wave."""
        return self.question.later.union(self.left)

    def next_wave(self) -> None:
        """Close the next nodes and see to all work on them."""
        # Before the choice: work that has ended by now makes no node dear.
        self._let_end(self.at_us)
        wave = self.choose()
        for node in wave:
            del self.left[node.name]
        self._wave += 1
        names = self._wave_nodes = frozenset(node.name for node in wave)
        # Nodes that come back take work again when the next wave begins; others never do.
        self._closed = names if self.rules.away_s is not None else self._closed | names
        on_them = dict.fromkeys(name for node in wave for name in self._on.get(node.name, ()))
        # By name, so that equal clusters give equal plans.
        planned = self._see_to([self._running[name] for name in sorted(on_them)])
        self.work += [one.plan for one in planned]
        plans = [
            self._node_plan(node, [one for one in planned if node.name in one.work.nodes]) for node in wave
        ]
        self.nodes += plans
        ends = [self._deadline_us(one.work) if one.until_us is None else one.until_us for one in planned]
        self.at_us = max([self.at_us, *ends]) + (self.rules.away_s or 0) * US_PER_S

    def choose(self) -> list[DrainNode]:
        """The nodes of the next wave.

        Work that outlasts the rest of the drain loses more with each hour until it moves, so its node comes
        as soon as there are places for it that last. Where no end is known, work that has run for longer than
        the rest takes is expected to. The nodes that cost least come before and after: other work may end.
        """
        ranked = sorted(self.left.values(), key=self._cost)
        first = self._outlasting()
        first += [node for node in ranked if node not in first][: self.rules.nodes_at_once - len(first)]
        return sorted(first, key=lambda node: node.name)

    def _outlasting(self) -> list[DrainNode]:
        """The nodes that lose more if they wait for their turn than by moving now what might end until then.

        Those that lose most come first, as far as all of their work has places.
        """
        waves = -(-len(self.left) // self.rules.nodes_at_once)
        rest_us = waves * (self.rules.away_s or 0) * US_PER_S
        gain = dict.fromkeys(self.left, 0)
        for work in self._running.values():
            share = self._gain(work, rest_us)
            for name in work.nodes & self.left.keys():
                gain[name] += share
        dear = sorted((name for name in gain if gain[name] > 0), key=lambda name: (-gain[name], name))
        found = [self.left[name] for name in dear[:TRIED_MAX] if self._has_lasting_places(name)]
        return found[: self.rules.nodes_at_once]

    def _gain(self, work: RunningWork, rest_us: int) -> int:
        """What is saved if the work moves now and not at the end; below 0 if it will have ended by then."""
        # What stays or ends does not move, and what saves itself first loses nothing by a later move.
        if work.stays or work.is_ending or work.saves_on_request:
            return 0
        if work.ends_at_us is None:
            outlasts = work.saved_at_us is not None and work.saved_at_us < self.at_us - rest_us
        else:
            outlasts = work.ends_at_us > self.at_us + rest_us
        return work.gpu_milli * rest_us if outlasts else -work.lost_milli_us(self.at_us)

    def _has_lasting_places(self, node: NodeName) -> bool:
        """True if each work of a node could go to nodes that are not drained later."""
        works = [self._running[name] for name in self._on.get(node, ())]
        away = frozenset() if self.rules.away_s is not None else self._closed
        closed = self._later | away | {node}
        return all(
            self.places.has_room([pod.uid for pod in work.pods], closed)
            for work in works
            if not (work.is_placed_by_others or self._ends_in_time(work))
        )

    def _cost(self, node: DrainNode) -> tuple[int, int, str]:
        kept = lost = waited_us = busy = 0
        for name in self._on.get(node.name, ()):
            one = self._running[name]
            if self._ends_in_time(one):
                wait_us = max(0, (one.ends_at_us or 0) - self.at_us)
                waited_us, busy = max(waited_us, wait_us), busy + held_milli(one, node.name) * wait_us
                continue
            kept += bool(one.stays)
            restart = one.gpu_milli * self.rules.restart_s * US_PER_S
            # A gang moves once for all of its nodes that are left, so each of these bears a part.
            lost += (one.lost_milli_us(self.at_us) + restart) // len(one.nodes & self.left.keys())
        # Besides, GPUs of the node are idle until the last of its work has ended.
        return kept, lost + max(0, node.gpu_milli * waited_us - busy), node.name

    def _ends_in_time(self, work: RunningWork) -> bool:
        ends_us = work.ends_at_us
        return work.is_ending or (ends_us is not None and ends_us <= self._deadline_us(work))

    def _let_end(self, until_us: int) -> None:
        """What has ended by then leaves its room."""
        while self._ends and self._ends[0][0] <= until_us:
            self._end_next()

    def _end_next(self) -> int:
        """The next work whose end is known ends; the moment."""
        ends_at_us, name = heapq.heappop(self._ends)
        work = self._running.pop(name)
        self.places.leave(pod.uid for pod in work.pods)
        self._go(work)
        return ends_at_us

    def _come(self, work: RunningWork) -> None:
        for node in work.nodes:
            self._on.setdefault(node, {})[work.name] = None

    def _go(self, work: RunningWork) -> None:
        for node in work.nodes:
            self._on[node].pop(work.name, None)

    def _see_to(self, works: Sequence[RunningWork]) -> list[_Planned]:
        """What becomes of the work on the nodes that are closed now."""
        planned: list[_Planned] = []
        without: list[RunningWork] = []
        for work in works:
            if self._ends_in_time(work):
                planned.append(self._planned(work, Way.WAITS, max(work.ends_at_us or 0, self.at_us)))
            elif work.stays:
                planned.append(self._planned(work, Way.STAYS, None, why=work.stays))
            elif work.is_placed_by_others:
                planned.append(self._evicted(work))
            elif (found := self._place(work)) is None:
                without.append(work)
            else:
                planned.append(self._moved(work, found, self.at_us))
        return planned + self._find_later(without)

    def _find_later(self, without: Sequence[RunningWork]) -> list[_Planned]:
        """Work without a place moves when others' ends make one in time; otherwise it is short of GPUs."""
        planned: list[_Planned] = []
        deadlines_us = {work.name: self._deadline_us(work) for work in without}
        waiting = list(without)
        while waiting and self._ends and self._ends[0][0] <= max(deadlines_us[one.name] for one in waiting):
            ended_us = self._end_next()
            for work in list(waiting):
                found = self._place(work) if ended_us <= deadlines_us[work.name] else None
                if found is not None:
                    waiting.remove(work)
                    planned.append(self._moved(work, found, ended_us))
        self._without_place += [(work, deadlines_us[work.name]) for work in waiting]
        return planned + [self._planned(work, Way.NO_PLACE, None) for work in waiting]

    def _place(self, work: RunningWork) -> dict[PodUid, NodeName] | None:
        return self.places.place([pod.uid for pod in work.pods], self._closed, self._later)

    def _moved(self, work: RunningWork, found: dict[PodUid, NodeName], at_us: int) -> _Planned:
        """The work runs elsewhere from now on, and does anew what it did since its last checkpoint."""
        self._go(work)
        pods = tuple(msgspec.structs.replace(pod, node=found[pod.uid]) for pod in work.pods)
        # Its end moves back by what it does again, and is not counted on any more.
        after = msgspec.structs.replace(work, pods=pods, saved_at_us=at_us, ends_at_us=None)
        self._running[work.name] = after
        # Nothing can be taken out of the middle of a heap, so it is made anew.
        self._ends = [one for one in self._ends if one[1] != work.name]
        heapq.heapify(self._ends)
        self._come(after)
        return self._planned(
            work,
            Way.MOVES,
            at_us,
            moves=tuple(PodMove(pod.path, pod.uid, pod.node, found[pod.uid]) for pod in work.pods),
            is_asked_to_save=work.saves_on_request,
            lost_gpu_hours=gpu_hours(work.lost_milli_us(at_us)),
            again=any(node in self._later for node in found.values()),
        )

    def _evicted(self, work: RunningWork) -> _Planned:
        """Work of another scheduler goes, and where it comes back is not known here."""
        self.places.leave(pod.uid for pod in work.pods)
        self._go(work)
        del self._running[work.name]
        # Nothing can be taken out of the middle of a heap, so it is made anew.
        self._ends = [one for one in self._ends if one[1] != work.name]
        heapq.heapify(self._ends)
        lost = gpu_hours(work.lost_milli_us(self.at_us))
        moves = tuple(PodMove(pod.path, pod.uid, pod.node, "") for pod in work.pods)
        return self._planned(work, Way.EVICTED, self.at_us, moves=moves, lost_gpu_hours=lost)

    def _planned(
        self,
        work: RunningWork,
        way: Way,
        at_us: int | None,
        *,
        moves: tuple[PodMove, ...] = (),
        is_asked_to_save: bool = False,
        lost_gpu_hours: float = 0.0,
        again: bool = False,
        why: str = "",
    ) -> _Planned:
        at_s = None if at_us is None else self._second(at_us)
        gpus, nodes = work.gpu_milli / MILLI_PER_GPU, tuple(sorted(work.nodes))
        pods = tuple(pod.uid for pod in work.pods)
        plan = WorkPlan(
            work.name, way, gpus, nodes, at_s, moves, is_asked_to_save, lost_gpu_hours, again, why, pods
        )
        return _Planned(work, plan, at_us, len(work.nodes & self._wave_nodes))

    def _second(self, at_us: int) -> float:
        return (at_us - self.question.now_us) / US_PER_S

    def _node_plan(self, node: DrainNode, planned: Sequence[_Planned]) -> NodePlan:
        """What a node costs; what a gang loses is divided among those of its nodes that are closed now."""
        untils_us = [one.until_us for one in planned]
        is_emptied = None not in untils_us
        empty_us = max([self.at_us, *(one for one in untils_us if one is not None)])
        idle = 0
        if is_emptied:
            busy = sum(
                held_milli(one.work, node.name) * ((one.until_us or self.at_us) - self.at_us)
                for one in planned
            )
            idle = max(0, node.gpu_milli * (empty_us - self.at_us) - busy)
        lost = Losses(
            sum(one.plan.lost_gpu_hours / one.closed_nodes for one in planned),
            gpu_hours(idle),
            gpu_hours(node.gpu_milli * (self.rules.away_s or 0) * US_PER_S),
        )
        empty_s = self._second(empty_us) if is_emptied else None
        return NodePlan(node.name, self._wave, self._second(self.at_us), empty_s, lost)

    def shortage(self) -> Shortage | None:
        """How many GPUs are short if work without a place is ended at its deadline, and for how long.

        It starts again when its nodes are back, or when known ends make a place before.
        """
        if not self._without_place:
            return None
        away_us = None if self.rules.away_s is None else self.rules.away_s * US_PER_S
        longest_us: int | None = 0
        waiting = list(self._without_place)
        while waiting and self._ends:
            ended_us = self._end_next()
            for one in [one for one in waiting if self._place(one[0]) is not None]:
                waiting.remove(one)
                longest_us = max(longest_us or 0, _shorter(ended_us - one[1], away_us))
        if waiting:
            longest_us = away_us if away_us is None else max(longest_us or 0, away_us)
        milli = sum(work.gpu_milli for work, _ in self._without_place)
        return Shortage(milli / MILLI_PER_GPU, None if longest_us is None else longest_us / US_PER_S)


def held_milli(work: RunningWork, node: NodeName) -> int:
    """What work holds on a node, in thousandths of a GPU."""
    return sum(pod.gpu_milli for pod in work.pods if pod.node == node)


def _shorter(length_us: int, limit_us: int | None) -> int:
    return max(0, length_us if limit_us is None else min(length_us, limit_us))
