"""Gangs: their members, and starting a minimum of them together or none.

A gang is tried on the journal: members are placed shape by shape, the largest first, and unless
enough of them fit everything is taken back. With a required topology level the domains that may
have room are tried one after the other, the smallest first.
"""

from dataclasses import dataclass, field

import numpy as np

from gpufleet.engine import layout
from gpufleet.engine.domains import NO_DOMAIN, Domains
from gpufleet.engine.instruction import Verdict
from gpufleet.engine.pods import PodBook
from gpufleet.engine.search import NO_NODES, room_by_node
from gpufleet.engine.shapes import ShapeBook
from gpufleet.engine.tables import Int64Array, TableStore
from gpufleet.engine.trial import Trial
from gpufleet.engine.verdict import judge
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName

PLACES_MAX = 1 << 20
"""Places are counted up to here on each node, so that a large domain is seen to be larger."""


@dataclass(slots=True)
class Members:
    """The pods of one gang, by row, in the order in which they came.

    ``gang`` is None while pods name a gang that nobody has described.
    """

    gang: Gang | None = None
    waiting: dict[int, None] = field(default_factory=dict)
    placed: dict[int, None] = field(default_factory=dict)
    sequence: int = 0
    told: bool = False
    told_short: bool = False

    @property
    def missing(self) -> int:
        """How many more must be placed for the gang to be whole."""
        return 0 if self.gang is None else max(0, self.gang.min_members - len(self.placed))

    @property
    def ready(self) -> bool:
        """True if enough members have arrived to try."""
        arrived = len(self.waiting) >= max(1, self.missing)
        return self.gang is not None and arrived


@dataclass(slots=True)
class Attempt:
    """What came of trying a gang: the rows placed, or why not.

    ``placeable`` counts the members, running ones included, that could be placed at once.
    """

    placed: list[int]
    placeable: int
    verdict: Verdict | None = None


class Gangs:
    """Every gang, and the trial of one."""

    def __init__(self, store: TableStore, shapes: ShapeBook, pods: PodBook, domains: Domains) -> None:
        self.store = store
        self.shapes = shapes
        self.pods = pods
        self.domains = domains
        self.by_name: dict[GangName, Members] = {}

    def members(self, name: GangName) -> Members:
        """The members of a gang, known or not."""
        return self.by_name.setdefault(name, Members())

    def drop_if_empty(self, name: GangName) -> None:
        """Forget a gang that is neither described nor has pods."""
        members = self.by_name.get(name)
        if members and members.gang is None and not members.waiting and not members.placed:
            del self.by_name[name]

    def attempt(self, members: Members, trial: Trial) -> Attempt:
        """Place as many waiting members as fit, if with them the gang has its minimum."""
        by_shape = self._by_shape(members)
        with trial:
            best = Attempt([], len(members.placed))
            for nodes in self._places_to_try(members, by_shape):
                attempt = self._place_all(members, by_shape, nodes, trial)
                if attempt.placed:
                    trial.keep()
                    return attempt
                if attempt.placeable > best.placeable or best.verdict is None:
                    best = attempt
                trial.undo()
        if best.verdict is None:
            best.verdict = self._verdict(next(iter(by_shape)))
        return best

    def _by_shape(self, members: Members) -> dict[int, list[int]]:
        """Waiting rows by shape, shapes with the most GPU (then CPU) first."""
        tables = self.store.tables
        by_shape: dict[int, list[int]] = {}
        for row in members.waiting:
            by_shape.setdefault(int(tables.pods[layout.POD_SHAPE, row]), []).append(row)

        def size(shape: int) -> tuple[int, int, int]:
            milli = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
            gpus = int(tables.shapes[layout.SHAPE_GPU_COUNT, shape] * milli)
            return (-gpus, -int(tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]), shape)

        return {shape: by_shape[shape] for shape in sorted(by_shape, key=size)}

    def _places_to_try(self, members: Members, by_shape: dict[int, list[int]]) -> list[Int64Array]:
        """Sets of nodes that may hold the gang, the best first; NO_NODES stands for the fleet."""
        wishes, most = self._wishes(by_shape)
        least = max(1, members.missing)
        level = None if members.gang is None else members.gang.required_level
        if level is None:
            return [NO_NODES] if most >= least else []
        if not self.domains.knows(level):
            return []
        held = {self._domain(row, members) for row in members.placed}
        if held:
            candidates = [domain for domain in sorted(held) if domain != NO_DOMAIN][:1]
        else:
            candidates = self.domains.with_room(level, wishes, least)
        return [self.domains.members(level, domain) for domain in candidates]

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

    def _place_all(
        self,
        members: Members,
        by_shape: dict[int, list[int]],
        nodes: Int64Array,
        trial: Trial,
    ) -> Attempt:
        placed: list[int] = []
        verdict: Verdict | None = None
        for shape, rows in by_shape.items():
            fitting = trial.place(shape, rows, nodes)
            placed.extend(rows[:fitting])
            if fitting < len(rows) and verdict is None:
                verdict = self._verdict(shape)
        placeable = len(members.placed) + len(placed)
        if not placed or len(placed) < members.missing:
            return Attempt([], placeable, verdict)
        return Attempt(placed, placeable, verdict)

    def _verdict(self, shape: int) -> Verdict:
        slot = self.shapes.slot(shape)
        return judge(self.store.tables, self.shapes.rankings, self.shapes.fleet, slot)
