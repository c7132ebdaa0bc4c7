"""Topology domains: which nodes share a block, a rack, a host, and which domain suits a gang.

The best domain is the smallest that has room, so that large domains stay whole for gangs that need them.
``gangs`` tries the candidates in that order.
"""

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.numbering import Numbering
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.identifiers import TopologyLevelName
from gpufleet.model.topology import Topology

NO_DOMAIN = -1
"""The domain of a node without the label of the level; domains are numbered from 0."""


class Domains:
    """The domain of every node at every level."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.topology = Topology()
        self._depth_by_level: dict[TopologyLevelName, int] = {}
        self._domain_by_row: list[npt.NDArray[np.int64]] = []
        self._paths: list[Numbering[tuple[str, ...]]] = []

    def set_topology(self, topology: Topology) -> None:
        """Take over other levels and divide the fleet anew."""
        self.topology = topology
        self._depth_by_level = {level.name: depth for depth, level in enumerate(topology.levels)}
        self._paths = [Numbering() for _ in topology.levels]
        self._domain_by_row = [np.zeros(0, np.int64) for _ in topology.levels]
        for row, node in enumerate(self.fleet.nodes):
            if node is not None:
                self.put(row)

    def put(self, row: int) -> None:
        """A node appeared or has other labels."""
        labels = self.fleet.node_at(row).labels
        for depth in range(len(self.topology.levels)):
            path = self.topology.domain_path(labels, depth)
            code = NO_DOMAIN
            if path is not None:
                # Before the old one is dropped, so that a node alone in its domain does not renumber it.
                code = self._paths[depth].hold(path)
            self._set(depth, row, code)

    def remove(self, row: int) -> None:
        """A node is gone."""
        for depth in range(len(self.topology.levels)):
            self._set(depth, row, NO_DOMAIN)

    def _set(self, depth: int, row: int, code: int) -> None:
        column = self._domain_by_row[depth]
        if row >= len(column):
            # Doubled, so that a fleet that grows node by node is copied a few times only.
            longer = np.full(max(row + 1, 2 * len(column)), NO_DOMAIN, np.int64)
            longer[: len(column)] = column
            self._domain_by_row[depth] = column = longer
        before = int(column[row])
        column[row] = code
        if before != NO_DOMAIN:
            self._paths[depth].drop(before)

    def knows(self, level: TopologyLevelName) -> bool:
        """True if the topology has such a level."""
        return level in self._depth_by_level

    def from_level_outward(self, level: TopologyLevelName) -> list[TopologyLevelName]:
        """A level and all wider ones, the narrowest first."""
        names = [one.name for one in self.topology.levels]
        return names[self._depth_by_level[level] :: -1]

    def inside(self, level: TopologyLevelName, nodes: Int64Array) -> list[Int64Array]:
        """The rows of each domain of a level, as far as they are among ``nodes`` (all if none are given)."""
        column = self._domain_by_row[self._depth_by_level[level]]
        rows = nodes if len(nodes) else np.arange(len(column), dtype=np.int64)
        rows = rows[column[rows] != NO_DOMAIN]
        if not len(rows):
            return []
        # Stable, so that rows stay ascending inside each domain.
        rows = rows[np.argsort(column[rows], kind="stable")]
        return np.split(rows, np.flatnonzero(np.diff(column[rows])) + 1)

    def of_node(self, level: TopologyLevelName, row: int) -> int:
        """The domain of a node, NO_DOMAIN where its labels do not tell."""
        column = self._domain_by_row[self._depth_by_level[level]]
        return int(column[row]) if row < len(column) else NO_DOMAIN

    def members(self, level: TopologyLevelName, domain: int) -> Int64Array:
        """The rows of a domain's nodes, ascending."""
        column = self._domain_by_row[self._depth_by_level[level]]
        return np.flatnonzero(column == domain).astype(np.int64)

    def with_room(
        self, level: TopologyLevelName, wishes: list[tuple[Int64Array, int]], least: int
    ) -> list[int]:
        """Domains that may hold ``least`` of what is wished for: those that hold the most of it
        first, and among these the one with the least room.

        A wish is (places by node row, how many are wanted). Wishes are counted apart, so a domain
        that is listed may still turn out too small for all of them together.
        """
        depth = self._depth_by_level[level]
        return domains_with_room(self._domain_by_row[depth], self._paths[depth].bound, wishes, least)


def domains_with_room(
    domain_by_row: npt.NDArray[np.integer], count: int, wishes: list[tuple[Int64Array, int]], least: int
) -> list[int]:
    """``Domains.with_room`` for any division of the node rows into ``count`` domains."""
    room = np.zeros(count, np.int64)
    held = np.zeros(count, np.int64)
    for places, wanted in wishes:
        rows = min(len(domain_by_row), len(places))
        found = np.zeros(count, np.int64)
        inside = domain_by_row[:rows] != NO_DOMAIN
        np.add.at(found, domain_by_row[:rows][inside], places[:rows][inside])
        room += found
        # More room than is wanted of one kind makes up for no other kind.
        held += np.minimum(found, wanted)
    candidates = np.flatnonzero(held >= least)
    # The last key counts first; the number of the domain only decides between equals, for the same answer
    # everywhere.
    order = np.lexsort((candidates, room[candidates], -held[candidates]))
    return [int(domain) for domain in candidates[order]]
