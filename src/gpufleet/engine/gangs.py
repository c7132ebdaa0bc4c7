"""Gangs: starting a minimum of the members together or none (``members`` says how many that is).

A gang is tried on the journal: members are placed shape by shape, the largest first, those of roles
that are short before all others, and unless enough of them fit everything is taken back. With a
required topology level the domains that may have room are tried one after the other, the smallest
first; and where members want to be near each other, so are the domains in which they could.
"""

from dataclasses import dataclass

import numpy as np

from gpufleet.engine import layout
from gpufleet.engine.domains import NO_DOMAIN, Domains, domains_with_room
from gpufleet.engine.instruction import Verdict
from gpufleet.engine.members import Members
from gpufleet.engine.pods import PodBook
from gpufleet.engine.relations.label_domains import LabelDomains
from gpufleet.engine.relations.neighbours import Neighbours
from gpufleet.engine.search import NO_NODES, room_by_node
from gpufleet.engine.shapes import ShapeBook
from gpufleet.engine.tables import Int64Array, TableStore
from gpufleet.engine.trial import Trial
from gpufleet.engine.verdict import judge
from gpufleet.engine.waiting import Looks
from gpufleet.model.identifiers import GangName

PLACES_MAX = 1 << 20
"""Places are counted up to here on each node, so that a large domain is seen to be larger."""

NARROWER_PLACES_MAX = 32
"""How many domains are tried for members that want to be near each other."""


@dataclass(slots=True)
class Attempt:
    """What came of trying a gang: the rows placed, or why not.

    ``placeable`` counts the members, running ones included, that could be placed at once; ``role``
    names the role that is short of room, "" where there is none.
    """

    placed: list[int]
    placeable: int
    verdict: Verdict | None = None
    role: str = ""


