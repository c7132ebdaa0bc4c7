"""Where a gang may go: the places to try, the best first, and how its members are divided among domains.

A gang without wishes may go anywhere. One that requires a level goes into one domain, the smallest that
has room; one that prefers a level goes into one domain of it, or of the next wider level, and only
then over several. Slices and balance divide it further (``spreading`` counts). ``gangs`` tries the
plans one after the other on the journal.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.place.gangs.shape_rooms import ShapeRooms
from gpufleet.engine.place.gangs.spreading import Domain, balanced, divided, filled
from gpufleet.engine.place.relations.label_domains import LabelDomains
from gpufleet.engine.place.relations.neighbours import Neighbours
from gpufleet.engine.state.domains import NO_DOMAIN, Domains, domains_with_room
from gpufleet.engine.state.gang_members import Members
from gpufleet.engine.state.model_order import ALL_AT_ONCE, Models, groups_of
from gpufleet.engine.state.pods import PodTable
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.gang import Gang, Slices
from gpufleet.model.identifiers import TopologyLevelName

PLACES_MAX = 1 << 20
"""Places are counted up to here on each node, so that a large domain is seen to be larger."""

NARROWER_PLACES_MAX = 32
"""How many domains of a level are tried for members that want to be near each other."""


class Part(NamedTuple):
    """At most ``most`` members on these nodes; NO_NODES stands for the fleet."""

    nodes: Int64Array
    most: int


DomainPlan = list[Part]
"""Parts in the order in which they are filled."""

Wishes = list[tuple[Int64Array, int]]
"""For each shape its places by node row, and how many are wanted."""


def all_on(nodes: Int64Array) -> DomainPlan:
    """The plan that asks nothing further."""
    return [Part(nodes, PLACES_MAX)]


class GangPlaces:
    """Finds the places that may hold a gang."""

    def __init__(
        self,
        store: TableStore,
        shapes: ShapeTable,
        pods: PodTable,
        domains: Domains,
        neighbours: Neighbours,
    ) -> None:
        self.store = store
        self.shapes = shapes
        self.pods = pods
        self.domains = domains
        self.neighbours = neighbours
        self._rooms = ShapeRooms(store, shapes, PLACES_MAX)

    def by_shape(self, waiting: list[int]) -> dict[int, list[int]]:
        """Waiting rows by shape, shapes with the most GPU (then CPU) first."""
        tables = self.store.tables
        by_shape: dict[int, list[int]] = {}
        for row in waiting:
            by_shape.setdefault(int(tables.pods[layout.POD_SHAPE, row]), []).append(row)

        def size(shape: int) -> tuple[int, int, int]:
            milli = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
            gpus = int(tables.shapes[layout.SHAPE_GPU_COUNT, shape] * milli)
            # The row last, so that equal shapes have one order.
            return (-gpus, -int(tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]), shape)

        if self.pods.any_is_protected:
            for rows in by_shape.values():
                # Members that may not borrow do not keep those from it that may.
                rows.sort(key=lambda row: tables.pods[layout.POD_PROTECTED, row])
        return {shape: by_shape[shape] for shape in sorted(by_shape, key=size)}

    def models_to_try(self, members: Members) -> tuple[Models, ...]:
        """The models that the whole gang may be on, one at a time; members that run have decided it."""
        gang = members.described
        if not gang.model_order:
            return ALL_AT_ONCE
        for row in members.placed:
            model = self.pods.gpu_model(row)
            if model is not None:
                return ((model,),)
        return tuple((model,) for model in gang.model_order)

    def to_try(
        self, members: Members, by_shape: dict[int, list[int]], least: int, models: Models = ()
    ) -> list[DomainPlan]:
        """Plans that may hold ``least`` members on GPUs of these models, the best first."""
        wishes, most = self._wishes(by_shape, models)
        # ``most`` is too high rather than too low (``_wishes``), so nothing that fits is given up here.
        if most < least:
            return []
        gang = members.described
        scopes = self._scopes(members, wishes, least)
        undivided = [all_on(nodes) for nodes in scopes]
        levels = levels_of(gang)
        if not levels:
            return undivided
        has_levels = all(map(self.domains.knows, levels))
        plans = [self._divided(nodes, gang, wishes, least) for nodes in scopes] if has_levels else []
        may_be_anywhere = gang.slices_preferred or not (has_levels or gang.slices)
        return [plan for plan in plans if plan] + (undivided if may_be_anywhere else [])

    def _scopes(self, members: Members, wishes: Wishes, least: int) -> list[Int64Array]:
        """Sets of nodes that may hold the gang; NO_NODES stands for the fleet."""
        gang = members.described
        together = self._near_each_other(members, wishes, least)
        if gang.required_level is None:
            return [*self._preferred(members, gang, wishes), NO_NODES, *together]
        if not self.domains.knows(gang.required_level):
            return []
        held = {self._domain(row, gang.required_level) for row in members.placed}
        if held:
            # Members that run have decided where the others go.
            candidates = [domain for domain in sorted(held) if domain != NO_DOMAIN][:1]
        else:
            candidates = self.domains.with_room(gang.required_level, wishes, least)
        places = [self.domains.members(gang.required_level, domain) for domain in candidates]
        narrower = [np.intersect1d(nodes, near) for nodes in places for near in together]
        preferred = self._preferred(members, gang, wishes)
        if held:
            preferred = [np.intersect1d(nodes, near) for nodes in places for near in preferred]
        places = [*preferred, *places, *narrower[:NARROWER_PLACES_MAX]]
        # An empty array would stand for the whole fleet (NO_NODES).
        return [nodes for nodes in places if len(nodes)]

    def _preferred(self, members: Members, gang: Gang, wishes: Wishes) -> list[Int64Array]:
        """Single domains that hold all members: of the level preferred, and of those between it and the
        one that is required, the narrower before the wider.
        """
        found: list[Int64Array] = []
        if gang.preferred_level is None or not self.domains.knows(gang.preferred_level):
            return found
        wanted = sum(count for _, count in wishes)
        for level in self.domains.from_level_outward(gang.preferred_level):
            if level == gang.required_level:
                break
            held = {self._domain(row, level) for row in members.placed}
            # A gang that grows stays where it is, if there is room.
            holding = sorted(self.domains.with_room(level, wishes, wanted), key=lambda one: one not in held)
            found += [self.domains.members(level, domain) for domain in holding[:NARROWER_PLACES_MAX]]
        return found

    def _divided(self, nodes: Int64Array, gang: Gang, wishes: Wishes, least: int) -> DomainPlan:
        """How the gang is divided among the domains of a level; [] if they cannot hold ``least``.

        Members of several shapes are counted apart, so no domain is told how many of them it gets.
        """
        found = self._domains_inside(nodes, levels_of(gang), wishes)
        room = [one.room for one in found]
        wanted = min(sum(room), sum(count for _, count in wishes))
        if wanted < least:
            return []
        if gang.slices:
            sizes = [one.size for one in gang.slices]
            shares = divided(found, wanted, sizes, evenly=gang.balanced)
            # All that want a place first; if whole slices cannot hold them, as many as the gang needs.
            shares = shares or divided(found, least, sizes, evenly=gang.balanced)
        else:
            spread = (balanced if gang.balanced else filled)(room, wanted)
            shares = [(found[place], count) for place, count in spread]
        alike = len(wishes) == 1
        return [Part(one.nodes, count if alike else PLACES_MAX) for one, count in shares]

    def _domains_inside(
        self, nodes: Int64Array, levels: list[TopologyLevelName], wishes: Wishes
    ) -> list[Domain]:
        """The domains of the first of these levels, each with those of the next ones in it."""
        if not levels:
            return []
        found: list[Domain] = []
        for rows in self.domains.inside(levels[0], nodes):
            # No more of a shape than is wanted: its places would else pass for places of another one.
            room = sum(min(int(places[rows].sum()), wanted) for places, wanted in wishes)
            found.append(Domain(rows, room, self._domains_inside(rows, levels[1:], wishes)))
        return found

    def room_for_sharers(self, by_shape: dict[int, list[int]], models: Models) -> dict[int, Int64Array]:
        """By shape of members that share a resource claim without devices yet: the nodes with room for all of
        them.

        The first one that is placed ties the others to where the devices are. Shapes are counted apart.
        """
        device_claims = self.neighbours.device_claims
        if not device_claims.are_used:
            return {}
        sharing: dict[str, list[int]] = {}
        for shape in by_shape:
            for path in self.shapes.shape_at(shape).relations.device_claims:
                if device_claims.allocation_of(path) is None:
                    sharing.setdefault(path, []).append(shape)
        found: dict[int, Int64Array] = {}
        for shapes in sharing.values():
            if sum(len(by_shape[one]) for one in shapes) > 1:
                nodes = self._with_room_for({one: by_shape[one] for one in shapes}, models)
                for one in shapes:
                    found[one] = np.intersect1d(found.get(one, nodes), nodes)
        return found

    def _with_room_for(self, by_shape: dict[int, list[int]], models: Models) -> Int64Array:
        """The nodes with room for all members of each of these shapes."""
        wishes, _ = self._wishes(by_shape, models)
        has_room = np.ones(self.shapes.fleet.row_count, np.bool_)
        for places, wanted in wishes:
            has_room &= places[: len(has_room)] >= wanted
        return np.flatnonzero(has_room)

    def keeps_slices(self, members: Members, placed: Iterable[int]) -> bool:
        """True unless the gang comes in slices and these rows, with those that run, tear one apart.

        At most one domain may hold what is no multiple of the size: the slice that is left over.
        """
        gang, rows = members.described, (*members.placed, *placed)
        if gang.slices_preferred:
            return True
        return all(self._keeps(slices, rows) for slices in gang.slices)

    def _keeps(self, slices: Slices, rows: Iterable[int]) -> bool:
        counts = Counter(self._domain(row, slices.level) for row in rows)
        torn = [count for count in counts.values() if count % slices.size]
        return len(torn) <= 1 and NO_DOMAIN not in counts

    def _near_each_other(self, members: Members, wishes: Wishes, least: int) -> list[Int64Array]:
        """Where members ask to be near other pods: the domains that may hold the gang.

        The first member would take the best node for itself, and draw the others into a domain that
        is too small for them. So each domain is tried, the one that holds the most first, and among
        these the one with the least room.
        """
        if not self.neighbours.is_active:
            return []
        # A dictionary keeps the order of the members; a set of words has another order in each process.
        keys: dict[str, None] = {}
        for row in members.waiting:
            keys.update(dict.fromkeys(self.neighbours.near_keys(row)))
        found: list[Int64Array] = []
        for key in keys:
            domains = LabelDomains(self.shapes.fleet, key)
            suited = domains_with_room(domains.codes, domains.bound, wishes, least)
            found += [np.flatnonzero(domains.codes == code) for code in suited[:NARROWER_PLACES_MAX]]
        # Each is tried by placing the gang, so the limit holds for all keys together, too.
        return found[:NARROWER_PLACES_MAX]

    def _wishes(self, by_shape: dict[int, list[int]], models: Models) -> tuple[Wishes, int]:
        """For each shape its places by node and how many are wanted; and how many the fleet has at most.

        Shapes are counted apart, so there may turn out to be less room for all of them together.
        """
        wishes: Wishes = []
        most = 0
        for shape, rows in by_shape.items():
            slot = self._slot(shape, models)
            places, found = self._rooms.none() if slot is None else self._rooms.of(slot)
            most += min(found, len(rows))
            wishes.append((places, len(rows)))
        return wishes, most

    def _slot(self, shape: int, models: Models) -> int | None:
        """The ranking slot of a shape on these models, None if it accepts none of them."""
        if not models:
            return self.shapes.slot(shape)
        groups = groups_of(self.shapes.shape_at(shape).gpu, models)
        if not groups:
            return None
        return self.shapes.slot_of_models(shape, groups[0]) if groups[0] else self.shapes.slot(shape)

    def _domain(self, row: int, level: TopologyLevelName) -> int:
        node = self.pods.node_row(row)
        return NO_DOMAIN if node is None else self.domains.of_node(level, node)


def levels_of(gang: Gang) -> list[TopologyLevelName]:
    """The levels over whose domains a gang is divided, from the wider to the narrower."""
    if gang.slices:
        return [one.level for one in gang.slices]
    return [] if gang.preferred_level is None else [gang.preferred_level]
