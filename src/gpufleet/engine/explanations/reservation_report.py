"""What is told of reservations: to the shell when they change, and to waiting work that asks."""

import msgspec

from gpufleet.engine.arrays import layout
from gpufleet.engine.instruction import (
    Reservation,
    ReservationEnded,
    ReservationHint,
    Reserved,
    Verdict,
)
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.ranking import best_node_by_handle
from gpufleet.engine.queueing.line import SeenLabels
from gpufleet.engine.reserve.guests import Holder
from gpufleet.engine.reserve.reservations import HeldReservation, Reservations
from gpufleet.engine.state.gang_members import Members


class ReservationReport:
    """Remembers what was told."""

    def __init__(self, state: EngineState, reservations: Reservations) -> None:
        self.state = state
        self.reservations = reservations
        self._reported: dict[Holder, Reservation] = {}
        self._kept_off: dict[tuple[int, int, SeenLabels], ReservationHint | None] = {}
        self._kept_off_as_of = (-1, -1)

    @property
    def may_have_news(self) -> bool:
        """True if something is reserved, or was when this was last asked."""
        return bool(self._reported) or bool(self.reservations.held_by_holder)

    def news(self, at_us: int) -> list[Reserved | ReservationEnded]:
        """What changed since this was last asked."""
        held = self.reservations.held()
        if not held and not self._reported:
            return []
        now = {one.holder: self.reservations.value(one, at_us) for one in held}
        ended = [ReservationEnded(holder) for holder in self._reported if holder not in now]
        made = [Reserved(value) for holder, value in now.items() if self._is_news(holder, value)]
        self._reported = now
        return [*ended, *made]

    def _is_news(self, holder: Holder, value: Reservation) -> bool:
        """True unless all that changed is for whose end it waits."""
        reported = self._reported.get(holder)
        return reported is None or msgspec.structs.replace(reported, waits_for=value.waits_for) != value

    def complete(self, verdict: Verdict, row: int, at_us: int) -> Verdict:
        """The verdict about a waiting pod with what reservations have to do with it."""
        held = self.reservations.held()
        if not held:
            return verdict
        own = self.reservations.of_row(row)
        if own is not None:
            return msgspec.structs.replace(verdict, reserved=self.reservations.hint(own, at_us))
        found = self._keeping_off(held, row, at_us)
        return verdict if found is None else msgspec.structs.replace(verdict, kept_off_by=found)

    def _keeping_off(self, held: list[HeldReservation], row: int, at_us: int) -> ReservationHint | None:
        """The first reservation without which a pod would have a place, None if none of them matters."""
        as_of = (self.reservations.version, at_us)
        # What is remembered holds for one moment and one set of reservations.
        if as_of != self._kept_off_as_of:
            self._kept_off.clear()
            self._kept_off_as_of = as_of
        pods, neighbours = self.state.store.tables.pods, self.state.neighbours
        seen_labels: SeenLabels = neighbours.seen_labels(row) if neighbours.is_watchful else ()
        key = (int(pods[layout.POD_SHAPE, row]), int(pods[layout.POD_QUEUE, row]), seen_labels)
        if key not in self._kept_off:
            found = next((one for one in held if self._fits_without(one, row)), None)
            self._kept_off[key] = None if found is None else self.reservations.hint(found, at_us)
        return self._kept_off[key]

    def _fits_without(self, one: HeldReservation, row: int) -> bool:
        state = self.state
        with state.trial() as trial:
            trial.release_all(list(one.nomination.rows))
            # Quota is asked first: a reserved place is charged too, and its release may be what the pod
            # needs.
            if state.gate.is_active and state.gate.keeps_out(row):
                return False
            slot = state.shapes.slot(int(state.store.tables.pods[layout.POD_SHAPE, row]))
            handles = (state.store.handle, state.shapes.rankings_handle, state.policy.handle)
            if best_node_by_handle(*handles, slot) == layout.NOT_SET:
                return False
            # What other pods and volumes decide stands in no ranking.
            neighbours = state.neighbours
            return not (neighbours.is_watchful and neighbours.concerns(row)) or trial.place_related(row)

    def complete_gang(self, verdict: Verdict | None, members: Members, at_us: int) -> Verdict | None:
        """The verdict of a gang with the reservation that keeps it off: the gang is tried as a whole.

        None of a gang whose members have not come.
        """
        if verdict is None:
            return None
        for one in self.reservations.held():
            state = self.state
            with state.trial() as without:
                without.release_all(list(one.nomination.rows))
                with state.trial() as trial:
                    fits = bool(state.gangs.place(members, trial, surplus=False))
            if fits:
                return msgspec.structs.replace(verdict, kept_off_by=self.reservations.hint(one, at_us))
        return verdict
