"""The place of a pod that is moved, kept until the pod comes that its controller makes instead.

A *replacement* is a row like the pod that leaves, booked on the new node as if it were nominated there: a
booking like any other, so no other pod is placed into that room and no rule had to be taught. It is made
together with the eviction. The pod that comes is known by what controllers repeat: namespace, labels,
queue, priority and shape. It takes the place over, and with it the queues that the moved pod is immune to
(``eviction_immunity``).

The shell is told which places are kept on each node (``instruction.ReplacementsKept``) and writes that down
before the victims end. The next engine hears of it with all pods (``event.ReplacementsRecalled``) and takes
the places up again before its first decision. A move whose victim does not leave then never began: its pod
stays, and no place is kept.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.defragment.left_claims import claims_of
from gpufleet.engine.event import ReplacementsRecalled
from gpufleet.engine.instruction import (
    AnyInstruction,
    MovedFrom,
    ReplacementPlace,
    ReplacementsKept,
    ReservedPlace,
)
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import (
    Nominations,
    Placement,
    is_welcome,
    placement_of,
    recalled_placement,
)
from gpufleet.engine.place.relations.place_choice import PlaceChoice
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape

KEPT_FOR_US = 120_000_000
"""How long a place is kept once its pod has gone, for a controller that takes its time."""


@dataclass(slots=True)
class Replacement:
    """A row that stands for the pod which is to come; ``until_us`` is set once the ``victim`` is gone.

    The row belongs to no gang, or it would count as a member that came; ``gang`` is that of the victim.
    ``node`` is where the place is kept, None before that.
    """

    row: int
    victim: PodUid
    gang: GangName | None = None
    node: NodeName | None = None
    origin: MovedFrom | None = None
    until_us: int | None = None


def with_claims(shape: Shape, paths: tuple[str, ...]) -> Shape:
    """A shape with these resource claims."""
    relations = msgspec.structs.replace(shape.relations, device_claims=paths)
    return msgspec.structs.replace(shape, relations=relations)


def with_names(choice: PlaceChoice | None, names: Mapping[str, str]) -> PlaceChoice | None:
    """What was chosen with a place, for claims of other names."""
    if choice is None or not choice.devices:
        return choice
    return choice._replace(devices=tuple((names.get(path, path), has) for path, has in choice.devices))


class Replacements:
    """All places that are kept for moved pods.

    ``by_row`` has them, ``origins`` where pods come from that took one over and are not bound yet.
    ``taken_over`` and ``changed`` are what is to be told.
    """

    def __init__(self, state: EngineState, nominations: Nominations) -> None:
        self.state = state
        self.nominations = nominations
        self.by_row: dict[int, Replacement] = {}
        self.taken_over: list[Nomination] = []
        self.origins: dict[PodUid, MovedFrom] = {}
        self.recalled: list[tuple[Replacement, ReplacementPlace]] = []
        # A dictionary without values stands for a set in order, so that every run tells in one order.
        self.changed: dict[NodeName, None] = {}

    @property
    def are_pending(self) -> bool:
        """True if a place is kept or was recalled, or something is to be said of one."""
        return bool(self.by_row or self.origins or self.recalled or self.taken_over or self.changed)

    def make(self, victim: int, left: Collection[str] = ()) -> int:
        """A row like that of a victim, without a place; it has other claims in place of those ``left``."""
        known = self.state.pods.pod_at(victim)
        like = msgspec.structs.replace(known, uid=PodUid(f"{known.uid}/moved"), leaving=False, gang=None)
        asked = known.shape.relations.device_claims
        if asked:
            claims = self.state.neighbours.device_claims
            names = tuple(claims.stand_in(path) if path in left else path for path in asked)
            like = msgspec.structs.replace(like, shape=with_claims(known.shape, names))
        return self._add(like, known.uid, known.gang).row

    def made_for(self, place: Placement, left: Collection[str]) -> Placement:
        """A row like that of a victim, and the victim's new place as that of this row."""
        row, claims = self.make(place.row, left), self.state.neighbours.device_claims
        named = {path: claims.stand_in(path) for path in left}
        return place._replace(row=row, choice=with_names(place.choice, named))

    def _add(self, like: Pod, victim: PodUid, gang: GangName | None) -> Replacement:
        state = self.state
        row = state.pods.add(like)
        state.replacements[row] = None
        state.number_arrival(row)
        state.neighbours.add(row)
        state.assign_queue(row)
        one = self.by_row[row] = Replacement(row, victim, gang)
        return one

    def keep(self, place: Placement, origin: MovedFrom | None) -> None:
        """Keep this place for a row that was made, until its victim is gone and the other pod has come."""
        state, one = self.state, self.by_row[place.row]
        one.origin = origin
        self._nominate(one, place, None)
        queue = state.queue_of(place.row)
        state.eviction_immunity.take(queue, [state.pods.pod_at(place.row).uid], {one.victim: queue})

    def _nominate(self, one: Replacement, place: Placement, number: int | None) -> None:
        one.node = self.state.fleet.node_at(place.node).name
        self.changed[one.node] = None
        waits_for = (one.victim,) if one.victim in self.state.pods.row_by_uid else ()
        self.nominations.nominate((place,), waits_for, reserved=True, number=number)

    def drop(self, row: int) -> None:
        """No place is kept for a moved pod any more."""
        state = self.state
        one = self.by_row.pop(row)
        if one.node is not None:
            self.changed[one.node] = None
        nomination = state.departures.by_row.get(row)
        if nomination is not None:
            self.nominations.take_back(nomination)
        pod = state.pods.pod_at(row)
        uid = pod.uid
        state.eviction_immunity.leave(uid, state.queue_of(row), ran=False)
        state.leave(row, pod)
        state.neighbours.forget(row)
        state.queues.remove_pod(row, uid)
        del state.replacements[row]
        others = {path for other in self.by_row for path in claims_of(state, other)}
        for path in pod.shape.relations.device_claims:
            if path not in others:
                state.neighbours.device_claims.drop_stand_in(path)

    def take_over(self, row: int) -> None:
        """A pod has come: if one like it was moved, the place is its."""
        state = self.state
        state.enqueue_newcomer()
        pod = state.pods.pod_at(row)
        found = next((one for one in self.by_row.values() if self._stands_for(one, pod)), None)
        if found is None:
            return
        place = placement_of(state, found.row)._replace(row=row)
        own = zip(claims_of(state, found.row), claims_of(state, row), strict=True)
        place = place._replace(choice=with_names(place.choice, dict(own)))
        queue = state.queue_of(row)
        state.eviction_immunity.take(queue, [pod.uid], {state.pods.pod_at(found.row).uid: queue})
        waits_for = (found.victim,) if found.victim in state.pods.row_by_uid else ()
        self.drop(found.row)
        if found.origin is not None:
            self.origins[pod.uid] = found.origin
        nomination = self.nominations.nominate((place,), waits_for)
        # It needs not wait until the other is gone if there is quota for both.
        nomination.elsewhere.clear()
        state.departures.unsettled[nomination.number] = None
        self.taken_over.append(nomination)

    def _stands_for(self, one: Replacement, pod: Pod) -> bool:
        if one.row not in self.state.departures.by_row:
            return False
        like = self.state.pods.pod_at(one.row)
        seen = (like.namespace, like.queue, like.priority, like.labels, one.gang)
        return seen == (pod.namespace, pod.queue, pod.priority, pod.labels, pod.gang) and (
            self._asks_alike(like.shape, pod.shape)
        )

    def _asks_alike(self, one: Shape, other: Shape) -> bool:
        """Whether both need the same, though by claims of other names."""
        ours, theirs = one.relations.device_claims, other.relations.device_claims
        if not ours and not theirs:
            return one == other
        known = self.state.neighbours.device_claims.known
        if not all(path in known for path in (*ours, *theirs)):
            return False
        asks = [[known[path].asks for path in paths] for paths in (ours, theirs)]
        return asks[0] == asks[1] and with_claims(one, ()) == with_claims(other, ())

    def origin(self, uid: PodUid) -> MovedFrom | None:
        """The moved pod whose place a pod that is bound now has taken over, None if there is none."""
        return self.origins.pop(uid, None)

    def take_taken_over(self) -> list[Nomination]:
        """Nominations of pods that took a place over since this was last asked, and cannot be bound yet."""
        if not self.taken_over:
            return []
        known = self.state.departures.nominations
        found = [one for one in self.taken_over if known.get(one.number) is one]
        self.taken_over.clear()
        return found

    def drop_ended(self, at_us: int) -> None:
        """Drop the places that facts have ended, and those for which no pod came in time."""
        if not self.by_row and not self.origins:
            return
        known = self.state.pods.row_by_uid
        self.origins = {uid: origin for uid, origin in self.origins.items() if uid in known}
        for one in list(self.by_row.values()):
            if one.until_us is None and one.victim not in known:
                one.until_us = at_us + KEPT_FOR_US
                if one.node is not None:
                    self.changed[one.node] = None
            is_late = one.until_us is not None and one.until_us <= at_us
            if is_late or one.row not in self.state.departures.by_row:
                self.drop(one.row)
                self.state.changes.note(Change.PLACE_GIVEN_UP)

    def next_due_us(self) -> int | None:
        """When the first place is kept no longer."""
        if not self.by_row:
            return None
        dues = [one.until_us for one in self.by_row.values() if one.until_us is not None]
        return min(dues, default=None)

    # What the next engine is to know, and what the one before wrote down.

    def take_changed(self) -> list[AnyInstruction]:
        """The nodes on which other places are kept since this was last asked, each with all of them."""
        if not self.changed:
            return []
        changed, self.changed = self.changed, {}
        return [ReplacementsKept(node, tuple(self._kept_on(node))) for node in changed]

    def _kept_on(self, node: NodeName) -> Iterable[ReplacementPlace]:
        pods, by_row = self.state.pods, self.state.departures.by_row
        for one in self.by_row.values():
            if one.node == node and one.row in by_row:
                yield ReplacementPlace(
                    one.victim,
                    pods.pod_at(one.row),
                    node,
                    pods.device_ids(one.row),
                    by_row[one.row].number,
                    one.gang,
                    one.origin,
                    one.until_us,
                )

    def recall(self, happened: ReplacementsRecalled) -> None:
        """Places from before a restart; ``resume`` looks at them anew."""
        known = self.state.pods.row_by_uid
        for kept in happened.kept:
            # Whatever becomes of it, what is written there is to be what is kept.
            self.changed[kept.node] = None
            if kept.like.uid not in known:
                self.recalled.append((self._add(kept.like, kept.victim, kept.gang), kept))

    def resume(self, at_us: int) -> None:
        """Keep the places again that are free once all pods that leave are gone, for those that are to come.

        Pods that came meanwhile take theirs over.
        """
        recalled, self.recalled = sorted(self.recalled, key=lambda one: one[1].number), []
        resumed = self._that_fit(
            [self._placed(one, kept) for one, kept in recalled if self._lasts(kept, at_us)]
        )
        for one, kept in recalled:
            if one.row not in resumed:
                self.drop(one.row)
                continue
            one.origin = kept.origin
            # What was written down counts for no longer than a place is ever kept.
            one.until_us = None if kept.until_us is None else min(kept.until_us, at_us + KEPT_FOR_US)
            self._nominate(one, resumed[one.row], kept.number)
        state = self.state
        waiting = [row for row in state.pods.row_by_uid.values() if state.pods.state(row) is PodState.WAITING]
        # In the order in which they came, as if each came now.
        for row in sorted(waiting, key=state.sequence_of) if resumed else ():
            if row not in state.replacements:
                self.take_over(row)

    def _lasts(self, kept: ReplacementPlace, at_us: int) -> bool:
        """True unless the time of a place is over, or the pod that was to leave for it stays."""
        claims = kept.like.shape.relations.device_claims
        if not all(path in self.state.neighbours.device_claims.known for path in claims):
            # What stood for the claims of the pod that is to come is not written down.
            return False
        stays = kept.victim in self.state.pods.row_by_uid
        if stays and self.state.departures.is_departing(kept.victim):
            stays = False
        return not stays and (kept.until_us is None or kept.until_us > at_us)

    def _placed(self, one: Replacement, kept: ReplacementPlace) -> Placement | None:
        uid = self.state.pods.pod_at(one.row).uid
        place = recalled_placement(self.state, ReservedPlace(uid, kept.node, kept.devices))
        return place if place is not None and is_welcome(self.state, place) else None

    def _that_fit(self, places: Iterable[Placement | None]) -> dict[int, Placement]:
        """The places that are free together when every pod that leaves is gone, by their rows."""
        state, found = self.state, dict[int, Placement]()
        with state.trial() as trial:
            trial.end_all(Leaving(state).rows.tolist())
            for place in places:
                if place is None:
                    continue
                state.pods.make_journal_room(1, len(place.devices))
                if self.nominations.fits_and_is_placed(place):
                    found[place.row] = place
        return found
