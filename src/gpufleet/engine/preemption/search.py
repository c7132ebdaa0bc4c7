"""The search for victims: what ends anyway first, then work of the workload's own queue, then of others.

Only work of described queues asks, because the queue says whom its work may evict. Places that pods
leave anyway are kept for it too.
"""

import numpy as np

from gpufleet.engine import layout
from gpufleet.engine.books import Books
from gpufleet.engine.preemption.by_node import ByNode
from gpufleet.engine.preemption.candidates import Candidates, Rank, within_queue
from gpufleet.engine.preemption.over_fleet import OverFleet
from gpufleet.engine.preemption.proof import Placements, Proof
from gpufleet.engine.preemption.reclaim import Reclaim
from gpufleet.engine.search import NO_NODES
from gpufleet.engine.tables import Int64Array
from gpufleet.engine.victims import Asking, NoPlan, Plan
from gpufleet.model.queue import Queue


class PreemptionSearch:
    """Finds victims by the policies of the queues."""

    def find(self, asking: Asking, books: Books) -> Plan | NoPlan | None:
        """The cheapest plan that is proven."""
        rank = rank_of(asking, books)
        queue = books.waiting.queues.get(rank.queue)
        return None if queue is None else Quest(asking, books).find(rank, queue)


def rank_of(asking: Asking, books: Books) -> Rank:
    """By what the workload is compared with others: a gang has a queue, priority and age of its own."""
    gang = None if asking.members is None else asking.members.gang
    if gang is not None:
        return Rank(gang.queue, gang.priority, gang.created_at_us)
    pod = books.pods.pod_at(asking.row)
    return Rank(pod.queue, pod.priority, pod.created_at_us)


class Quest:
    """One search for one workload."""

    def __init__(self, asking: Asking, books: Books) -> None:
        self.asking = asking
        self.books = books
        rows = (books.pods.row_by_uid[uid] for uid in books.departures.departing())
        self.departing = [row for row in rows if books.pods.node_row(row) is not None]
        self.proof = Proof(asking, books, self.departing)
        self.lacks_only_room = asking.members is None and not self.proof.is_tied
        self.cut = False

    def find(self, rank: Rank, queue: Queue) -> Plan | NoPlan:
        """What ends anyway, or else the cheapest victims: of its own queue, of others that borrow, of all."""
        if self.departing:
            placements = self.proof.fits_without(self.departing)
            if placements:
                return self._plan([], self._near(self.departing, placements), placements)
        own = within_queue(self.books, rank, queue, self.asking.at_us)
        reclaim = Reclaim(self.books, rank, queue, self._needed())
        others = reclaim.candidates(self.asking.at_us)
        found = self._seek(own, anywhere=False)
        if found is None and (others.alone or others.gangs):
            self.proof.is_just = reclaim.is_just
            found = self._seek(others, anywhere=True)
            if found is None and (own.alone or own.gangs):
                found = self._seek(own.joined(others), anywhere=True)
        dues = [at_us for at_us in (own.again_at_us, others.again_at_us) if at_us is not None]
        return found or NoPlan(self.cut, min(dues, default=None))

    def _needed(self) -> list[int]:
        """By column, the least that the workload is charged."""
        tables, members = self.books.store.tables, self.asking.members
        rows = [self.asking.row] if members is None else list(members.waiting)
        shapes = [int(tables.pods[layout.POD_SHAPE, row]) for row in rows]
        needed: list[int] = tables.shape_charges[shapes].sum(axis=0).tolist()
        return needed

    def _seek(self, found: Candidates, *, anywhere: bool) -> Plan | None:
        """Victims for a pod on one node, if possible; otherwise over the fleet.

        ``anywhere``: a victim may help although the pod goes to another node.
        """
        if self.lacks_only_room and found.alone:
            by_node = ByNode(self.proof, self.books, self.departing, found.alone)
            victims = by_node.find()
            if victims is not None:
                departing = self._near(self.departing, victims.placements)
                return self._plan(list(victims.rows), departing, victims.placements)
            self.cut |= by_node.cut
        over_fleet = OverFleet(self.proof, self.books, self.departing)
        chosen = None
        if anywhere or not self.lacks_only_room:
            chosen = over_fleet.find(found.alone)
        if chosen is None and found.gangs:
            chosen = over_fleet.find(found.in_order())
        self.cut |= over_fleet.cut
        if chosen is None:
            return None
        units, placements = chosen
        rows = list(dict.fromkeys(row for unit in units for row in unit.rows))
        return self._plan(rows, self._near(self.departing, placements), placements)

    def _near(self, departing: list[int], placements: Placements) -> list[int]:
        """Those of the departing who may matter for these placements."""
        if self.proof.is_tied:
            return departing
        nodes = {one.node for one in placements}
        return [row for row in departing if self.books.pods.node_row(row) in nodes]

    def _plan(self, victims: list[int], departing: list[int], placements: Placements) -> Plan:
        """The plan that waits for these victims and for no more of the departing than it must."""
        nodes = NO_NODES
        if self.lacks_only_room:
            nodes = np.array([placements[0].node], np.int64)
        needed, fewer = list(departing), self._proven(victims, departing, nodes)
        if fewer:
            placements = fewer
        else:
            # Somebody elsewhere holds what it needs, such as quota.
            needed = list(self.departing)
        for row in reversed(needed):
            rest = [one for one in needed if one != row]
            without = self._proven(victims, rest, nodes) if victims or rest else ()
            if without:
                needed, placements = rest, without
        uids = [self.books.pods.pod_at(row).uid for row in (*needed, *victims)]
        return Plan(placements, tuple(uids[len(needed) :]), tuple(uids))

    def _proven(self, victims: list[int], departing: list[int], nodes: Int64Array) -> Placements:
        return self.proof.fits_without([*departing, *victims], nodes)