class Gangs:
    """Every gang, and the trial of one."""

    def __init__(
        self,
        store: TableStore,
        shapes: ShapeBook,
        pods: PodBook,
        domains: Domains,
        neighbours: Neighbours,
    ) -> None:
        self.store = store
        self.shapes = shapes
        self.pods = pods
        self.domains = domains
        self.neighbours = neighbours
        self.by_name: dict[GangName, Members] = {}

    def members(self, name: GangName) -> Members:
        """The members of a gang, known or not."""
        return self.by_name.setdefault(name, Members())

    def drop_if_empty(self, name: GangName) -> None:
        """Forget a gang that is neither described nor has pods."""
        members = self.by_name.get(name)
        if members and members.gang is None and not members.waiting and not members.placed:
            del self.by_name[name]

    def attempt(self, members: Members, trial: Trial, *, asked: bool = False) -> Attempt:
        """Place as many waiting members as fit, if with them the gang has its minimum.

        ``asked`` wants to know why not, also of a gang that was told before.
        """
        by_shape = self._by_shape(list(members.waiting))
        with trial:
            best = Attempt([], len(members.placed))
            for nodes in self._places_to_try(members, by_shape, max(1, members.missing)):
                attempt = self._place_all(members, nodes, trial)
                if attempt.placed:
                    trial.keep()
                    return attempt
                best = fuller(best, attempt)
                trial.undo()
            if best.verdict is None and (asked or not members.told):
                best = self._as_many_as_fit(members, by_shape, trial)
        if best.verdict is None:
            best.verdict = self._verdict(next(iter(by_shape.values()))[0])
        return best

    def _as_many_as_fit(self, members: Members, by_shape: dict[int, list[int]], trial: Trial) -> Attempt:
        """Why a gang cannot start for which no place has room by count: how many would fit, and why not
        one more. Only done to tell its owner, because it places in vain.
        """
        best = Attempt([], len(members.placed))
        for nodes in self._places_to_try(members, by_shape, 1):
            best = fuller(best, self._place_all(members, nodes, trial))
            trial.undo()
        best.placed = []
        return best

    def _by_shape(self, waiting: list[int]) -> dict[int, list[int]]:
        """Waiting rows by shape, shapes with the most GPU (then CPU) first."""
        tables = self.store.tables
        by_shape: dict[int, list[int]] = {}
        for row in waiting:
            by_shape.setdefault(int(tables.pods[layout.POD_SHAPE, row]), []).append(row)

        def size(shape: int) -> tuple[int, int, int]:
            milli = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
            gpus = int(tables.shapes[layout.SHAPE_GPU_COUNT, shape] * milli)
            return (-gpus, -int(tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]), shape)

        return {shape: by_shape[shape] for shape in sorted(by_shape, key=size)}

    def _places_to_try(
        self, members: Members, by_shape: dict[int, list[int]], least: int
    ) -> list[Int64Array]:
        """Sets of nodes that may hold ``least`` members, the best first; NO_NODES stands for the fleet."""
        wishes, most = self._wishes(by_shape)
        level = None if members.gang is None else members.gang.required_level
        if level is None:
            return [NO_NODES, *self._near_each_other(members, wishes, least)] if most >= least else []
        if not self.domains.knows(level):
            return []
        held = {self._domain(row, members) for row in members.placed}
        if held:
            candidates = [domain for domain in sorted(held) if domain != NO_DOMAIN][:1]
        else:
            candidates = self.domains.with_room(level, wishes, least)
        places = [self.domains.members(level, domain) for domain in candidates]
        together = self._near_each_other(members, wishes, least)
        narrower = [np.intersect1d(nodes, near) for nodes in places for near in together]
        return places + [nodes for nodes in narrower if len(nodes)][:NARROWER_PLACES_MAX]

    def _near_each_other(
        self, members: Members, wishes: list[tuple[Int64Array, int]], least: int
    ) -> list[Int64Array]:
        """Where members ask to be near other pods: the domains that may hold the gang.

        The first member would take the best node for itself, and draw the others into a domain that
        is too small for them. So each domain is tried, the one that holds the most first, and among
        these the one with the least room.
        """
        if not self.neighbours.is_active:
            return []
        keys: dict[str, None] = {}
        for row in members.waiting:
            keys.update(dict.fromkeys(self.neighbours.near_keys(row)))
        found: list[Int64Array] = []
        for key in keys:
            domains = LabelDomains(self.shapes.fleet, key)
            suited = domains_with_room(domains.codes, domains.bound, wishes, least)
            found += [np.flatnonzero(domains.codes == code) for code in suited[:NARROWER_PLACES_MAX]]
        return found[:NARROWER_PLACES_MAX]

    def _wishes(self, by_shape: dict[int, list[int]]) -> tuple[list[tuple[Int64Array, int]], int]:
        """For each shape its places by node and how many are wanted; and how many the fleet has at most.

        Shapes are counted apart, so there may turn out to be less room for all of them together.
        """
        wishes: list[tuple[Int64Array, int]] = []
        most = 0
        for shape, rows in by_shape.items():
            places = np.zeros(self.shapes.fleet.row_count, np.int64)
            slot = self.shapes.slot(shape)
            found = room_by_node(self.store.tables, self.shapes.rankings, slot, PLACES_MAX, places)
            most += min(found, len(rows))
            wishes.append((places, len(rows)))
        return wishes, most

    def _domain(self, row: int, members: Members) -> int:
        node = self.pods.node_row(row)
        if node is None or members.gang is None or members.gang.required_level is None:
            return NO_DOMAIN
        return self.domains.of_node(members.gang.required_level, node)

    def _place_all(self, members: Members, nodes: Int64Array, trial: Trial) -> Attempt:
        """Place what must be placed of each role, then as many of the rest as fit."""
        placed: dict[int, None] = {}
        role_short, verdict = "", None
        for role, count in members.missing_by_role.items():
            rows = [row for row, of_role in members.waiting.items() if of_role == role]
            done, refused = self._place_rows(rows, count, nodes, trial)
            placed.update(dict.fromkeys(done))
            if len(done) < count:
                role_short, verdict = role, refused
                break
        if not role_short:
            rest = [row for row in members.waiting if row not in placed]
            done, verdict = self._place_rows(rest, len(rest), nodes, trial)
            placed.update(dict.fromkeys(done))
        placeable = len(members.placed) + len(placed)
        if role_short or not placed or len(placed) < members.missing:
            return Attempt([], placeable, verdict, role_short)
        return Attempt(list(placed), placeable, verdict)

    def _place_rows(
        self, rows: list[int], most: int, nodes: Int64Array, trial: Trial
    ) -> tuple[list[int], Verdict | None]:
        """Place up to ``most`` of these members; those that were, and why the first other one was not.

        Members may wait for each other's labels, so those that did not fit are tried again as long as
        that places more.
        """
        placed: list[int] = []
        verdict: Verdict | None = None
        by_shape = self._by_shape(rows)
        while True:
            before, verdict = len(placed), None
            for shape, waiting in by_shape.items():
                fitting = self._place_alike(shape, waiting[: most - len(placed)], nodes, trial)
                placed.extend(fitting)
                left = [row for row in waiting if row not in fitting]
                if left and len(placed) < most and verdict is None:
                    verdict = self._verdict(left[0])
                by_shape[shape] = left
            if verdict is None or len(placed) == before or not self.neighbours.is_active:
                return placed, verdict

    def _place_alike(self, shape: int, rows: list[int], nodes: Int64Array, trial: Trial) -> dict[int, None]:
        """Place members of one shape; those that were."""
        if not (self.neighbours.is_watchful and any(map(self.neighbours.concerns, rows))):
            return dict.fromkeys(rows[: trial.place(shape, rows, nodes)])
        placed: dict[int, None] = {}
        refused: dict[Looks, None] = {}
        for row in rows:
            looks = self.neighbours.looks(row)
            if looks not in refused:
                if trial.place_related(row, nodes):
                    placed[row] = None
                else:
                    refused[looks] = None
        return placed

    def _verdict(self, row: int) -> Verdict:
        slot = self.shapes.slot(int(self.store.tables.pods[layout.POD_SHAPE, row]))
        reasons = self.neighbours.reasons_beyond_room(row)
        return judge(self.store.tables, self.shapes.rankings, self.shapes.fleet, slot, reasons)


def fuller(one: Attempt, other: Attempt) -> Attempt:
    """The attempt that could place more, the first of equals; one without a verdict tells nothing."""
    return other if other.placeable > one.placeable or one.verdict is None else one
