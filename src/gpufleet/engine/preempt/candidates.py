"""Which pods may be evicted for a workload, and what each eviction would cost.

Never a pod that is nominated or was placed in this very step, that is not preemptible, whose eviction was
refused a moment ago, that has not run for its minimum time, or that a disruption budget keeps. Of gangs,
first the members above the minimum may go, one by one, then only the whole gang. Which members these are
is decided with the set of victims: each is a candidate, and ``Surplus`` says how many may go together.
Single pods are found in one compiled pass over all pods and stay columns; what is looked at more closely
becomes a ``Unit``. ``cost_of`` is the one order in which sets of victims are compared.

Work on spot nodes goes before its equals elsewhere: its provider may end it anyway. For a workload that is
itself never evicted it is the other way round, because it takes the places of its victims.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import eviction_columns, layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.evictable_work import EvictableWork, Rank, evictable_within_queue
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
LOST_STEP = 900 * 1000
"""Work lost counts by the quarter of a GPU hour, in GPU-milliseconds: less decides nothing before spot
nodes, rights and priorities do."""
STEPS_A_POD = 4
"""A pod of a gang's victims counts as much as so many steps of work lost: one GPU hour, about what it costs
to start it again."""
LOWEST = -(1 << 62)
"""Below every priority of a queue: that of the own queue, and of queues that are not described."""


class Unit(NamedTuple):
    """Pods that are evicted together or not at all.

    ``lost`` is the work that ends with them, in GPU-milliseconds, counted from the last checkpoint.
    ``whole`` is set for a whole gang. ``spared`` counts the pods before which equals on other nodes go.
    ``right`` ranks what their queue has a right to. ``gang`` is the number of the gang whose ``Surplus``
    bounds how many such units go together. ``order`` decides between equals (``eviction_columns``).
    """

    priority: int
    whole: bool
    lost: int
    rows: tuple[int, ...]
    spared: int = 0
    right: int = 0
    queue_priority: int = LOWEST
    gang: int = layout.NOT_SET
    order: int = 0

    @property
    def cost(self) -> tuple[int, bool, int, int, int, int, int, int, tuple[int, ...]]:
        """Cheaper units go first, by the fields of ``cost_of``."""
        pods = len(self.rows)
        return (
            *(self.queue_priority, self.whole, self.priority, pods),
            *(self.spared, self.right, self.lost, self.order, self.rows),
        )

    @property
    def pods_and_lost(self) -> int:
        """What the pods and the work lost with them count together, in steps of work lost."""
        return STEPS_A_POD * len(self.rows) + self.lost // LOST_STEP


Cost = tuple[int, int, int, int, int, int, int, int]


def cost_of(units: Sequence[Unit], *, for_gang: bool) -> Cost:
    """What a set costs; the cheapest goes.

    In this order: the highest priority of a queue, how many gangs are broken, the highest priority of a
    pod, how many pods, how many of them are spared, the highest right of a queue, the sum of priorities,
    and the work lost. For a gang, pods and work lost count together instead of the pods alone: its victims
    are many, and a few large ones that have run for long lose more than many small ones.
    """
    return (
        max(unit.queue_priority for unit in units),
        sum(unit.whole for unit in units),
        max(unit.priority for unit in units),
        sum(unit.pods_and_lost if for_gang else len(unit.rows) for unit in units),
        sum(unit.spared for unit in units),
        max(unit.right for unit in units),
        sum(unit.priority * len(unit.rows) for unit in units),
        sum(unit.lost for unit in units),
    )


class Surplus(NamedTuple):
    """How many members of a gang may go one by one: of all, and of each role with a minimum of its own."""

    members: int
    by_role: dict[str, int]
    role_of: dict[int, str]

    def allows(self, rows: Iterable[int]) -> bool:
        """True if the gang keeps its minimums without these members."""
        roles = Counter(self.role_of[row] for row in rows)
        if roles.total() > self.members:
            return False
        return all(count <= self.by_role.get(role, count) for role, count in roles.items())


class Singles(NamedTuple):
    """Pods that may be evicted one by one, members of gangs above their minimum among them, as columns.

    ``right`` ranks what their queues have a right to, ``queue_priority`` is the priority of the side (see
    ``reclaim``) that their queue is on. ``spared`` is 1 where equals on other nodes go first. ``gang`` is the
    number of a gang with a ``Surplus``, ``order`` decides between equals.
    """

    rows: Int64Array
    priority: Int64Array
    lost: Int64Array
    right: Int64Array
    spared: Int64Array
    queue_priority: Int64Array
    gang: Int64Array
    order: Int64Array

    def units(self, places: Int64Array | None = None) -> list[Unit]:
        """These, or those at some places, in the order in which they go."""
        some = self if places is None else self.at(places)
        order = np.lexsort(
            (some.rows, some.order, some.lost, some.right, some.spared, some.priority, some.queue_priority)
        )
        columns = zip(*(column[order].tolist() for column in some), strict=True)
        return [
            Unit(priority, False, lost, (row,), spared, right, of_queue, gang, at)
            for row, priority, lost, right, spared, of_queue, gang, at in columns
        ]

    def at(self, places: Int64Array | BoolArray) -> "Singles":
        """Those at some places."""
        return Singles(*(column[places] for column in self))


NO_SINGLES = Singles(*np.zeros((8, 0), np.int64))


class Candidates:
    """Units that may be evicted.

    ``gangs`` are whole gangs, the cheapest first. ``again_at_us`` is when more may be evicted. ``surplus``
    has for each number of a gang how many of its members may go one by one, where not all may.
    """

    def __init__(
        self,
        singles: Singles,
        gangs: list[Unit],
        again_at_us: int | None = None,
        surplus: Mapping[int, Surplus] = MappingProxyType({}),
    ) -> None:
        self.singles = singles
        self.gangs = gangs
        self.again_at_us = again_at_us
        self.surplus = surplus

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
        more = max([*self.singles.right.tolist(), *(unit.right for unit in self.gangs)], default=0) + 1
        behind = others.singles._replace(right=others.singles.right + more)
        columns = zip(self.singles, behind, strict=True)
        gangs = [unit._replace(right=unit.right + more) for unit in others.gangs]
        surplus = {**self.surplus, **others.surplus}
        return Candidates(Singles(*map(np.concatenate, columns)), self.gangs + gangs, surplus=surplus)

    def by_queue_priority(self) -> Iterator["Candidates"]:
        """Those of the queues of lowest priority, then these and the next, until these are all."""
        known = {*np.unique(self.singles.queue_priority).tolist()} | {
            unit.queue_priority for unit in self.gangs
        }
        for most in sorted(known)[:-1]:
            singles = self.singles.at(self.singles.queue_priority <= most)
            gangs = [unit for unit in self.gangs if unit.queue_priority <= most]
            yield Candidates(singles, gangs, self.again_at_us, self.surplus)
        yield self

    def keep_minimums(self, units: Iterable[Unit]) -> bool:
        """True if no gang loses more of its members one by one than it may."""
        if not self.surplus:
            return True
        going: dict[int, list[int]] = {}
        for unit in units:
            if unit.gang in self.surplus:
                going.setdefault(unit.gang, []).extend(unit.rows)
        return all(self.surplus[gang].allows(rows) for gang, rows in going.items())


class Gathering:
    """Gathers candidates at one moment.

    ``rights`` ranks what queues have a right to; work of the queue with the least goes first. ``priorities``
    are those of the sides that the queues are on. ``rank`` is that of the workload for which they are
    gathered.
    """

    def __init__(
        self,
        state: EngineState,
        at_us: int,
        rights: Mapping[QueueName, int],
        rank: Rank,
        priorities: Mapping[QueueName, int] = MappingProxyType({}),
    ) -> None:
        self.state = state
        self.at_us = at_us
        self.rights = rights
        self.priorities = priorities
        self.rank = rank
        self.again_at_us = NEVER
        self._singles: list[Singles] = []
        self._gangs: list[Unit] = []
        self._surplus: dict[int, Surplus] = {}

    def add_single(
        self,
        least_run_us: dict[QueueName, int],
        reaches: Sequence[EvictableWork],
        held: frozenset[int] = NO_ROWS,
    ) -> None:
        """Pods of no gang in these queues, each with its least run time, that one of these reaches, but not
        those ``held``.
        """
        state = self.state
        cells = state.pods.eviction_columns.cells
        by_code, rights, priorities = np.full(
            (3, max(1, state.pods.eviction_columns.codes)), NOT_HERE, np.int64
        )
        numbers = state.pods.eviction_columns.code_by_queue
        names = [name for name in least_run_us if name in numbers]
        codes = [numbers[name] for name in names]
        by_code[codes] = [least_run_us[name] for name in names]
        rights[codes] = [self.rights.get(name, 0) for name in names]
        priorities[codes] = [self.priorities.get(name, LOWEST) for name in names]
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
        queues, priority = cells[eviction_columns.QUEUE, rows], cells[eviction_columns.PRIORITY, rows]
        found = Singles(
            *(rows, priority, lost, rights[queues], self._spared(rows), priorities[queues]),
            *(np.full_like(rows, layout.NOT_SET), cells[eviction_columns.ORDER, rows]),
        )
        self._singles.append(found)

    def add_gang(self, members: Members, least_run_us: int) -> None:
        """The members of a gang above its minimum one by one, and the gang as a whole."""
        state, gang = self.state, members.described
        pods, ends = state.pods, state.departures.is_departing
        staying = [row for row in members.placed if not ends(pods.pod_at(row).uid)]
        on_nodes = [row for row in staying if pods.node_row(row) is not None]
        may_end = [row for row in on_nodes if self._may_end(row, least_run_us)]
        priority, right = gang.priority, self.rights.get(gang.queue, 0)
        may_end_alone = may_end
        queue = state.waiting.queues.get(gang.queue)
        if queue is not None and queue.preemption.elastic_after_us is not None:
            least_alone_us = queue.preemption.elastic_after_us
            may_end_alone = [row for row in on_nodes if self._may_end(row, least_alone_us)]
        of_queue = self.priorities.get(gang.queue, LOWEST)
        surplus = surplus_of(members)
        rows = np.array([row for row in may_end_alone if surplus.allows((row,))], np.int64)
        if len(rows):
            number = layout.NOT_SET if surplus.allows(rows.tolist()) else staying[0]
            self._surplus |= {} if number == layout.NOT_SET else {number: surplus}
            alike = (np.full_like(rows, one) for one in (priority, right, of_queue, number))
            self._singles.append(self._members_as_singles(rows, *alike))
        allowed = state.budgets.allow(map(pods.pod_at, may_end))
        if may_end and len(may_end) == len(staying) and allowed:
            lost_together = sum(map(self._lost, may_end))
            spared = int(self._spared(np.array(may_end, np.int64)).sum())
            whole = Unit(priority, True, lost_together, tuple(may_end), spared, right, of_queue)
            self._gangs.append(whole._replace(order=int(self._order(may_end).min())))

    def _members_as_singles(
        self,
        rows: Int64Array,
        priority: Int64Array,
        right: Int64Array,
        of_queue: Int64Array,
        gang: Int64Array,
    ) -> Singles:
        lost = np.array(list(map(self._lost, rows.tolist())), np.int64)
        return Singles(rows, priority, lost, right, self._spared(rows), of_queue, gang, self._order(rows))

    def _order(self, rows: Int64Array | list[int]) -> Int64Array:
        order: Int64Array = self.state.pods.eviction_columns.cells[eviction_columns.ORDER, rows]
        return order

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
        gangs = sorted(self._gangs, key=lambda unit: unit.cost)
        return Candidates(singles, gangs, again_at_us, self._surplus)

    def _may_end(self, row: int, least_run_us: int) -> bool:
        """True if a pod may be evicted as far as itself is concerned."""
        state = self.state
        pod = state.pods.pod_at(row)
        if not pod.makes_room or state.departures.is_departing(pod.uid):  # What leaves is room already.
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


def surplus_of(members: Members) -> Surplus:
    """How many of the members that stay may go without the gang losing its minimum."""
    gang, roles = members.described, Counter(members.placed.values())
    by_role = {role: roles[role] - least for role, least in gang.role_minimums}
    return Surplus(roles.total() - gang.min_members, by_role, dict(members.placed))


def within_queue(state: EngineState, rank: Rank, queue: Queue, at_us: int) -> Candidates:
    """What a workload may evict in its own queue."""
    policy = queue.preemption
    if policy.within_queue is VictimScope.NEVER:
        return Candidates(NO_SINGLES, [])
    reached = evictable_within_queue(policy.within_queue, rank)
    return reached_in(state, rank, reached, {rank.queue: policy.preempt_after_us}, at_us)


def outside_of_queues(state: EngineState, rank: Rank, at_us: int) -> Candidates:
    """What a workload may evict outside of every queue: work of lower priority.

    While no queue is described, the queues that pods name tell no pods apart.
    """
    names = [DEFAULT_QUEUE] if state.waiting.queues else state.pods.eviction_columns.queues
    reached = evictable_within_queue(VictimScope.LOWER_PRIORITY, rank)
    return reached_in(state, rank, reached, dict.fromkeys(names, 0), at_us)


def reached_in(
    state: EngineState, rank: Rank, reached: EvictableWork, least_run_us: dict[QueueName, int], at_us: int
) -> Candidates:
    """The work that is reached in these queues, each with its least run time."""
    gathering = Gathering(state, at_us, {}, rank)
    gathering.add_single(least_run_us, [reached])
    for members in gangs_that_run(state):
        gang = members.described
        if gang.queue in least_run_us and reached.holds(gang.priority, gang.created_at_us):
            gathering.add_gang(members, least_run_us[gang.queue])
    return gathering.candidates()


def gangs_that_run(state: EngineState) -> Iterable[Members]:
    """Gangs that are described and have pods that run."""
    known = state.gangs.by_name.values()
    return (members for members in known if members.gang is not None and members.placed)


def is_in_scope(policy: VictimScope, rank: Rank, priority: int, created_at_us: int) -> bool:
    """True if a policy within a queue lets a workload of this rank evict one of that priority and age."""
    return evictable_within_queue(policy, rank).holds(priority, created_at_us)


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
    fields of each ``EvictableWork``.
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
