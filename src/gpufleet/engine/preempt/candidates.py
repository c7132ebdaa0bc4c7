"""Which pods may be evicted for a workload, and what each eviction would cost.

Never a pod that is nominated or was placed in this very step, that is not preemptible, whose eviction was
refused a moment ago, that has not run for its minimum time, or that a disruption budget keeps. Of gangs,
first the members above the minimum may go, one by one, then only the whole gang. Single pods are found in
one compiled pass over all pods and stay columns; what is looked at more closely becomes a ``Unit``.

Work on spot nodes goes before its equals elsewhere: its provider may end it anyway. For a workload that is
itself never evicted it is the other way round, because it takes the places of its victims.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import eviction_columns, layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.reach import Rank, Reach, reach_within
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.queue import Queue, VictimScope

ASSUMED, BOUND = int(PodState.ASSUMED), int(PodState.BOUND)
SECOND_US = 1_000_000
TRY_AGAIN_US = 1_000_000
"""When to look again at pods that were placed in this very step."""
NEVER = 1 << 62
"""Later than any engine time."""
NO_ROWS: frozenset[int] = frozenset()
NOT_HERE = -1
"""The least run time of a queue whose pods are no candidates."""


class Unit(NamedTuple):
    """Pods that are evicted together or not at all.

    ``lost`` is the work that ends with them, in GPU-milliseconds, counted from the last checkpoint.
    ``whole`` is set for a whole gang. ``spared`` counts the pods before which equals on other nodes go.
    """

    priority: int
    whole: bool
    lost: int
    rows: tuple[int, ...]
    spared: int = 0

    @property
    def cost(self) -> tuple[int, bool, int, int, int, tuple[int, ...]]:
        """Cheaper units go first: low priority, pods before gangs, few, few that are spared, little lost."""
        return (self.priority, self.whole, len(self.rows), self.spared, self.lost, self.rows)


class Singles(NamedTuple):
    """Pods that may be evicted one by one, members above the minimum of their gang among them, as columns.

    ``right`` ranks what their queues have a right to; the pods of the least go first. ``spared`` is 1 where
    equals on other nodes go first.
    """

    rows: Int64Array
    priority: Int64Array
    lost: Int64Array
    right: Int64Array
    spared: Int64Array

    def units(self, places: Int64Array | None = None) -> list[Unit]:
        """These, or those at some places, in the order in which they go."""
        some = self if places is None else Singles(*(column[places] for column in self))
        order = np.lexsort((some.rows, some.lost, some.spared, some.priority, some.right))
        columns = zip(*(column[order].tolist() for column in some), strict=True)
        return [Unit(priority, False, lost, (row,), spared) for row, priority, lost, _, spared in columns]


NO_SINGLES = Singles(*np.zeros((5, 0), np.int64))


class Candidates:
    """Units that may be evicted.

    ``gangs`` are whole gangs, the cheapest first. ``again_at_us`` is when more may be evicted.
    """

    def __init__(self, singles: Singles, gangs: list[Unit], again_at_us: int | None = None) -> None:
        self.singles = singles
        self.gangs = gangs
        self.again_at_us = again_at_us

    @cached_property
    def alone(self) -> list[Unit]:
        """Single pods, the cheapest first."""
        return self.singles.units()

    @property
    def any(self) -> bool:
        """True if there is any candidate."""
        return bool(len(self.singles.rows) or self.gangs)

    def in_order(self) -> list[Unit]:
        """All units, cheaper ones first."""
        return sorted(self.alone + self.gangs, key=lambda unit: unit.cost)

    def joined(self, others: "Candidates") -> "Candidates":
        """These, and then others."""
        behind = others.singles._replace(right=others.singles.right + len(self.singles.rows) + 1)
        columns = zip(self.singles, behind, strict=True)
        return Candidates(Singles(*map(np.concatenate, columns)), self.gangs + others.gangs)


class Gathering:
    """Gathers candidates at one moment.

    ``rights`` ranks what queues have a right to; work of the queue with the least goes first. ``rank`` is
    that of the workload for which they are gathered.
    """

    def __init__(self, state: EngineState, at_us: int, rights: dict[QueueName, int], rank: Rank) -> None:
        self.state = state
        self.at_us = at_us
        self.rights = rights
        self.rank = rank
        self.again_at_us = NEVER
        self._singles: list[Singles] = []
        self._gangs: list[tuple[int, Unit]] = []

    def add_single(
        self, least_run_us: dict[QueueName, int], reaches: Sequence[Reach], held: frozenset[int] = NO_ROWS
    ) -> None:
        """Pods of no gang in these queues, each with its least run time, that one of these reaches, but not
        those ``held``.
        """
        state = self.state
        cells = state.pods.eviction_columns.cells
        by_code, rights = np.full((2, max(1, state.pods.eviction_columns.codes)), NOT_HERE, np.int64)
        for name, least_us in least_run_us.items():
            code = state.pods.eviction_columns.code(name)
            if code != layout.NOT_SET:
                by_code[code] = least_us
                rights[code] = self.rights.get(name, 0)
        rows, lost = np.empty((2, len(state.pods.pods)), np.int64)
        wanted = np.array(reaches, np.int64)
        count, again_at_us = single_candidates(
            state.store.tables, cells, by_code, wanted, self.at_us, rows, lost
        )
        self.again_at_us = min(self.again_at_us, again_at_us)
        rows, lost = rows[:count], lost[:count]
        if state.budgets.any_is_known:
            pods = map(state.pods.pod_at, rows.tolist())
            may_go = np.array([not state.budgets.forbids(pod) for pod in pods], np.bool_)
            rows, lost = rows[may_go], lost[may_go]
        if held:
            others = np.isin(rows, np.fromiter(held, np.int64, len(held)), invert=True)
            rows, lost = rows[others], lost[others]
        right = rights[cells[eviction_columns.QUEUE, rows]]
        self._singles.append(
            Singles(rows, cells[eviction_columns.PRIORITY, rows], lost, right, self._spared(rows))
        )

    def add_gang(self, members: Members, least_run_us: int) -> None:
        """The members of a gang above its minimum one by one, and the gang as a whole."""
        state = self.state
        if members.gang is None:
            return
        pods = state.pods
        staying = list(members.placed)
        on_nodes = [row for row in staying if pods.node_row(row) is not None]
        may_end = [row for row in on_nodes if self._may_end(row, least_run_us)]
        priority, right = members.gang.priority, self.rights.get(members.gang.queue, 0)
        may_end_alone = may_end
        queue = state.waiting.queues.get(members.gang.queue)
        if queue is not None and queue.preemption.elastic_after_us is not None:
            least_alone_us = queue.preemption.elastic_after_us
            may_end_alone = [row for row in on_nodes if self._may_end(row, least_alone_us)]
        surplus = list(self._spare(members, staying, may_end_alone))
        if surplus:
            lost = np.array([self._lost(row) for row in surplus], np.int64)
            rows = np.array(surplus, np.int64)
            alike = Singles(rows, *(np.full_like(rows, one) for one in (priority, 0, right, 0)))
            self._singles.append(alike._replace(lost=lost, spared=self._spared(rows)))
        allowed = state.budgets.allow(map(pods.pod_at, may_end))
        if may_end and len(may_end) == len(staying) and allowed:
            lost_together = sum(map(self._lost, may_end))
            spared = int(self._spared(np.array(may_end, np.int64)).sum())
            self._gangs.append((right, Unit(priority, True, lost_together, tuple(may_end), spared)))

    def _spared(self, rows: Int64Array) -> Int64Array:
        """For each of these pods 1 if equals on other nodes go first; 0 for all where no node is spot."""
        fleet = self.state.fleet
        if not fleet.spot_nodes:
            return np.zeros_like(rows)
        is_spot = fleet.spot[self.state.store.tables.pods[layout.POD_NODE, rows]]
        return np.asarray(is_spot == self.rank.is_protected, np.int64)

    def candidates(self) -> Candidates:
        """All candidates that were gathered."""
        singles = self._singles[0] if self._singles else NO_SINGLES
        if len(self._singles) > 1:
            singles = Singles(*map(np.concatenate, zip(*self._singles, strict=True)))
        again_at_us = None if self.again_at_us == NEVER else self.again_at_us
        gangs = sorted(self._gangs, key=lambda one: (one[0], one[1].cost))
        return Candidates(singles, [unit for _, unit in gangs], again_at_us)

    def _may_end(self, row: int, least_run_us: int) -> bool:
        """True if a pod may be evicted as far as itself is concerned."""
        state = self.state
        pod = state.pods.pod_at(row)
        if not pod.makes_room or state.departures.is_departing(pod.uid):
            return False
        if pod.uid in state.departures.refused_until_us or state.budgets.forbids(pod):
            return False
        if row in state.placed_in_step:
            self.again_at_us = min(self.again_at_us, self.at_us + TRY_AGAIN_US)
            return False
        may_at_us = state.pods.started_at_us.get(row, self.at_us) + least_run_us
        if least_run_us and may_at_us > self.at_us:
            self.again_at_us = min(self.again_at_us, may_at_us)
            return False
        return True

    def _lost(self, row: int) -> int:
        """The work that would be lost with a pod, in GPU-milliseconds."""
        pods = self.state.pods
        return int(work_lost(self.state.store.tables, pods.eviction_columns.cells, row, self.at_us))

    def _spare(self, members: Members, staying: list[int], may_end: list[int]) -> Iterator[int]:
        """Members that may end, one after the other, without the gang losing its minimum.

        Those on nodes that are spared less come first, then those that would lose the least work.
        """
        if members.gang is None:
            return
        surplus = len(staying) - members.gang.min_members
        roles = [members.placed[row] for row in staying]
        surplus_by_role = {role: roles.count(role) - least for role, least in members.gang.role_minimums}
        spared = dict(zip(may_end, self._spared(np.array(may_end, np.int64)).tolist(), strict=True))
        for row in sorted(may_end, key=lambda row: (spared[row], self._lost(row), row)):
            role = members.placed[row]
            if surplus <= 0:
                return
            if surplus_by_role.get(role, 1) <= 0:
                continue
            surplus -= 1
            if role in surplus_by_role:
                surplus_by_role[role] -= 1
            yield row


def within_queue(state: EngineState, rank: Rank, queue: Queue, at_us: int) -> Candidates:
    """What a workload may evict in its own queue."""
    policy = queue.preemption
    if policy.within_queue is VictimScope.NEVER:
        return Candidates(NO_SINGLES, [])
    reached = reach_within(policy.within_queue, rank)
    return reached_in(state, rank, reached, {rank.queue: policy.preempt_after_us}, at_us)


def outside_of_queues(state: EngineState, rank: Rank, at_us: int) -> Candidates:
    """What a workload may evict outside of every queue: work of lower priority.

    While no queue is described, the queues that pods name tell no pods apart.
    """
    names = [DEFAULT_QUEUE] if state.waiting.queues else state.pods.eviction_columns.queues
    reached = reach_within(VictimScope.LOWER_PRIORITY, rank)
    return reached_in(state, rank, reached, dict.fromkeys(names, 0), at_us)


def reached_in(
    state: EngineState, rank: Rank, reached: Reach, least_run_us: dict[QueueName, int], at_us: int
) -> Candidates:
    """The work that is reached in these queues, each with its least run time."""
    gathering = Gathering(state, at_us, {}, rank)
    gathering.add_single(least_run_us, [reached])
    for members in gangs_that_run(state):
        gang = members.gang
        if gang is not None and gang.queue in least_run_us:
            if reached.holds(gang.priority, gang.created_at_us):
                gathering.add_gang(members, least_run_us[gang.queue])
    return gathering.candidates()


def gangs_that_run(state: EngineState) -> Iterable[Members]:
    """Gangs that are described and have pods that run."""
    return (members for members in state.gangs.by_name.values() if members.placed)


def is_in_scope(policy: VictimScope, rank: Rank, priority: int, created_at_us: int) -> bool:
    """True if a policy within a queue lets a workload of this rank evict one of that priority and age."""
    return reach_within(policy, rank).holds(priority, created_at_us)


@leaf
def work_lost_with(tables: Tables, cells: Int64Array, pod: int, at_us: int) -> int:
    """The work that would be lost with a pod, in GPU-milliseconds; a pod without a GPU counts as one
    thousandth of one.
    """
    since_us = cells[eviction_columns.STARTED_AT_US, pod]
    if since_us == eviction_columns.UNKNOWN:
        since_us = at_us
    run_us = at_us - max(since_us, cells[eviction_columns.CHECKPOINTED_AT_US, pod])
    if run_us <= 0:
        return 0
    shape = tables.pods[layout.POD_SHAPE, pod]
    milli = tables.shapes[layout.SHAPE_GPU_COUNT, shape] * tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    milli = max(1, milli + cells[eviction_columns.PARTS_MILLI, pod])
    # Second by second, so that years of a large node stay within 64 bits.
    return int(run_us // SECOND_US * milli + run_us % SECOND_US * milli // SECOND_US)


@kernel
def work_lost(tables: Tables, cells: Int64Array, pod: int, at_us: int) -> int:
    """``work_lost_with``, to be called from Python."""
    return work_lost_with(tables, cells, pod, at_us)


@kernel
def single_candidates(
    tables: Tables,
    cells: Int64Array,
    least_run_us: Int64Array,
    reaches: Int64Array,
    at_us: int,
    rows: Int64Array,
    lost: Int64Array,
) -> tuple[int, int]:
    """Gather pods of no gang into ``rows``, and what would be lost with each; (how many, when to look again).

    ``least_run_us`` has for each number of a queue how long its pods must have run, ``reaches`` the
    fields of each ``Reach``.
    """
    count, again_at_us = 0, NEVER
    for pod in range(len(rows)):
        state = tables.pods[layout.POD_STATE, pod]
        if state not in (ASSUMED, BOUND) or tables.pods[layout.POD_NODE, pod] == layout.NOT_SET:
            continue
        if cells[eviction_columns.ALONE, pod] == 0 or cells[eviction_columns.LEAVING, pod] == 1:
            continue
        least_us = least_run_us[cells[eviction_columns.QUEUE, pod]]
        if least_us == NOT_HERE or cells[eviction_columns.REFUSED, pod] == 1:
            continue
        priority, reached = cells[eviction_columns.PRIORITY, pod], False
        for number in range(reaches.shape[0]):
            newer = (
                priority == reaches[number, 1]
                and cells[eviction_columns.CREATED_AT_US, pod] > reaches[number, 2]
            )
            if (priority < reaches[number, 0] or newer) and priority <= reaches[number, 3]:
                reached = True
        if not reached:
            continue
        if cells[eviction_columns.PLACED_IN_STEP, pod] == 1:
            again_at_us = min(again_at_us, at_us + TRY_AGAIN_US)
            continue
        started_at_us = cells[eviction_columns.STARTED_AT_US, pod]
        if started_at_us == eviction_columns.UNKNOWN:
            started_at_us = at_us
        if least_us > 0 and started_at_us + least_us > at_us:
            again_at_us = min(again_at_us, started_at_us + least_us)
            continue
        rows[count] = pod
        lost[count] = work_lost_with(tables, cells, pod, at_us)
        count += 1
    return count, again_at_us
