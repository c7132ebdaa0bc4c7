"""An independent account of reservations: who was told to hold what, and whether that can come true."""

from collections.abc import Mapping

import msgspec

from gpufleet.engine.instruction import AnyInstruction, Bind, Reservation, ReservationEnded, Reserved
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from tests.engine.plain_fleet import PlainNode

Held = Mapping[PodUid, tuple[NodeName, tuple[DeviceId, ...]]]


class ReservationLedger:
    """What was told of reservations so far."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.by_holder: dict[str, Reservation] = {}
        self._before: dict[str, Reservation] = {}
        self._guests: dict[str, set[PodUid]] = {}
        self._there_first: dict[tuple[str, int], tuple[set[PodUid], set[PodUid]]] = {}

    def hear(self, said: list[AnyInstruction]) -> dict[PodUid, NodeName]:
        """Who holds which place by now."""
        self._before = dict(self.by_holder)
        for one in said:
            if isinstance(one, Bind):
                for promise in one.promises:
                    self._guests.setdefault(promise.holder, set()).update(
                        [one.uid] * (promise.within_us is None)
                    )
            if isinstance(one, ReservationEnded):
                assert one.holder in self.by_holder, f"{one.holder} loses what it did not have"
                del self.by_holder[one.holder]
            elif isinstance(one, Reserved):
                assert self.by_holder.get(one.reservation.holder) != one.reservation, "said twice"
                self.by_holder[one.reservation.holder] = one.reservation
        places = [place for one in self.by_holder.values() for place in one.places]
        assert len({place.uid for place in places}) == len(places)
        told = sorted(map(any_that_ends, self.by_holder.values()), key=lambda one: one.holder)
        held = map(any_that_ends, self.engine.reservations())
        assert told == sorted(held, key=lambda one: one.holder)
        return {place.uid: place.node for place in places}

    def moments(self) -> tuple[dict[PodUid, NodeName], dict[PodUid, NodeName]]:
        """The places held before this step, and those held after it.

        A decision sees the reservations of one of both moments, or none: they are put aside and made anew
        within a step. So the first pod of a group that runs may be near a place that is reserved for another
        one of its group, though a third one is nominated elsewhere. That one is asked again when its own
        turn to be bound comes.
        """
        held_before, held_now = self.by_holder.values(), self.engine.reservations()
        before = {place.uid: place.node for one in held_before for place in one.places}
        return before, {place.uid: place.node for one in held_now for place in one.places}

    def check(
        self,
        at_us: int,
        nodes: Mapping[NodeName, Node],
        pods: Mapping[PodUid, Pod],
        held: Held,
        ran_before: set[PodUid],
    ) -> None:
        """Nothing was started on reserved places that may still be there when their holders start.

        Where the start is known, what is not expected to have ended by then leaves the places free; where
        it is not, nothing without a known end has come to them since the step before. One that was made
        at this very moment may have been made anew, after work with a better right. Guests go when their
        holder can start, and nobody waits for guests alone.
        """
        self._check_guests(at_us, pods, held, ran_before)
        for holder, one in self.by_holder.items():
            if one.start_us is not None:
                stays = [uid for uid in held if not self._ends_by(pods[uid], at_us, one.start_us)]
            elif self._before.get(holder) == one and one.since_us < at_us:
                stays = [uid for uid in held if uid not in ran_before and not self._run_times_us(pods[uid])]
            else:
                continue
            stays = [uid for uid in stays if not self._is_guest(one, pods[uid], for_certain=False)]
            plain = {name: PlainNode(node) for name, node in nodes.items()}
            for uid in stays:
                plain[held[uid][0]].take(pods[uid].shape, held[uid][1])
            for place in one.places:
                needs, devices = pods[place.uid].shape, tuple(one for one in place.devices if one is not None)
                assert plain[place.node].fits(needs), f"{place.uid} will not fit on {place.node}"
                assert set(devices) <= set(plain[place.node].fitting_devices(needs)), place
                plain[place.node].take(needs, devices)

    def _check_guests(
        self, at_us: int, pods: Mapping[PodUid, Pod], held: Held, ran_before: set[PodUid]
    ) -> None:
        """Nobody holds a reservation any more who waits for nobody but guests that may be evicted."""
        refused = self.engine.state.departures.refused_until_us
        for one in self.engine.reservations():
            key = (one.holder, one.since_us)
            _, with_it = self._there_first.setdefault(key, (ran_before, set(held)))
            if one.since_us == at_us:
                with_it.update(held)
            waits_for = [pods[uid] for uid in one.waits_for]
            if not waits_for or not all(pods[place.uid].preempts for place in one.places):
                continue
            assert not all(
                self._is_guest(one, pod, for_certain=True)
                and pod.gang is None
                and pod.uid in ran_before - set(refused)
                for pod in waits_for
            ), f"{one.holder} waits for its guests"

    def _is_guest(self, one: Reservation, pod: Pod, *, for_certain: bool) -> bool:
        """True for who may be interrupted and came after the reservation was made, or an earlier one of its
        holder.

        Of those who came at that very moment nobody knows it ``for_certain``: it may have been made anew.
        """
        before, with_it = self._there_first.get((one.holder, one.since_us), (set(), set()))
        leaves = self.engine.state.departures.is_departing(pod.uid)
        first = with_it if for_certain else before
        came_after = pod.uid not in first or pod.uid in self._guests.get(one.holder, ())
        return pod.interruptible and pod.makes_room and not leaves and came_after

    def _ends_by(self, pod: Pod, at_us: int, by_us: int) -> bool:
        """True for work that ends by then as it said, or must end, or was told to."""
        state = self.engine.state
        if state.departures.is_departing(pod.uid):
            return True
        row = state.pods.row_by_uid[pod.uid]
        start_us = state.pods.started_at_us.get(row, state.pods.assumed_at_us.get(row, at_us))
        return any(at_us < start_us + length_us <= by_us for length_us in self._run_times_us(pod))

    def _run_times_us(self, pod: Pod) -> list[int]:
        """How long it says that it runs, and how long it may, which another ledger judges."""
        limit = self.engine.overtime.limit(self.engine.state.pods.row_by_uid[pod.uid])
        found = [pod.run_time_us, None if limit is None else limit.run_time_us]
        return [length_us for length_us in found if length_us is not None]


def any_that_ends(one: Reservation) -> Reservation:
    """The reservation but for whose end it waits, of which nobody is told anew."""
    return msgspec.structs.replace(one, waits_for=())
