"""The search for victims: what ends anyway first, then what the queue of the workload is owed and others
have borrowed, then work of its own queue, then that of others while it would itself borrow, then one pod for
one (``swaps``).

For work of a described queue its policy says which work it may evict. Work outside of every queue makes room
by priority, as with kube-scheduler, unless that is turned off (``by_name``): it evicts work of lower priority
that is itself outside of every queue. Places that pods leave anyway are kept for it too. While pods that it
could not evict itself were told to end and do not end yet, it evicts none: their room does not count for it
so far (``leaving``), and later work would evict others in place of earlier work that needs this room as well.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.preempt.by_node import ByNode
from gpufleet.engine.preempt.cached_search import SearchOutcome
from gpufleet.engine.preempt.candidates import Candidates, Unit, outside_of_queues, within_queue
from gpufleet.engine.preempt.capacity_bound import may_suffice
from gpufleet.engine.preempt.device_holders import without_useless
from gpufleet.engine.preempt.every_set import EverySet
from gpufleet.engine.preempt.evictable_work import Rank
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.over_fleet import OverFleet
from gpufleet.engine.preempt.proof import Placements, Proof
from gpufleet.engine.preempt.quick_reject import QuickReject
from gpufleet.engine.preempt.ranks import evictable_outside_queues, is_outside, rank_of
from gpufleet.engine.preempt.reclaim import Reclaim
from gpufleet.engine.preempt.reclaimable_subset import reclaimable_subsets
from gpufleet.engine.preempt.search_cache import SearchCache
from gpufleet.engine.preempt.swaps import SWAPS_MAX, Swaps
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.queue import PreemptionPolicy, Queue, VictimScope

BY_PRIORITY_ALONE = PreemptionPolicy(VictimScope.LOWER_PRIORITY, VictimScope.NEVER, VictimScope.NEVER)
"""What work outside of every queue may evict."""

Found = tuple[list[int], Placements]
"""The rows of victims, and where the workload goes without them."""


class PreemptionSearch:
    """Finds victims by the policies of the queues; outside of them by priority, or none (``by_priority``)."""

    def __init__(self, *, by_priority: bool = True) -> None:
        self.by_priority = by_priority
        self.runs = 0
        self._quick_reject: QuickReject | None = None
        self._search_cache: SearchCache | None = None

    def find(self, unplaced: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """The cheapest plan that is proven."""
        if not (self.by_priority or state.waiting.queues):
            return None
        rank = rank_of(unplaced, state)
        queue = state.waiting.queues.get(rank.queue)
        if queue is None:
            if not (self.by_priority and is_outside(rank, state)):
                return None
            # Told apart from other failures: it is looked at again only when a lower priority comes.
            is_lowest = state.pods.least_priority >= rank.priority
            if is_lowest and not self._quick_reject_of(state).awaits_claims(unplaced.rows):
                return NoEvictionPlan(lacks_lower_priority=True)
            queue = Queue(rank.queue, preemption=BY_PRIORITY_ALONE)
        # Asked only where it matters: what leaves gives room, and may give quota.
        leaves = bool(state.departures.announced or state.departures.evicted)
        lacks_quota = leaves and state.gate.is_active and state.gate.keeps_out(unplaced.row)
        reject = self._quick_reject_of(state)
        # Devices may cost more than the least, which only takes the queue further beyond its own.
        asked = unplaced.workload.asked(state.gate) if unplaced.workload.is_single else None
        may_find = reject.may_find(rank.priority, queue, lacks_quota=lacks_quota, asked=asked)
        if not (may_find or reject.awaits_claims(unplaced.rows)):
            return NoEvictionPlan()
        if self._search_cache is None or self._search_cache.state is not state:
            self._search_cache = SearchCache(state)
        followed = self._search_cache.plan(unplaced, rank)
        if followed is not None:
            return followed
        self.runs += 1
        run = SearchRun(unplaced, state)
        found = run.find(rank, queue)
        if isinstance(found, EvictionPlan):
            self._search_cache.expect(found)
            # A plan that waits for other pods too, or was found without some that leave, is no pattern for
            # the next one.
            is_whole = found.waits_for == found.victims and run.leaving.is_complete
            if run.outcome is not None and is_whole:
                self._search_cache.store(unplaced, run.outcome, run.leaving.left, run.proof.charges)
        return found

    def finds_none(self, priority: int, queue: Queue, state: EngineState, *, lacks_quota: bool) -> bool:
        """True if sums tell that work of this priority in this queue can evict no pod."""
        return not self._quick_reject_of(state).may_find(priority, queue, lacks_quota=lacks_quota)

    def finds_none_in_fleet(self, kinds: Iterable[tuple[Queue, int]], state: EngineState) -> bool:
        """True if sums of the fleet tell that none of these can evict a pod: queues with priorities."""
        return self._quick_reject_of(state).finds_none_in_fleet(kinds)

    def finds_none_beside(self, rows: Sequence[int], reserved: Sequence[int], state: EngineState) -> bool:
        """True if sums tell that none of these can evict a pod, whatever is put aside of what is reserved."""
        return self._quick_reject_of(state).finds_none_beside(rows, reserved)

    def _quick_reject_of(self, state: EngineState) -> QuickReject:
        reject = self._quick_reject
        if reject is None or reject.state is not state:
            reject = self._quick_reject = QuickReject(state)
        return reject

    def has_rule_for(self, unplaced: UnplacedWorkload, state: EngineState) -> bool:
        """True for work of a described queue, and outside of all queues where priority decides."""
        rank = rank_of(unplaced, state)
        is_in_queue = state.named_queue(unplaced.row) in state.waiting.queues
        return is_in_queue or (self.by_priority and is_outside(rank, state))

    def evictable(self, unplaced: UnplacedWorkload, state: EngineState) -> set[int]:
        """The rows of all pods that the policies, or priority, let a workload evict now."""
        rank = rank_of(unplaced, state)
        queue = state.waiting.queues.get(rank.queue)
        if queue is None and not self.has_rule_for(unplaced, state):
            return set()
        queue = queue or Queue(rank.queue, preemption=BY_PRIORITY_ALONE)
        return SearchRun(unplaced, state).evictable(rank, queue)


def _rows(units: list[Unit]) -> list[int]:
    """The rows of all of these, each once."""
    return list(dict.fromkeys(row for unit in units for row in unit.rows))


def _rows_of(found: Candidates) -> set[int]:
    return set(_rows([*found.alone, *found.gangs]))


class SearchRun:
    """One search for one workload."""

    def __init__(self, unplaced: UnplacedWorkload, state: EngineState) -> None:
        self.unplaced = unplaced
        self.state = state
        self.leaving = Leaving(state, evictable_outside_queues(unplaced, state))
        self.proof = Proof(unplaced, state, self.leaving)
        self.lacks_only_room = unplaced.workload.is_single and not self.proof.is_tied
        self.cut = False
        self._again_at_us: list[int] = []
        self.outcome: SearchOutcome | None = None
        self._reclaim: Reclaim | None = None
        self._is_single = False

    def find(self, rank: Rank, queue: Queue) -> EvictionPlan | NoEvictionPlan:
        """What ends anyway, or else the cheapest victims: of its own queue, of others that borrow, of all."""
        with self.proof.in_future():
            found = self._without_victims()
            # A new leader decides as the one that told these pods to end: both know no more of them.
            if found is None and not self.leaving.soon and self._may_evict():
                found = self._with_victims(rank, queue)
        none = NoEvictionPlan(self.cut, min(self._again_at_us, default=None))
        return none if found is None else self._plan(*found)

    def evictable(self, rank: Rank, queue: Queue) -> set[int]:
        """The rows of all pods that may be evicted, alone or with their gangs."""
        if not self._may_evict():
            return set()
        if is_outside(rank, self.state):
            return _rows_of(outside_of_queues(self.state, rank, self.unplaced.at_us))
        # As in the search: pods that leave are charged no more, and others may go once own work has gone.
        with self.proof.in_future():
            own = within_queue(self.state, rank, queue, self.unplaced.at_us)
            reclaim = Reclaim(self.state, rank, queue, self._needed(), self._least(), self._of_one_pod())
            others = reclaim.candidates(self.unplaced.at_us)
            swaps = Swaps(self.state, reclaim, self.unplaced).candidates()
            may_go = own.joined(others).joined(swaps)
            return _rows_of(may_go) | _rows_of(self._others_without(own, reclaim))

    def _with_victims(self, rank: Rank, queue: Queue) -> Found | None:
        """Victims in queues that have borrowed what it is owed; or of its own queue, of others, of both."""
        if is_outside(rank, self.state):
            return self._with_victims_by_priority(rank, queue)
        charges = self._needed(), self._least(), self._of_one_pod()
        owed = Reclaim(self.state, rank, queue, *charges, owed_only=True)
        lent = owed.candidates(self.unplaced.at_us)
        found = self._seek_elsewhere(lent, owed)
        if found is not None:
            self._keep_outcome(rank, queue, lent)
            return found
        own = within_queue(self.state, rank, queue, self.unplaced.at_us)
        self._note_when_more(own)
        # In its own queue the policy alone decides what is just.
        self.proof.is_just, self._reclaim = None, None
        found = self._seek(own)
        if found is not None:
            # Only then nothing in other queues comes first for an equal pod either.
            if not lent.any:
                self._reclaim = owed
                self._keep_outcome(rank, queue, own, is_own=True)
            return found
        reclaim = owed
        if queue.preemption.borrowing is not VictimScope.NEVER:
            reclaim = Reclaim(self.state, rank, queue, *charges)
            others = reclaim.candidates(self.unplaced.at_us)
            found = self._seek_elsewhere(others, reclaim)
            if found is not None and not (own.any or lent.any):
                self._keep_outcome(rank, queue, others)
        if found is None and own.any:
            others = self._others_without(own, reclaim)
            # Those that were placed in this step may go in the next one.
            self._note_when_more(others)
            if others.any:
                found = self._seek_elsewhere(own.joined(others), reclaim)
        return found or self._with_swap(reclaim)

    def _with_swap(self, reclaim: Reclaim) -> Found | None:
        """The cheapest pod that one equal to it may evict in spite of its immunity."""
        swaps = Swaps(self.state, reclaim, self.unplaced)
        candidates = swaps.candidates()
        self._note_when_more(candidates)
        self.proof.is_just = swaps.is_just
        if not candidates.alone:
            return None
        leaving = self.leaving.rows.tolist()
        self.cut |= len(candidates.alone) > SWAPS_MAX
        for unit in candidates.alone[:SWAPS_MAX]:
            placements = self.proof.fits_without([*leaving, *unit.rows])
            if placements:
                return list(unit.rows), placements
        return None

    def _seek_elsewhere(self, candidates: Candidates, reclaim: Reclaim) -> Found | None:
        """Victims among these of which it is just to evict all."""
        self._reclaim = reclaim
        self.proof.is_just = reclaim.is_just
        self.proof.reclaimable_subsets = partial(reclaimable_subsets, self.state, reclaim)
        self._note_when_more(candidates)
        return self._seek(candidates)

    def _with_victims_by_priority(self, rank: Rank, queue: Queue) -> Found | None:
        """Victims of lower priority, all outside of every queue.

        A pod that more than room keeps off looks for them node by node, too, before it looks elsewhere.
        """
        lower = outside_of_queues(self.state, rank, self.unplaced.at_us)
        self._note_when_more(lower)
        found = self._seek_outside(lower) if self.unplaced.workload.is_single else self._seek(lower)
        if found is not None and self.lacks_only_room:
            self._keep_outcome(rank, queue, lower)
        return found

    def _keep_outcome(
        self, rank: Rank, queue: Queue, candidates: Candidates, *, is_own: bool = False
    ) -> None:
        """Equal pods may go on among these candidates, of which a single one was enough.

        Before those of a queue of higher priority than that of a whole gang, the gang goes.
        """
        if self._is_single:
            singles = candidates.singles
            if candidates.gangs:
                most = min(gang.queue_priority for gang in candidates.gangs)
                singles = singles.at(singles.queue_priority <= most)
            self.outcome = SearchOutcome(
                self.unplaced.row, rank, queue, singles, self._reclaim, self.short, is_own
            )

    def _others_without(self, own: Candidates, reclaim: Reclaim) -> Candidates:
        """What it may evict elsewhere once it has nothing left to evict in its own queue."""
        with self.state.trial() as trial:
            trial.release_all([row for unit in (*own.alone, *own.gangs) for row in unit.rows])
            return reclaim.candidates(self.unplaced.at_us)

    def _note_when_more(self, candidates: Candidates) -> None:
        if candidates.again_at_us is not None:
            self._again_at_us.append(candidates.again_at_us)

    def _may_evict(self) -> bool:
        """True unless a pod of the workload says that none is to be evicted for its sake, or the workload
        lacks what only work has that is never evicted.
        """
        workload, gate = self.unplaced.workload, self.state.gate
        rows = workload.rows
        if not all(self.state.pods.pod_at(row).preempts for row in rows):
            return False
        queue_row = self.state.queues.queue_row(rows[0])
        # Protected work lacks nominal quota, which only protected work holds: no victim gives it back.
        return not gate.is_short_for_protected(queue_row, workload.asked_and_protected(gate)[1])

    def _needed(self) -> list[int]:
        """By column, the least that all of the workload is charged."""
        tables = self.state.store.tables
        shapes = [int(tables.pods[layout.POD_SHAPE, row]) for row in self.unplaced.rows]
        needed: list[int] = tables.shape_charges[shapes].sum(axis=0).tolist()
        return needed

    def _least(self) -> list[int]:
        """By column, the least that the workload is charged if it starts with as few pods as it may."""
        least: list[int] = self.unplaced.workload.asked(self.state.gate).tolist()
        return least

    def _of_one_pod(self) -> list[int]:
        """By column, the most that one of its pods is charged at least."""
        tables = self.state.store.tables
        shapes = [int(tables.pods[layout.POD_SHAPE, row]) for row in self.unplaced.rows]
        most: list[int] = tables.shape_charges[shapes].max(axis=0).tolist()
        return most

    @cached_property
    def short(self) -> Int64Array:
        """What each node lacks for a pod that lacks only room, with leaving pods gone."""
        return self.leaving.left.shortage(
            int(self.state.store.tables.pods[layout.POD_SHAPE, self.unplaced.row])
        )

    def _without_victims(self) -> Found | None:
        """Where the workload goes if no pod goes but those that leave anyway."""
        # Without leaving pods, and claims of pods that left, the cycle has just found that it does not fit.
        if not (len(self.leaving.rows) or self.proof.ended_claims):
            return None
        if not self.lacks_only_room:
            placements = self.proof.fits_without(self.leaving.rows.tolist())
            return ([], placements) if placements else None
        # What leaves is not charged already: its end gives back room and no quota.
        if self.state.gate.is_active and self.state.gate.keeps_out(self.unplaced.row):
            return None
        roomy = np.flatnonzero((self.short <= 0).all(axis=1))
        if not len(roomy):
            return None
        placements = self.proof.fits_without(self.leaving.on_any(roomy), roomy)
        return ([], placements) if placements else None

    def _seek(self, found: Candidates) -> Found | None:
        """The cheapest victims: those of the queues of lowest priority, if these are enough."""
        self._is_single = False
        found = self._of_use(found)
        if not found.any:
            return None
        on_one_node = self._by_node(found)
        if on_one_node is not None:
            for_quota = self._fits_but_for_quota
            single = on_one_node.single_for_quota() if for_quota else on_one_node.single()
            if single is not None and not self._gang_goes_before(single.rows[0], found):
                self._is_single = not for_quota
                return list(single.rows), single.placements
        return next(filter(None, map(self._seek_among, self._parts(found))), None)

    def _parts(self, found: Candidates) -> list[Candidates]:
        """Among which of these to look first, and then; none if it would not fit without all of them."""
        if self._every_set(found).is_small:
            # The cheapest of all sets is one of the queues of lowest priority anyway.
            return [found]
        parts = list(found.by_queue_priority())
        if len(parts) == 1:
            return parts
        rows = dict.fromkeys([*self.leaving.rows.tolist(), *_rows([*found.alone, *found.gangs])])
        return parts if self.proof.fits_without(list(rows), judged=False) else []

    @staticmethod
    def _gang_goes_before(row: int, found: Candidates) -> bool:
        """True if a whole gang is of a queue of lower priority than a single candidate is."""
        of_queue = found.singles.queue_priority[found.singles.rows == row].min()
        return any(gang.queue_priority < of_queue for gang in found.gangs)

    def _seek_among(self, found: Candidates) -> Found | None:
        """The cheapest of these. Few are tried in every combination; of more, single pods come first.

        A pod that fits somewhere but for quota is owed room by none: its victims are sought over the fleet.
        Otherwise they are sought node by node first.
        """
        if not self._may_suffice(found):
            return None
        # Few candidates: every set is tried, so what is found is the optimum and no search has to follow.
        every = self._every_set(found)
        if every.is_small:
            chosen = every.find()
            if chosen is not None or not every.is_cut:
                return None if chosen is None else (_rows(chosen[0]), chosen[1])
        on_one_node = self._by_node(found)
        # One node first: a pod needs one node's room, and victims spread over several would be too many.
        if on_one_node is not None and not self._fits_but_for_quota:
            victims = on_one_node.find()
            if victims is not None:
                return list(victims.rows), victims.placements
            self.cut |= on_one_node.cut
        over_fleet = OverFleet(self.proof, self.state, self.leaving.rows, found.surplus)
        # Single pods before whole gangs: with a gang all work of its members is lost.
        chosen = over_fleet.find(found.alone) if len(found.singles.rows) else None
        if chosen is None and found.gangs:
            chosen = over_fleet.find(found.in_order())
        self.cut |= over_fleet.cut
        return None if chosen is None else (_rows(chosen[0]), chosen[1])

    def _seek_outside(self, found: Candidates) -> Found | None:
        """Victims for a pod outside of every queue: on the node where it goes, whatever keeps it off, then
        whole gangs.
        """
        found = self._of_use(found)
        if not found.any:
            return None
        if len(found.singles.rows):
            on_one_node = ByNode(self.proof, self.state, self.leaving, self.short, found)
            victims = on_one_node.find()
            self._is_single = on_one_node.is_single
            if victims is not None:
                return list(victims.rows), victims.placements
            self.cut |= on_one_node.cut
        over_fleet = OverFleet(self.proof, self.state, self.leaving.rows, found.surplus)
        # A pod that lacks room alone was tried on every node above; victims elsewhere give it none.
        chosen = None if self.lacks_only_room else over_fleet.find(found.alone)
        if chosen is None and found.gangs:
            chosen = over_fleet.find(found.in_order())
        self.cut |= over_fleet.cut
        return None if chosen is None else (_rows(chosen[0]), chosen[1])

    def _of_use(self, found: Candidates) -> Candidates:
        """These without those that cannot help a workload with resource claims."""
        if not self.proof.asks_for_devices:
            return found
        return without_useless(found, self.state, self.unplaced, self.short, self.leaving)

    def _every_set(self, found: Candidates) -> EverySet:
        """A search among all sets of these."""
        has_room = self._fits_but_for_quota
        short = self.short if self.lacks_only_room and not has_room else None
        return EverySet(self.proof, self.state, self.leaving.rows, found, short, has_room=has_room)

    def _by_node(self, found: Candidates) -> ByNode | None:
        """A search node by node, for a pod that lacks only room and quota."""
        if not (self.lacks_only_room and len(found.singles.rows)):
            return None
        return ByNode(self.proof, self.state, self.leaving, self.short, found)

    @cached_property
    def _fits_but_for_quota(self) -> bool:
        """True for a pod for which some node has room once leaving pods are gone."""
        return self.lacks_only_room and bool((self.short <= 0).all(axis=1).any())

    def _may_suffice(self, found: Candidates) -> bool:
        """False if a gang would lack room whichever of these are evicted justly."""
        workload, reclaim = self.unplaced.workload, self._reclaim
        if workload.is_single or reclaim is None:
            return True
        gangs = [unit.rows for unit in found.gangs]
        return may_suffice(self.state, workload, reclaim, found.singles.rows, gangs, self.leaving.rows)

    def _plan(self, victims: list[int], placements: Placements) -> EvictionPlan:
        """The plan that waits for these victims and for no more of the leaving pods than it must."""
        nodes = NO_NODES
        if self.lacks_only_room:
            nodes = np.array([placements[0].node], np.int64)
        needed, placements = self._awaited(victims, nodes, placements)
        uids = [self.state.pods.pod_at(row).uid for row in (*needed, *victims)]
        return EvictionPlan(placements, tuple(uids[len(needed) :]), tuple(uids))

    def _awaited(
        self, victims: list[int], nodes: Int64Array, placements: Placements
    ) -> tuple[list[int], Placements]:
        """The leaving pods that it must wait for."""
        alone = self._proven(victims, [], nodes) if victims or self.proof.ended_claims else ()
        if alone or not len(self.leaving.rows):
            return [], alone or placements
        near: list[int] = []
        if not self.proof.is_tied:
            near = self.leaving.on_any(np.array([one.node for one in placements], np.int64))
        fewer = self._proven(victims, near, nodes) if near else ()
        if fewer:
            return self._fewest(victims, near, nodes, fewer)
        # A pod elsewhere holds what it needs, such as quota.
        return self._fewest(victims, self.leaving.rows.tolist(), nodes, placements)

    def _fewest(
        self, victims: list[int], needed: list[int], nodes: Int64Array, placements: Placements
    ) -> tuple[list[int], Placements]:
        """As few of the leaving as it must wait for: more and more of them are tried without."""
        size = len(needed)
        while size:
            # From the end, so that slices in front keep their places when one is left out.
            for start in reversed(range(0, len(needed), size)):
                rest = needed[:start] + needed[start + size :]
                is_any = victims or rest or self.proof.ended_claims
                without = self._proven(victims, rest, nodes) if is_any else ()
                if without:
                    needed, placements = rest, without
            size //= 2
        return needed, placements

    def _proven(self, victims: list[int], leaving: list[int], nodes: Int64Array) -> Placements:
        return self.proof.fits_at_once_without([*leaving, *victims], nodes)
