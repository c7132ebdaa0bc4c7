"""Trying something on the real state, and taking it back unless it is kept.

Gangs use it to place all members or none, victim searches to prove that an eviction helps. Every
write goes through the journal, so leaving the ``with`` block without ``keep`` restores the state
whatever was done inside. What neighbours count follows the places, there and back.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.journal import undo_by_handle
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.placing import release_all_by_handle
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.choose.placement import NO_NODES, place_members_by_handle
from gpufleet.engine.place.choose.policy_state import PolicyState
from gpufleet.engine.place.choose.related_places import RelatedPlaces
from gpufleet.engine.place.relations.place_choice import PlaceChoice
from gpufleet.engine.state.model_order import Models
from gpufleet.engine.state.pods import PodTable
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import PodUid

WAITING = int(PodState.WAITING)


class Trial:
    """A span of writes that is undone at its end unless ``keep`` was called.

    Where ``only_models`` are set, pods that ask for GPUs get those of no other models.
    """

    def __init__(
        self,
        store: TableStore,
        shapes: ShapeTable,
        pods: PodTable,
        policy: PolicyState,
        related: RelatedPlaces,
    ) -> None:
        self.store = store
        self.shapes = shapes
        self.pods = pods
        self.policy = policy
        self.related = related
        self.mark = 0
        self.kept = False
        self.only_models: Models = ()
        self._moved: dict[int, PlaceChoice | None] = {}
        self._attributes: list[tuple[object, str, object]] = []

    def __enter__(self) -> Self:
        self.mark = self.store.mark()
        self.kept = False
        self._moved.clear()
        self._attributes.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.kept:
            self.undo()

    def keep(self) -> None:
        """What was done stays."""
        self.kept = True

    def keep_within(self, outer: "Trial") -> None:
        """What was done stays for as long as the trial around this one does."""
        self.kept = True
        # That trial's undo leads back to where a pod was before it, not before this one.
        outer.adopt(self._moved, self._attributes)

    def adopt(
        self, moved: dict[int, PlaceChoice | None], attributes: list[tuple[object, str, object]]
    ) -> None:
        """A trial within this one was kept: these pods moved, with what was chosen there, and these
        attributes were set.
        """
        for row, choice in moved.items():
            self._moved.setdefault(row, choice)
        self._attributes += attributes

    def put(self, owner: object, attribute: str, value: object) -> None:
        """Set an attribute of something that belongs to the state; undone with what the trial wrote."""
        self._attributes.append((owner, attribute, getattr(owner, attribute)))
        setattr(owner, attribute, value)

    def undo(self) -> None:
        """Back to the beginning of the trial, to try something else."""
        undo_by_handle(self.store.handle, self.mark)
        while self._attributes:
            setattr(*self._attributes.pop())
        for row, choice in self._moved.items():
            self.related.neighbours.follow(row)
            self.related.neighbours.choose_again(row, choice)
        self._moved.clear()

    def _follow(self, rows: Sequence[int] | Int64Array) -> None:
        """The places of these pods may have changed."""
        neighbours = self.related.neighbours
        if neighbours.is_active:
            for row in map(int, rows):
                # Only the first move of a pod in a trial knows what it had before the trial.
                self._moved.setdefault(row, neighbours.choice_of(row))
                neighbours.follow(row)

    def release(self, uid: PodUid) -> None:
        """See the fleet without this pod; one that holds nothing of the fleet changes nothing."""
        self.release_all([self.pods.row_by_uid[uid]])

    def release_all(self, rows: Sequence[int] | Int64Array, *, uncharged: bool = False) -> None:
        """See the fleet without these pods; ``uncharged``: those that leave are charged no more."""
        if not len(rows):
            return
        self.pods.make_journal_room(len(rows), self.store.tables.pod_devices.shape[1])
        release_all_by_handle(
            self.store.handle,
            np.asarray(rows, np.int64),
            WAITING,
            self.pods.eviction_columns.cells,
            int(uncharged),
        )
        self._follow(rows)

    def end_all(
        self,
        rows: Sequence[int] | Int64Array,
        *,
        uncharged: bool = False,
        ended_claims: frozenset[str] = frozenset(),
    ) -> None:
        """See the fleet as it is once these pods have ended: what they have by resource claims is free, too.

        So are the devices of ``ended_claims``.
        """
        self.release_all(rows, uncharged=uncharged)
        neighbours = self.related.neighbours
        left = neighbours.left_claims | neighbours.claims_given_up(map(int, rows)) | ended_claims
        if left != neighbours.left_claims:
            self.put(neighbours, "left_claims", left)

    def place(self, shape_row: int, rows: list[int], nodes: Int64Array = NO_NODES) -> int:
        """Place waiting pods of one shape, on these nodes only if any are given; how many fit."""
        count = int(self.store.tables.shapes[layout.SHAPE_GPU_COUNT, shape_row])
        self.pods.make_journal_room(len(rows), count)
        placed = more = self._place_next(rows, nodes)
        # Only then may a pass end while there is room elsewhere: it places on one group of nodes or models.
        if self.related.gate.is_choosy or self.shapes.shape_at(shape_row).gpu.model_order:
            while more and placed < len(rows):
                more = self._place_next(rows[placed:], nodes)
                placed += more
        self._follow(rows[:placed])
        return placed

    def _place_next(self, rows: list[int], nodes: Int64Array) -> int:
        """Place as many as fit on the models whose turn it is, 0 if there are none left.

        A pod that is placed may use up the quota for some devices, and the next one is tried on others.
        """
        for narrowed in self.related.gate.in_order(rows[0], nodes, self.only_models):
            placed = place_members_by_handle(
                self.store.handle,
                self.shapes.rankings_handle,
                self.policy.handle,
                narrowed.slot,
                np.array(rows, np.int64),
                narrowed.nodes,
            )
            if placed:
                return placed
        return 0

    def place_related(self, row: int, nodes: Int64Array = NO_NODES) -> bool:
        """Place one waiting pod where its neighbours allow it; False if there is no such place."""
        placed = self.related.place(row, nodes, self.only_models)
        if placed:
            # Nothing was chosen for a pod that waits.
            self._moved.setdefault(row, None)
        return placed

    def place_pod(self, uid: PodUid) -> bool:
        """Place one waiting pod; False if it fits nowhere, or has a place already."""
        row = self.pods.row_by_uid[uid]
        return self.pods.node_row(row) is None and self.place_row(row)

    def place_row(self, row: int, nodes: Int64Array = NO_NODES) -> bool:
        """Place the waiting pod of a row, on these nodes only if any are given; False if it fits on none."""
        neighbours = self.related.neighbours
        if neighbours.is_watchful and neighbours.concerns(row):
            return self.place_related(row, nodes)
        shape_row = int(self.store.tables.pods[layout.POD_SHAPE, row])
        return self.place(shape_row, [row], nodes) == 1
