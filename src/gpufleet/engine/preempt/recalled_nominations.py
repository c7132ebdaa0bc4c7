"""Nominations that are looked at anew: those from before a restart, and those on a node that changed.

The next engine takes nominations up again before its first decision. So does the same engine where something
changed on one of their nodes, and both come to the same places.

Pods that end leave their room to the workload for which it was kept, whichever leader decides: otherwise
another waiting workload could take it in its turn, and the first one would have further pods evicted. A
workload gets the very places that were written down if the nodes still accept its pods, and room and quota
suffice once the pods that it waits for are gone. Its nomination then counts like any other.

Some of the pods that were to end may not leave yet, because the earlier scheduler stopped before it asked for
that. They are told to end (again) if the workload may evict each of them now; otherwise nothing is taken up.
Work whose nomination is not taken up waits in its turn.

A pod for which room was made on a node goes there in the same way, after what is recalled.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.event import KeptPlaces, RoomMade
from gpufleet.engine.instruction import ReservedPlace, WhyEvicted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import (
    Nominations,
    Placement,
    is_welcome,
    placement_of,
    recalled_placement,
)
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.victims import EvictionPlan, UnplacedWorkload, VictimSearch
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import PodUid

IsGuest = Callable[[WorkloadName, PodUid, int], bool]
"""Whether a pod (the second) is a guest on the nodes that a holder has reserved, at a moment."""


class Former(NamedTuple):
    """The places that a workload had, and those of the pods that were to leave them that are still there.

    ``victims`` are those of them that are to be told to end; ``are_guests``: they are guests of the holder.
    ``number`` is None for a place that is kept from now on.
    """

    holder: WorkloadName
    number: int | None
    placements: tuple[Placement, ...]
    waits_for: tuple[PodUid, ...]
    victims: tuple[PodUid, ...] = ()
    are_guests: bool = False

    @property
    def plan(self) -> EvictionPlan:
        """What is to be done for it."""
        why = WhyEvicted.INTERRUPTED if self.are_guests else None
        return EvictionPlan(self.placements, self.victims, self.waits_for, why)


def take_up(
    state: EngineState, nominations: Nominations, search: VictimSearch, is_guest: IsGuest, at_us: int
) -> list[Former]:
    """The nominations that are to be in force again, in their order."""
    if not (nominations.recalled or nominations.made):
        return []
    # In the order in which the places were given, because earlier ones were proven without the later.
    recalled, nominations.recalled = sorted(nominations.recalled, key=lambda one: one.number), []
    former: list[Former] = []
    departures = state.departures
    for kept in recalled:
        placements = _places(state, kept, search, at_us)
        if not placements:
            continue
        one = _with_victims(state, kept, placements, search, is_guest, at_us)
        former.append(one)
        for uid in one.victims:
            # As if told to end, so that places which wait for these victims are proven; taken back below.
            departures.evict(uid)
    made, nominations.made = nominations.made, []
    former += filter(None, (_with_room(state, happened) for happened in made))
    leave = [one for one in former if all(map(departures.is_departing, one.waits_for))]
    proven = _proven(state, nominations, leave)
    for uid in (uid for one in former for uid in one.victims):
        departures.stays(uid)
    return _that_end(state, proven)


def _with_room(state: EngineState, happened: RoomMade) -> Former | None:
    """A single pod and the node on which room was made for it; None where it cannot or may not start.

    A pod that needs whole devices has none named here, so it is left to its turn.
    """
    place = recalled_placement(state, ReservedPlace(happened.uid, happened.node, ()))
    if place is None or state.pods.state(place.row) is not PodState.WAITING:
        return None
    is_barred = state.gate.is_active and state.gate.bar(place.row) is not None
    pod = state.pods.pod_at(place.row)
    return None if is_barred or pod.gang is not None else Former(pod.uid, None, (place,), ())


def _proven(state: EngineState, nominations: Nominations, former: list[Former]) -> list[Former]:
    """The nominations whose places will be free together, when every pod that is told to end has left."""
    proven: list[Former] = []
    with state.trial() as future:
        state.future_quota.change(state.future_quota.charges().leaving, -1)
        # Their charges were taken off in the line before.
        ended = state.neighbours.ended_claims()
        future.end_all(Leaving(state).rows.tolist(), uncharged=True, ended_claims=ended)
        for one in former:
            placements = _placed(state, nominations, one.placements, future)
            if placements:
                proven.append(one._replace(placements=placements))
    return proven


def _that_end(state: EngineState, proven: list[Former]) -> list[Former]:
    """The nominations that wait for pods alone that leave, or that are evicted for one of these."""
    # A nomination that falls takes its victims' ends from others that wait for them; so until none falls any
    # more.
    while True:
        ends = {uid for one in proven for uid in one.victims}
        found = [
            one
            for one in proven
            if all(uid in ends or state.departures.is_departing(uid) for uid in one.waits_for)
        ]
        if len(found) == len(proven):
            return found
        proven = found


def _with_victims(
    state: EngineState,
    kept: KeptPlaces,
    placements: tuple[Placement, ...],
    search: VictimSearch,
    is_guest: IsGuest,
    at_us: int,
) -> Former:
    """A nomination with the pods that still wait to be told to end, and that may be evicted for it."""
    waits_for = tuple(uid for uid in kept.waits_for if _is_there(state, uid))
    staying = tuple(uid for uid in waits_for if not state.departures.is_departing(uid))
    one = Former(kept.holder, kept.number, placements, waits_for, staying)
    if not staying:
        return one
    if all(is_guest(kept.holder, uid, at_us) for uid in staying):
        return one._replace(are_guests=True)
    evictable = search.evictable(_workload(state, placements, at_us), state)
    return one._replace(victims=tuple(uid for uid in staying if state.pods.row_by_uid[uid] in evictable))


def _is_there(state: EngineState, uid: PodUid) -> bool:
    """True for a pod that still holds a place."""
    row = state.pods.row_by_uid.get(uid)
    return row is not None and state.pods.node_row(row) is not None


def _places(state: EngineState, one: KeptPlaces, search: VictimSearch, at_us: int) -> tuple[Placement, ...]:
    """Where the pods of a workload were to go; empty where it cannot, may not or need not start any more."""
    placements = tuple(recalled_placement(state, place) for place in one.places)
    known = tuple(place for place in placements if place is not None)
    rows = {place.row for place in known}
    if not known or len(rows) < len(placements):
        return ()
    pods = [state.pods.pod_at(row) for row in rows]
    if any(state.pods.state(row) is not PodState.WAITING for row in rows):
        return ()
    if not all(pod.workload == one.holder for pod in pods):
        return ()
    members = state.workloads.members_of(known[0].row)
    if members is not None and not _can_start(members, rows):
        return ()
    # For work that evicts by no rule no pod would have ended, and a queue that closed lets none start.
    may_evict = search.has_rule_for(_workload(state, known, at_us), state)
    is_barred = state.gate.is_active and any(state.gate.bar(row) is not None for row in rows)
    return known if may_evict and not is_barred else ()


def _workload(state: EngineState, placements: tuple[Placement, ...], at_us: int) -> UnplacedWorkload:
    return UnplacedWorkload(state.workloads.of(placements[0].row), at_us)


def _can_start(members: Members, rows: set[int]) -> bool:
    """True for a gang that would have its minimum with these members of it.

    Where it runs already, members that came again were nominated as soon as they were there, and those that
    came after them do not hold them up.
    """
    if not members.ready or not members.missing:
        return False
    return rows <= set(members.waiting) and (members.started or len(rows) >= members.missing)


def _placed(
    state: EngineState, nominations: Nominations, placements: tuple[Placement, ...], future: Trial
) -> tuple[Placement, ...]:
    """The places, booked inside the trial that is open, if all of them will be free together."""
    if not all(is_welcome(state, place) for place in placements):
        return ()
    rows = [place.row for place in placements]
    neighbours = state.neighbours
    is_tied = neighbours.is_watchful and any(map(neighbours.concerns, rows))
    with state.trial() as trial:
        if is_tied:
            has_room = all(
                trial.place_related(place.row, np.array([place.node], np.int64)) for place in placements
            )
        else:
            state.pods.make_journal_room(len(rows), state.store.tables.pod_devices.shape[1])
            has_room = all(map(nominations.fits_and_is_placed, placements))
        if not has_room or not all(map(state.gate.keeps_quota, rows)):
            return ()
        proven = tuple(placement_of(state, row) for row in rows) if is_tied else placements
        # Later nominations are proven beside this one.
        trial.keep_within(future)
        return proven
