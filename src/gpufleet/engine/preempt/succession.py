"""Searches that follow each other in a step: what one of them found out holds for the next.

A job of thousands of equal pods asks as many times, and between two of them little happens but what the
plan of the first one says. So as long as nothing else does, what pods leave and what is charged is kept up
to date plan by plan, and a pod that is like one before it goes on among the same candidates (``heir``).
Anything else that happens, whatever it is, and every new step, begins anew.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.admit.future import Charges
from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.preempt.heir import Carried, Heir, Will
from gpufleet.engine.preempt.leaving import Left
from gpufleet.engine.preempt.reach import Rank
from gpufleet.engine.preempt.victims import Asking, Plan
from gpufleet.model.identifiers import QueueName


class Stamp(NamedTuple):
    """What counts all that happens to places in a step."""

    step: int
    departures: int
    prospects: int

    def after(self, plan: Plan) -> "Stamp":
        """When nothing happens but that a plan is carried out: victims are told, and places kept."""
        return self._replace(departures=self.departures + len(plan.victims) + 1)


class Place(NamedTuple):
    """Who stands in the same place: equal pods of one queue and priority, evicted themselves or not."""

    shape: int
    queue: QueueName
    priority: int
    is_protected: bool


class Estate(NamedTuple):
    """What heirs share: what those who leave leave behind, all charges, and the plans carried out so far."""

    left: Left
    charges: Charges
    carried: list[Carried]


class Succession:
    """The heirs of a step."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self._heirs: dict[Place, Heir] = {}
        self._estate: Estate | None = None
        self._stamp = Stamp(0, 0, 0)
        self._expected: Plan | None = None

    def plan(self, asking: Asking, rank: Rank) -> Plan | None:
        """The plan for a pod that is like one before it, if that is known without a new search."""
        self._regard()
        place = self._place_of(asking, rank)
        heir = None if place is None else self._heirs.get(place)
        if place is None or heir is None or self._estate is None or not heir.is_like(rank):
            return None
        found = heir.plan(asking.row, self._estate.carried, self._estate.charges)
        if found is None:
            del self._heirs[place]
        self._expected = found
        return found

    def expect(self, plan: Plan) -> None:
        """A search found this plan, which is to be carried out."""
        self._expected = plan

    def hand_on(self, asking: Asking, will: Will, left: Left, charges: Charges | None) -> None:
        """What a search leaves behind is there for pods like this one, if they can go on with it.

        ``charges`` of now, if they are known already. They must not hold anybody who leaves and for whom
        nobody waits: then the future is more than what all promises come to.
        """
        place, books = self._place_of(asking, will.rank), self.books
        if place is None:
            return
        if self._estate is None or not self._heirs:
            self._estate = Estate(left, charges or books.future_quota.charges(), [])
        charges = self._estate.charges
        heir = Heir(books, will, self._estate.left, len(self._estate.carried))
        if np.array_equal(charges.leaving, charges.awaited) and heir.is_fit:
            self._heirs[place] = heir

    def _place_of(self, asking: Asking, rank: Rank) -> Place | None:
        """The place of a single pod; None where more than room, quota and rank decides about it."""
        books = self.books
        if asking.members is not None or books.neighbours.is_watchful or books.budgets.any_is_known:
            return None
        if not books.pods.pod_at(asking.row).preempts:
            return None
        shape = int(books.store.tables.pods[layout.POD_SHAPE, asking.row])
        return Place(shape, rank.queue, rank.priority, rank.is_protected)

    def _regard(self) -> None:
        """Take note of the last plan if it is all that has happened; otherwise forget everything."""
        books = self.books
        now = Stamp(books.steps, books.departures.changes, books.prospects)
        if self._heirs:
            plan = self._expected
            if plan is not None and now == self._stamp.after(plan) and self._is_carried_out(plan):
                self._take_note(plan)
            elif plan is not None or now != self._stamp:
                self._heirs.clear()
        self._stamp, self._expected = now, None

    def _is_carried_out(self, plan: Plan) -> bool:
        """True if its places are kept, and wait for whom it says."""
        kept = self.books.departures.by_row.get(plan.placements[0].row)
        return kept is not None and tuple(kept.waits_for) == plan.waits_for

    def _take_note(self, plan: Plan) -> None:
        """The victims of a plan leave, and its places are taken."""
        pods, estate = self.books.pods, self._estate
        victims = [pods.row_by_uid[uid] for uid in plan.victims]
        if estate is None or any(pods.pod_at(row).gang is not None for row in victims):
            # Which members of a gang may still be spared is another question now.
            self._heirs.clear()
            return
        rows = np.array(victims, np.int64)
        placed = np.array([one.row for one in plan.placements], np.int64)
        estate.left.add(rows)
        self.books.future_quota.promise(estate.charges, rows, placed)
        nodes = self.books.store.tables.pods[layout.POD_NODE, rows].tolist()
        nodes += [one.node for one in plan.placements]
        estate.carried.append(Carried(tuple(victims), np.array(list(dict.fromkeys(nodes)), np.int64)))
