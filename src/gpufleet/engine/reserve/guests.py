"""Work that may be interrupted runs on reserved nodes as a guest, and ends when the holder can start.

A guest says that its end costs nothing. So it may come to what is reserved without a known end, and no
holder counts on its end either: as soon as everything else that the holder waits for is gone, or leaves, as
many of its guests are evicted for it as must go. A pod that a disruption budget would keep then is not let
in, nor is any for a holder that may evict none; a budget that comes later keeps no guest. A guest is one of
the holders that it came behind, and of no other. Work whose run time is only learned (``learn.run_times``)
is a guest too, so that no holder depends on that.

A guest has given a promise (``model.backfill_promise``), which its grant remembers: nothing that is said of
it later takes the duty from it. Work that was let in because it said how long it runs has one too, and is a
guest from the moment on at which it said that it has ended. ``backfill`` lets guests in, ``cycle`` asks for
the ``plan`` when it is the holder's turn.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import WhyEvicted
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.victims import EvictionPlan, UnplacedWorkload
from gpufleet.engine.reserve.planning import Planner
from gpufleet.engine.reserve.restoring import PutAside
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.pod import Pod

Holder = WorkloadName
Placements = tuple[Placement, ...]

REPRIEVES_MAX = 64
"""Of so many guests, or gangs of them, it is looked whether they can stay after all."""
WAITING = frozenset({PodState.WAITING, PodState.BACKOFF, PodState.NOMINATED})


class Unit(NamedTuple):
    """Pods that end together or not at all; those that leave anyway need not be evicted."""

    rows: tuple[int, ...]
    leaves: bool


class Guests:
    """Which pod is a guest of which holder."""

    def __init__(self, state: EngineState, planner: Planner, *, evicts: bool) -> None:
        self.state = state
        self.planner = planner
        self.evicts = evicts
        self.promises: dict[Holder, dict[PodUid, BackfillPromise]] = {}

    @property
    def has_promises(self) -> bool:
        """True if any pod was let in behind a holder."""
        return bool(self.promises)

    # Guests that come.

    def may_come(self, unplaced: UnplacedWorkload, holder: Holder, nomination: Nomination) -> bool:
        """True if a workload may run where this holder will start, whenever it would end by itself."""
        if not self.evicts or not all(map(self._may_be_interrupted, unplaced.rows)):
            return False
        if unplaced.workload.joins_others:
            return False  # The pods that it joins would have to end with it.
        if not self.end_for(nomination):
            return False
        if not self.state.budgets.any_is_known:
            return True
        together = dict.fromkeys([*self.rows_of(holder, unplaced.at_us), *unplaced.rows])
        return self.state.budgets.allow(map(self.state.pods.pod_at, together))

    def end_for(self, nomination: Nomination) -> bool:
        """True for a holder that may evict others."""
        pod_at = self.state.pods.pod_at
        return self.evicts and all(pod_at(row).preempts for row in nomination.rows)

    def _may_be_interrupted(self, row: int) -> bool:
        pod = self.state.pods.pod_at(row)
        if not pod.makes_room:
            return False
        return pod.interruptible or self.state.learned.learns(self.state.queue_of(row), pod)

    def let_in(self, holder: Holder, uids: Iterable[PodUid], within_us: int | None = None) -> None:
        """Pods are guests of this holder from now on, or once they have run for ``within_us``."""
        # Holders that have started need no promise any more; they are dropped when new ones come.
        kept = {one: promises for one, promises in self.promises.items() if self._waits(one)}
        kept.setdefault(holder, {}).update(dict.fromkeys(uids, BackfillPromise(holder, within_us)))
        self.promises = kept

    def take_promises(self, pod: Pod) -> None:
        """A pod runs whose grant names the holders that it was let in behind."""
        for promise in pod.promises or ():
            holder = cast("Holder", promise.holder)
            self.promises.setdefault(holder, {}).setdefault(pod.uid, promise)

    def promises_of(self, uid: PodUid) -> tuple[BackfillPromise, ...]:
        """The promises that a pod has given."""
        return tuple(given[uid] for given in self.promises.values() if uid in given)

    def leave(self, uid: PodUid) -> None:
        """A pod is gone, or did not come after all."""
        for promises in self.promises.values():
            promises.pop(uid, None)

    def recall(self, holder: Holder, former: PutAside) -> None:
        """After a restart: guests are the pods that have given a promise.

        Where a grant says nothing of promises, a guest is a pod that may be interrupted and came after the
        reservation, among those that the holder waits for or, as some may have come since that was written,
        on its nodes.
        """
        pods, since_us = self.state.pods, former.since_us
        nodes = dict.fromkeys(place.node for place in former.placements)
        near = [row for node in nodes for row in pods.on_node.get(node, ())]
        known = dict.fromkeys([*former.waits_for, *(row for row in near if pods.pod_at(row).interruptible)])
        unsaid = [row for row in known if pods.pod_at(row).promises is None]
        # A start that is not known counts as before the reservation: such a pod owes the holder nothing.
        came = [row for row in unsaid if pods.started_at_us.get(row, since_us - 1) >= since_us]
        guests = [row for row in came if self._may_be_interrupted(row)]
        if guests:
            self.let_in(holder, (pods.pod_at(row).uid for row in guests))
        bound = (pods.row_by_uid.get(uid) for uid in self.promises.get(holder, ()))
        with_promises = [row for row in bound if row is not None]
        former.waits_for = tuple(dict.fromkeys([*former.waits_for, *with_promises]))

    def _waits(self, holder: Holder) -> bool:
        """True for one that has not started yet."""
        members = self.state.gangs.by_name.get(GangName(holder))
        if members is not None and members.arrived:
            return members.missing > 0
        row = self.state.pods.row_by_uid.get(PodUid(holder))
        return row is not None and self.state.pods.state(row) in WAITING

    # Guests that are there.

    def rows_of(self, holder: Holder, at_us: int) -> list[int]:
        """The guests of a holder that are still there."""
        row_by_uid = self.state.pods.row_by_uid
        uids = [uid for uid in self.promises.get(holder, ()) if self.are_of(holder, uid, at_us)]
        rows = (row_by_uid.get(uid) for uid in uids)
        return [row for row in rows if row is not None]

    def are_of(self, holder: Holder, uid: PodUid, at_us: int) -> bool:
        """True if a pod is a guest of this holder by now."""
        promise = self.promises.get(holder, {}).get(uid)
        if promise is None or promise.within_us is None:
            return promise is not None
        return self._promised_us(uid, promise.within_us, at_us) <= at_us

    def is_overdue(self, holder: Holder, uid: PodUid) -> bool:
        """True for a guest that is one because it has run for longer than it said."""
        promise = self.promises.get(holder, {}).get(uid)
        return promise is not None and promise.within_us is not None

    def next_us(self, holder: Holder, at_us: int) -> int | None:
        """When the next one of those let in becomes a guest of this holder."""
        promises = self.promises.get(holder, {}).items()
        ends_us = (
            self._promised_us(uid, one.within_us, at_us) for uid, one in promises if one.within_us is not None
        )
        return min((end_us for end_us in ends_us if end_us > at_us), default=None)

    def _promised_us(self, uid: PodUid, within_us: int, at_us: int) -> int:
        """When a pod said that it has ended."""
        pods = self.state.pods
        row = pods.row_by_uid.get(uid)
        if row is None:
            return at_us
        return pods.started_at_us.get(row, pods.assumed_at_us.get(row, at_us)) + within_us

    # Guests that go.

    def plan(self, unplaced: UnplacedWorkload) -> EvictionPlan | None:
        """Which of its guests end so that a holder can start now; None where that is not what it lacks."""
        holder = unplaced.workload.name
        rows = self.rows_of(holder, unplaced.at_us) if self.promises else []
        if not rows:
            return None
        units = self._units(holder, rows)
        if all(unit.leaves for unit in units):
            return None  # A guest that leaves anyway is not asked to.
        placements = self._without(unplaced, units)
        if not placements and (others := self._others_who_leave(rows)):
            units += others
            placements = self._without(unplaced, units)
        if not placements:
            return None
        units, placements = self._fewer(unplaced, units, placements)
        pod_at = self.state.pods.pod_at
        victims = [row for unit in units if not unit.leaves for row in unit.rows]
        awaited = tuple(pod_at(row).uid for unit in units for row in unit.rows)
        uids = tuple(pod_at(row).uid for row in victims)
        return EvictionPlan(placements, uids, awaited, WhyEvicted.INTERRUPTED)

    def _units(self, holder: Holder, rows: Sequence[int]) -> list[Unit]:
        """The guests that can end now, each with the pods with which it must end."""
        departures, pods = self.state.departures, self.state.pods
        leaving = [row for row in rows if departures.is_departing(pods.pod_at(row).uid)]
        together: dict[Holder, list[int]] = {}
        for row in (row for row in rows if row not in leaving):
            pod = pods.pod_at(row)
            together.setdefault(pod.workload, []).append(row)
        units = [Unit((row,), True) for row in leaving]
        units += (Unit(self._with_gang(name, some), False) for name, some in together.items())
        return [unit for unit in units if unit.leaves or self._may_end(holder, unit)]

    def _others_who_leave(self, guests: Sequence[int]) -> list[Unit]:
        """Pods that were told to end, for any cause: guests may end beside them and need not end after."""
        rows: list[int] = Leaving(self.state).rows.tolist()
        return [Unit((row,), True) for row in rows if row not in guests]

    def _with_gang(self, name: Holder, guests: list[int]) -> tuple[int, ...]:
        """The guests, and all of their gang if it would be left with less than its minimum."""
        members = self.state.gangs.described(name)
        if members is None or len(members.placed) - len(guests) >= members.described.min_members:
            return tuple(guests)
        return tuple(members.placed)

    def _may_end(self, holder: Holder, unit: Unit) -> bool:
        """True if these pods can be told to end now; an overdue pod takes all of its gang along."""
        state, promises = self.state, self.promises.get(holder, {})
        uids = {row: state.pods.pod_at(row).uid for row in unit.rows}
        if any(uid in state.departures.refused_until_us for uid in uids.values()):
            return False
        # What this step placed is not bound yet; to evict it in the same step would undo a decision.
        if any(row in state.placed_in_step for row in unit.rows):
            return False
        if any(self.is_overdue(holder, uid) for uid in uids.values()):
            return True
        return all(uid in promises or self._may_be_interrupted(row) for row, uid in uids.items())

    def _without(self, unplaced: UnplacedWorkload, units: Sequence[Unit]) -> Placements:
        return self.planner.place_without(unplaced, [row for unit in units for row in unit.rows])

    def _fewer(
        self, unplaced: UnplacedWorkload, units: list[Unit], placements: Placements
    ) -> tuple[list[Unit], Placements]:
        """No more guests than must go: those elsewhere stay, and then those that came first."""
        nodes = {one.node for one in placements}
        node_row = self.state.pods.node_row
        near = [unit for unit in units if any(node_row(row) in nodes for row in unit.rows)]
        if len(near) < len(units):
            placed = self._without(unplaced, near)
            if placed:
                units, placements = near, placed
        # Those that came first are tried first, so the longest work is spared rather than the newest.
        for unit in units[:REPRIEVES_MAX]:
            others = [one for one in units if one is not unit]
            placed = self._without(unplaced, others)
            if placed:
                units, placements = others, placed
        return units, placements
