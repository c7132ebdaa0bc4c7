"""The place of a pod that is moved, kept until the pod comes that its controller makes instead.

A *replacement* is a row like the pod that leaves, booked on the new node as if it were nominated there: a
booking like any other, so no other pod is placed into that room and no rule had to be taught. It is made
together with the eviction. The pod that comes is known by what controllers repeat: namespace, labels,
queue, priority and shape. It takes the place over, and with it the queues that the moved pod is immune to
(``eviction_immunity``).

Nothing of it outlives the process: after a restart the pod that comes is placed like any other.
"""

from dataclasses import dataclass

import msgspec

from gpufleet.engine.instruction import MovedFrom
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations, Placement, placement_of
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.pod import Pod

KEPT_FOR_US = 120_000_000
"""How long a place is kept once its pod has gone, for a controller that takes its time."""


@dataclass(slots=True)
class Replacement:
    """A row that stands for the pod which is to come; ``until_us`` is set once the ``victim`` is gone.

    The row belongs to no gang, or it would count as a member that came; ``gang`` is that of the victim.
    """

    row: int
    victim: PodUid
    gang: GangName | None = None
    origin: MovedFrom | None = None
    until_us: int | None = None


class Replacements:
    """All places that are kept for moved pods."""

    def __init__(self, state: EngineState, nominations: Nominations) -> None:
        self.state = state
        self.nominations = nominations
        self._by_row: dict[int, Replacement] = {}
        self._taken_over: list[Nomination] = []
        self._origins: dict[PodUid, MovedFrom] = {}

    def make(self, victim: int) -> int:
        """A row like that of a victim, without a place."""
        state = self.state
        known = state.pods.pod_at(victim)
        like = msgspec.structs.replace(known, uid=PodUid(f"{known.uid}/moved"), leaving=False, gang=None)
        row = state.pods.add(like)
        state.replacements[row] = None
        state.number_arrival(row)
        state.neighbours.add(row)
        state.assign_queue(row)
        self._by_row[row] = Replacement(row, known.uid, known.gang)
        return row

    def keep(self, place: Placement, origin: MovedFrom | None) -> None:
        """Keep this place for a row that was made, until its victim is gone and the other pod has come."""
        state, victim = self.state, self._by_row[place.row].victim
        self._by_row[place.row].origin = origin
        self.nominations.nominate((place,), (victim,), reserved=True)
        queue = state.queue_of(place.row)
        state.eviction_immunity.take(queue, [state.pods.pod_at(place.row).uid], {victim: queue})

    def drop(self, row: int) -> None:
        """No place is kept for a moved pod any more."""
        state = self.state
        del self._by_row[row]
        nomination = state.departures.by_row.get(row)
        if nomination is not None:
            self.nominations.take_back(nomination)
        uid = state.pods.pod_at(row).uid
        state.eviction_immunity.leave(uid, state.queue_of(row), ran=False)
        state.leave(row)
        state.neighbours.forget(row)
        queue_row = state.queues.queue_row(row)
        state.pods.remove(uid)
        state.queues.forget(queue_row)
        del state.replacements[row]

    def take_over(self, row: int) -> None:
        """A pod has come: if one like it was moved, the place is its."""
        if not self._by_row:
            return
        state = self.state
        state.enqueue_newcomer()
        pod = state.pods.pod_at(row)
        found = next((one for one in self._by_row.values() if self._stands_for(one, pod)), None)
        if found is None:
            return
        place = placement_of(state, found.row)._replace(row=row)
        queue = state.queue_of(row)
        state.eviction_immunity.take(queue, [pod.uid], {state.pods.pod_at(found.row).uid: queue})
        waits_for = (found.victim,) if found.victim in state.pods.row_by_uid else ()
        self.drop(found.row)
        if found.origin is not None:
            self._origins[pod.uid] = found.origin
        nomination = self.nominations.nominate((place,), waits_for)
        # It needs not wait until the other is gone if there is quota for both.
        nomination.elsewhere.clear()
        state.departures.unsettled[nomination.number] = None
        self._taken_over.append(nomination)

    def _stands_for(self, one: Replacement, pod: Pod) -> bool:
        if one.row not in self.state.departures.by_row:
            return False
        like = self.state.pods.pod_at(one.row)
        seen = (like.namespace, like.queue, like.priority, like.labels, one.gang)
        return seen == (pod.namespace, pod.queue, pod.priority, pod.labels, pod.gang) and (
            like.shape == pod.shape
        )

    def origin(self, uid: PodUid) -> MovedFrom | None:
        """The moved pod whose place a pod that is bound now has taken over, None if there is none."""
        return self._origins.pop(uid, None)

    def take_taken_over(self) -> list[Nomination]:
        """Nominations of pods that took a place over since this was last asked, and cannot be bound yet."""
        if not self._taken_over:
            return []
        known = self.state.departures.nominations
        found = [one for one in self._taken_over if known.get(one.number) is one]
        self._taken_over.clear()
        return found

    def drop_ended(self, at_us: int) -> None:
        """Drop the places that facts have ended, and those for which no pod came in time."""
        if not self._by_row and not self._origins:
            return
        known = self.state.pods.row_by_uid
        self._origins = {uid: origin for uid, origin in self._origins.items() if uid in known}
        for one in list(self._by_row.values()):
            if one.until_us is None and one.victim not in known:
                one.until_us = at_us + KEPT_FOR_US
            is_late = one.until_us is not None and one.until_us <= at_us
            if is_late or one.row not in self.state.departures.by_row:
                self.drop(one.row)
                self.state.changes.note(Change.PLACE_GIVEN_UP)

    def next_due_us(self) -> int | None:
        """When the first place is kept no longer."""
        if not self._by_row:
            return None
        dues = [one.until_us for one in self._by_row.values() if one.until_us is not None]
        return min(dues, default=None)
