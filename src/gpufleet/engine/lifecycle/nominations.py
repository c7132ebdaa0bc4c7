"""Places that are kept for work until pods that end have left them.

A nominated pod is booked like any other, in addition to the pods that still run there, so that no other pod
is placed into the room that these leave. It is bound as soon as what it needs is really free, which is asked
of the same kernels as every placement: with the nominated pods that came later taken away, does it fit on its
node and devices? Facts win: whatever changes on a node from outside the engine ends the nominations there;
they are in force again if their places are still proven, and otherwise their workloads wait. One that could
run elsewhere at once is moved.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.eviction_columns import NO_NOMINATION, NOMINATION
from gpufleet.engine.arrays.journal import undo_by_handle
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.placing import place_by_handle, release_all_by_handle
from gpufleet.engine.event import KeptPlaces, NominationsRecalled, RoomMade
from gpufleet.engine.instruction import Nominated, NominationWithdrawn, ReservedPlace
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.place.relations.place_choice import PlaceChoice
from gpufleet.engine.place.score import fit
from gpufleet.model.identifiers import PodUid, QueueName


class Placement(NamedTuple):
    """Where a pod goes: its row, the node's, the devices', and what was chosen with them."""

    row: int
    node: int
    devices: tuple[int, ...]
    choice: PlaceChoice | None


def placement_of(state: EngineState, row: int) -> Placement:
    """Where a pod is booked now."""
    tables = state.store.tables
    count = int(tables.shapes[layout.SHAPE_GPU_COUNT, tables.pods[layout.POD_SHAPE, row]])
    devices = tuple(tables.pod_devices[row, :count].tolist())
    return Placement(row, int(tables.pods[layout.POD_NODE, row]), devices, state.neighbours.choice_of(row))


def recalled_placement(state: EngineState, place: ReservedPlace) -> Placement | None:
    """A place that was written down before a restart; None where it cannot be one of this pod any more.

    The pod must be known and get as many devices as it asks for, each once and all of them on the node.
    """
    tables, fleet = state.store.tables, state.fleet
    row, node = state.pods.row_by_uid.get(place.uid), fleet.row_by_name.get(place.node)
    if row is None or node is None:
        return None
    found = (fleet.device_row_by_id.get(one) for one in place.devices if one is not None)
    devices = tuple(dict.fromkeys(one for one in found if one is not None))
    count = int(tables.shapes[layout.SHAPE_GPU_COUNT, tables.pods[layout.POD_SHAPE, row]])
    # A device that the fleet does not have any more, or one named twice, leaves the place incomplete.
    if len(devices) != count or len(place.devices) != count:
        return None
    if any(int(tables.devices[layout.DEVICE_NODE, one]) != node for one in devices):
        return None
    return Placement(row, node, devices, None)


def is_welcome(state: EngineState, place: Placement) -> bool:
    """True unless the node went, or does not accept the pod any more."""
    tables, shapes = state.store.tables, state.shapes
    slot = shapes.slot(int(tables.pods[layout.POD_SHAPE, place.row]))
    is_present = tables.nodes[layout.NODE_PRESENT, place.node] == 1
    return bool(is_present and shapes.rankings.refused[slot, place.node] == 0)


def chosen_by(placement: Placement) -> Int64Array:
    """The devices as the kernels take them."""
    return np.array(placement.devices or (layout.NOT_SET,), np.int64)


class Nominations:
    """Keeps places and gives them out, or takes them back."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.departures = state.departures
        self.withdrawn: dict[PodUid, None] = {}
        self.recalled: list[KeptPlaces] = []
        self.made: list[RoomMade] = []
        self._prolonged: dict[int, None] = {}

    @property
    def are_pending(self) -> bool:
        """True if places are to be kept, or something is to be said of places that were kept."""
        return bool(self.withdrawn or self.recalled or self.made or self._prolonged)

    def nominate(
        self,
        placements: tuple[Placement, ...],
        waits_for: tuple[PodUid, ...],
        *,
        reserved: bool = False,
        number: int | None = None,
    ) -> Nomination:
        """Keep these places for a workload until these pods are gone.

        ``number`` is that of a nomination that goes on; None for a new one. ``reserved``: these pods were not
        told to end, and ``reserve`` sees to it that the workload is tried again in its turn.
        """
        state = self.state
        for one in placements:
            self._book(one)
        rows = tuple(one.row for one in placements)
        nodes = {one.node for one in placements}
        pods = state.pods
        elsewhere = tuple(uid for uid in waits_for if pods.node_row(pods.row_by_uid[uid]) not in nodes)
        alike = None
        if reserved:
            elsewhere = ()
        elif state.workloads.of(rows[0]).is_single:
            # Equal shapes need the same room, so one that cannot move speaks for all.
            alike = int(state.store.tables.pods[layout.POD_SHAPE, rows[0]])
        for row in rows:
            state.nominated(row)
        nomination = self.departures.nominate(
            rows, alike, waits_for, elsewhere, reserved=reserved, number=number
        )
        state.update_gang_of(rows[0])
        return nomination

    def instructions_of(self, nomination: Nomination) -> list[Nominated]:
        """What is said of a nomination, pod by pod."""
        state = self.state
        said: list[Nominated] = []
        for row in nomination.rows:
            node = int(state.store.tables.pods[layout.POD_NODE, row])
            uid = state.pods.pod_at(row).uid
            # A place that was lost and found again within a step is no loss to be told.
            self.withdrawn.pop(uid, None)
            said.append(Nominated(uid, state.fleet.node_at(node).name, tuple(nomination.waits_for)))
        return said

    def _book(self, one: Placement) -> None:
        state = self.state
        state.pods.make_journal_room(1, len(one.devices))
        place_by_handle(state.store.handle, one.row, one.node, chosen_by(one), int(PodState.NOMINATED))
        state.pods.booked(one.row)
        state.neighbours.follow(one.row)
        state.neighbours.choose_again(one.row, one.choice)

    def cancel(self, nomination: Nomination) -> None:
        """The places are not kept any more: the workload waits as before."""
        self.take_back(nomination)
        if not nomination.reserved:
            for row in nomination.rows:
                self.withdrawn[self.state.pods.pod_at(row).uid] = None
        self.state.changes.note(Change.PLACE_GIVEN_UP)

    def take_back(self, nomination: Nomination) -> None:
        """The places are not kept any more, and that is not told."""
        state = self.state
        self.departures.end(nomination)
        for row in nomination.rows:
            state.pods.unbook(row, PodState.WAITING)
        state.neighbours.follow_moves()
        for row in nomination.rows:
            state.lost_nomination(row)

    def cancel_of(self, row: int) -> None:
        """A pod is about to be described anew, to be bound by another scheduler, or to be forgotten."""
        nomination = self.departures.by_row.get(row)
        if nomination is not None:
            self.cancel(nomination)

    def cancel_of_gang(self, row: int) -> None:
        """The gang of a pod loses it: places kept for others may not make its minimum any more.

        What is reserved is looked at anew in every step.
        """
        for other in self.state.workloads.nominated_with(row):
            nomination = self.departures.by_row.get(other)
            if nomination is not None and not nomination.reserved:
                self.cancel(nomination)

    def cancel_on(self, node: int | None) -> None:
        """Something changed on a node from outside the engine: nominations there are looked at anew."""
        if not self.departures.by_row or node is None:
            return
        # A copy: a nomination that is cancelled takes its pod off the node.
        for row in list(self.state.pods.on_node.get(node, ())):
            self._prove_again(row)

    def cancel_in_domains(self) -> None:
        """The domains of labels changed: places that depend on them are looked at anew, on whatever node."""
        if self.departures.by_row and self.state.neighbours.is_active:
            for row in list(self.departures.by_row):
                if self.state.neighbours.depends_on_domains(row):
                    self._prove_again(row)

    def _prove_again(self, row: int) -> None:
        """The place that is kept for a pod is given up, and kept again where it is still one."""
        nomination = self.departures.by_row.get(row)
        if nomination is not None:
            if not nomination.reserved:
                self.recalled.append(self._kept(nomination))
            self.cancel(nomination)

    def cancel_waiting_for(self, uid: PodUid) -> None:
        """A pod does not end, or not where it was."""
        for nomination in self.departures.waiting_for(uid):
            self.cancel(nomination)

    def take_withdrawn(self) -> list[NominationWithdrawn]:
        """Pods that lost the place that was kept for them since this was last asked."""
        if not self.withdrawn:
            return []
        said = [NominationWithdrawn(uid) for uid in self.withdrawn if self._has_no_place(uid)]
        self.withdrawn.clear()
        return said

    def _has_no_place(self, uid: PodUid) -> bool:
        """True for a pod that waits; a reservation is no place that others leave for it."""
        row = self.state.pods.row_by_uid.get(uid)
        if row is None:
            return False
        nomination = self.departures.by_row.get(row)
        if nomination is not None:
            return nomination.reserved
        return self.state.pods.state(row) in {PodState.WAITING, PodState.BACKOFF}

    def recall(self, happened: NominationsRecalled) -> None:
        """Nominations from before a restart; ``preempt.recalled_nominations`` looks at them anew."""
        self.recalled += happened.kept
        for one in happened.kept:
            # Also of work that has its place by now, and of work that gets another one.
            self.state.recall_immunity_of((place.uid for place in one.places), one.immune_to)

    def room_made(self, happened: RoomMade) -> None:
        """Room for a pod; ``preempt.recalled_nominations`` sees whether the pod can go there."""
        self.made.append(happened)

    def resume(
        self, placements: tuple[Placement, ...], waits_for: tuple[PodUid, ...], number: int | None
    ) -> list[Nominated]:
        """Keep these places again, before the nominations that came later; what is said of it."""
        nomination = self.nominate(placements, waits_for, number=number)
        # The last of those it waits for may have gone while no scheduler was there to see it.
        self.departures.unsettled[nomination.number] = None
        return self.instructions_of(nomination)

    def kept(self) -> tuple[KeptPlaces, ...]:
        """The nominations that are in force, in their order, without what is only reserved."""
        return tuple(self._kept(one) for one in self.departures.nominations.values() if not one.reserved)

    def _kept(self, nomination: Nomination) -> KeptPlaces:
        state, rows = self.state, nomination.rows
        holder = state.pods.pod_at(rows[0]).workload
        places = tuple(
            ReservedPlace(
                state.pods.pod_at(row).uid,
                state.fleet.node_at(int(state.store.tables.pods[layout.POD_NODE, row])).name,
                state.pods.device_ids(row),
            )
            for row in rows
        )
        immune_to: set[QueueName] = set()
        immune_to.update(*(state.eviction_immunity.immune_to(place.uid) for place in places))
        waits_for, queue = tuple(nomination.waits_for), state.named_queue(rows[0])
        return KeptPlaces(holder, queue, nomination.number, places, waits_for, tuple(sorted(immune_to)))

    def settle(self) -> list[int]:
        """The rows of nominated pods that can be bound now, in the order of their nomination.

        Those that wait for no pod any more and do not fit all the same wait again.
        """
        # A copy, because what is cancelled below may be noted anew for the next time.
        numbers = dict(self.departures.unsettled)
        self.departures.unsettled.clear()
        if self.departures.by_row:
            for node in self.state.pods.left_nodes:
                for row in self.state.pods.on_node.get(node, ()):
                    if row in self.departures.by_row:
                        numbers[self.departures.by_row[row].number] = None
        ready: list[int] = []
        # In the order of nomination: earlier ones have the first right to what became free.
        for number in sorted(numbers):
            nomination = self.departures.nominations[number]
            if nomination.reserved:
                continue
            if self.is_ready(nomination):
                ready += self.take(nomination)
            elif not (nomination.waits_for or self._waits_on(nomination) or self._awaits_claims(nomination)):
                self.cancel(nomination)
        return ready

    def _waits_on(self, nomination: Nomination) -> bool:
        """True if a workload lacks, when all that it waited for have left, nothing but quota that further
        pods leave: it waits for these, too.

        Work that was nominated with it may have started first, with the quota that was left for this one,
        while pods still run that leave as much for that work.
        """
        if not self._has_room(nomination):
            return False
        rows, state = nomination.rows, self.state
        needed = state.future_quota.awaited_besides(rows, nomination.number, self._leaving_in_tree_of(rows))
        for row in needed:
            self.departures.wait_also(nomination, state.pods.pod_at(row).uid)
            self._prolonged[nomination.number] = None
        return bool(needed)

    def _awaits_claims(self, nomination: Nomination) -> bool:
        """True if a workload lacks nothing but devices of claims whose pods are gone: a claim gives them back
        some time after its last pod has ended.
        """
        neighbours = self.state.neighbours
        if not any(map(neighbours.asks_for_devices, nomination.rows)):
            return False
        ended = neighbours.ended_claims()
        return bool(ended) and self._has_room(nomination) and self._neighbours_agree(nomination, ended)

    def take_prolonged(self) -> list[Nominated]:
        """Pods that wait for further pods since this was last asked, and for which they wait now."""
        if not self._prolonged:
            return []
        still = [number for number in self._prolonged if number in self.departures.nominations]
        self._prolonged.clear()
        return [one for number in still for one in self.instructions_of(self.departures.nominations[number])]

    def _leaving_in_tree_of(self, rows: tuple[int, ...]) -> list[int]:
        """The pods that leave and whose queue shares its quota with that of these pods."""
        pods, tables = self.state.pods, self.state.store.tables
        queue_rows, roots = tables.pods[layout.POD_QUEUE], tables.queues[layout.QUEUE_ROOT]
        own = int(queue_rows[rows[0]])
        if own == layout.NOT_SET:
            return []
        leaving = [pods.row_by_uid[uid] for uid in self.departures.departing() if uid in pods.row_by_uid]
        return [
            row
            for row in leaving
            if pods.node_row(row) is not None
            and queue_rows[row] != layout.NOT_SET
            and roots[queue_rows[row]] == roots[own]
        ]

    def take(self, nomination: Nomination) -> list[int]:
        """The nomination ends because its pods are to be bound where they are."""
        self.departures.end(nomination)
        for row in nomination.rows:
            self.state.pods.mark(row, PodState.ASSUMED)
            self.state.neighbours.follow(row)  # It is not a place that is only kept any more.
        return list(nomination.rows)

    def is_ready(self, nomination: Nomination) -> bool:
        """True if everything that the workload needs is really free.

        A pod that is concerned by what pods decide about each other waits for all to leave.
        """
        neighbours = self.state.neighbours
        is_tied = neighbours.is_active and any(map(neighbours.concerns, nomination.rows))
        if nomination.elsewhere or (is_tied and nomination.waits_for):
            return False
        if not self._has_room(nomination):
            return False
        if not self.state.future_quota.keeps_promises(nomination.rows, nomination.number):
            return False
        return not is_tied or self._neighbours_agree(nomination)

    def _has_room(self, nomination: Nomination) -> bool:
        """True if its pods fit where they are, without nominations that came later."""
        pods = self.state.pods
        # By columns, as thousands of pods may run on these nodes, and thousands have nominations.
        number_of = pods.eviction_columns.cells[NOMINATION, : len(pods.pods)]
        aside = np.flatnonzero((number_of >= nomination.number) & (number_of != NO_NOMINATION))
        node_of = self.state.store.tables.pods[layout.POD_NODE]
        near = np.isin(node_of[aside], node_of[list(nomination.rows)])
        return self._really_fit(nomination.rows, aside[near])

    def _neighbours_agree(self, nomination: Nomination, ended_claims: frozenset[str] = frozenset()) -> bool:
        """True unless a pod that came since keeps one of these out, on another node of a domain perhaps.

        Volumes are chosen anew: a pod that shares a claim with them may have had another chosen since. The
        devices of ``ended_claims`` are free.
        """
        nodes = {row: int(self.state.store.tables.pods[layout.POD_NODE, row]) for row in nomination.rows}
        with self.state.trial() as trial:
            trial.release_all(self._not_before(nomination, list(self.departures.by_row)))
            trial.end_all((), ended_claims=ended_claims)
            future = self.state.future_quota
            future.change(future.charges(nomination.number).awaited, -1)
            agree = all(trial.place_related(row, np.array([node], np.int64)) for row, node in nodes.items())
            choices = {row: self.state.neighbours.choice_of(row) for row in nodes}
        if agree:
            for row, choice in choices.items():
                self.state.neighbours.choose_again(row, choice)
        return agree

    def _not_before(self, nomination: Nomination, rows: list[int]) -> list[int]:
        """The nominated pods that came with this nomination or after it.

        A nomination that came before counts as if it ran already: it may need what is free by now and more.
        """
        return [row for row in rows if self.departures.by_row[row].number >= nomination.number]

    def _really_fit(self, rows: tuple[int, ...], aside: Int64Array) -> bool:
        """True if there is room for these nominated pods together where they are, without those that stand
        aside.
        """
        pods, store = self.state.pods, self.state.store
        kept = [placement_of(self.state, row) for row in rows]
        mark = store.mark()
        pods.make_journal_room(len(aside) + len(rows), store.tables.pod_devices.shape[1])
        release_all_by_handle(store.handle, aside, int(PodState.WAITING), pods.eviction_columns.cells, 0)
        has_room = all(map(self.fits_and_is_placed, kept))
        undo_by_handle(store.handle, mark)
        return has_room

    def fits_and_is_placed(self, one: Placement) -> bool:
        """Book a pod where it is to go, inside a trial, if that is really free."""
        tables = self.state.store.tables
        shape = int(tables.pods[layout.POD_SHAPE, one.row])
        # A device that its node does not show any more is not free, whatever the amounts say.
        if layout.NOT_SET in one.devices or not fit.host_fits(tables, shape, one.node):
            return False
        if not all(fit.device_fits(tables, shape, device) for device in one.devices):
            return False
        place_by_handle(self.state.store.handle, one.row, one.node, chosen_by(one), int(PodState.NOMINATED))
        return True

    def move(self) -> list[int]:
        """Nominated pods that fit on really free room by now are placed there; their rows.

        This is the way out where a pod that was told to end never does.
        """
        moved: list[int] = []
        # Copies: a nomination that moves leaves both.
        for alike in list(self.departures.by_needs):
            for number in list(self.departures.by_needs[alike]):
                nomination = self.departures.nominations[number]
                placed = self._place_anew(nomination)
                moved += placed
                # The others have the same needs, so where one finds no place the others find none.
                if not placed and not self.state.neighbours.is_watchful:
                    break
        for nomination in list(self.departures.nominations.values()):
            if nomination.alike is None and not nomination.reserved:
                moved += self._place_anew(nomination)
        return moved

    def _place_anew(self, nomination: Nomination) -> list[int]:
        """Place a workload as if nothing was kept for it; if that fails everything is as before."""
        state, rows = self.state, nomination.rows
        kept_on = {row: int(state.store.tables.pods[layout.POD_NODE, row]) for row in rows}
        with state.trial() as trial:
            trial.release_all(rows)
            placed = self._place(nomination, trial)
            if not placed:
                return []
            trial.keep()
        # Other nominations may be ready on the nodes that are given up: ``settle`` asks about these.
        for row, node in kept_on.items():
            state.pods.left(row, node)
        self.departures.end(nomination)
        for row in rows:
            if row not in placed:
                self.withdrawn[state.pods.pod_at(row).uid] = None
                state.lost_nomination(row)
        return placed

    def _place(self, nomination: Nomination, outer: Trial) -> list[int]:
        workload = self.state.workloads.of(nomination.rows[0])
        workload.let_wait(nomination.rows, outer)
        with self.state.trial() as trial:
            placed = workload.place(trial, surplus=True)
            if placed:
                trial.keep_within(outer)
        return placed
