"""Work behind a reservation may run on the reserved nodes if it ends before the holder can start.

It is placed as if the reservations that it does not delay were not there, and these are booked again on top
of it, where they were. Work without a known end stays off, because it may end too late, so that the reserved
nodes empty however much small work there is; unless it may be interrupted (``guests``). Work whose run time
is only learned is let in as a guest too, if it is expected to end before, or if no end of the work that the
holder waits for is known: such a place could stay empty for weeks, and a guest ends as soon as the holder
can start.
"""

from typing import NamedTuple

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.placing import place
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import chosen_by, placement_of
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.engine.reserve.reservations import HeldReservation, Reservations


class Passage(NamedTuple):
    """A reservation that does not keep a workload off: because that ends ``within_us``, or as its guest."""

    held: HeldReservation
    within_us: int | None

    @property
    def as_guest(self) -> bool:
        """True for work that ends for the holder's sake whenever that can start."""
        return self.within_us is None


class Backfill:
    """Places work that is in no holder's way."""

    def __init__(self, state: EngineState, reservations: Reservations) -> None:
        self.state = state
        self.reservations = reservations

    def place(self, unplaced: UnplacedWorkload) -> list[int]:
        """Place a workload where others will start later; the rows placed, none if it may not or cannot."""
        not_delayed = self._not_delayed_by(unplaced)
        if not not_delayed:
            return []
        state = self.state
        kept = [placement_of(state, row) for one in not_delayed for row in one.held.nomination.rows]
        with state.trial() as without:
            without.release_all([at.row for at in kept])
            with state.trial() as trial:
                # Placed while the reservations are released, which are then booked again on top of it.
                placed = unplaced.workload.place(trial)
                if not placed:
                    return []
                trial.keep()
            # Kernels cannot allocate: room for what ``place`` notes has to be there before.
            state.pods.make_journal_room(len(kept), state.store.tables.pod_devices.shape[1])
            for at in kept:
                place(state.store.tables, at.row, at.node, chosen_by(at), int(PodState.NOMINATED))
                state.neighbours.follow(at.row)
                state.neighbours.choose_again(at.row, at.choice)
            without.keep()
        for one in not_delayed:
            self._make_wait(one, placed, unplaced.at_us)
        return placed

    def _not_delayed_by(self, unplaced: UnplacedWorkload) -> list[Passage]:
        """The reservations whose holders can start when they could without the workload."""
        held = self.reservations.held()
        if not held:
            return []
        at_us, ends, guests = unplaced.at_us, self.reservations.ends, self.reservations.guests
        known = [ends.end_if_started_us(row, at_us) for row in unplaced.rows]
        end_us = None if None in known else max(end for end in known if end is not None)
        learned_us = self._learned_end_us(unplaced)
        # Work of which no end is known, and none was learned, is kept off by every holder.
        if end_us is None and learned_us is None:
            return []
        found = []
        for one in held:
            may_come = learned_us is not None and guests.may_come(unplaced, one.holder, one.nomination)
            in_time = self._ends_before(one, end_us, at_us)
            within_us = None if end_us is None or not in_time else end_us - at_us
            if may_come and self._may_be_guest(one, learned_us, at_us):
                # A guest that may end at any time promises no end.
                found.append(Passage(one, None if learned_us == at_us else within_us))
            elif in_time:
                found.append(Passage(one, within_us))
        return found

    def _learned_end_us(self, unplaced: UnplacedWorkload) -> int | None:
        """When a guest is expected to have ended, None if that is not known.

        Now for work that may be interrupted at any time: when it would end does not matter.
        """
        state, end_us = self.state, unplaced.at_us
        for row in unplaced.rows:
            pod = state.pods.pod_at(row)
            if not pod.interruptible:
                length_us = state.learned.bound_us(state.queue_of(row), pod)
                if length_us is None:
                    return None
                end_us = max(end_us, unplaced.at_us + length_us)
        return end_us

    def _may_be_guest(self, one: HeldReservation, learned_us: int | None, at_us: int) -> bool:
        """True for work that is expected to end in time, or if the holder's start is not known."""
        if learned_us is None:
            return False
        # Equal to now stands for work that may be interrupted at any time (``_learned_end_us``).
        if learned_us == at_us or self._ends_before(one, learned_us, at_us):
            return True
        return self.reservations.start_us(one, at_us) is None

    def _ends_before(self, one: HeldReservation, end_us: int | None, at_us: int) -> bool:
        return end_us is not None and self.reservations.is_free_until(one, end_us, at_us)

    def _make_wait(self, through: Passage, placed: list[int], at_us: int) -> None:
        """A holder waits for the work that was let in before it too, for guests wherever they are: what they
        hold may be quota. Work that said when it ends becomes a guest then.
        """
        pods, one = self.state.pods, through.held
        nodes = {pods.node_row(row) for row in one.nomination.rows}
        for row in placed:
            in_its_way = pods.node_row(row) in nodes or self.state.queue_of(row) == one.queue
            if through.as_guest or in_its_way:
                self.state.departures.wait_also(one.nomination, pods.pod_at(row).uid)
        if through.as_guest or self.reservations.guests.end_for(one.nomination):
            uids = [pods.pod_at(row).uid for row in placed]
            self.reservations.let_in(one, uids, through.within_us, at_us)
