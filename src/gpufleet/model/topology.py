"""Topology: the levels (block, rack, host) that divide the fleet into domains.

A domain is a path of label values from the widest level down, so that two racks called "r1" in
two zones are two domains.
"""

import msgspec

from gpufleet.model.identifiers import TopologyLevelName


class TopologyLevel(msgspec.Struct, frozen=True):
    """One level: its name and the node label with the domain's name as its value."""

    name: TopologyLevelName
    node_label: str


class Topology(msgspec.Struct, frozen=True):
    """The levels from the widest to the narrowest."""

    levels: tuple[TopologyLevel, ...] = ()

    def domain_path(self, labels: dict[str, str], depth: int) -> tuple[str, ...] | None:
        """The domain of a node with these labels at level number ``depth``.

        None where a label of that level or of a wider one is missing: such a node belongs to no
        domain there.
        """
        path = []
        for level in self.levels[: depth + 1]:
            value = labels.get(level.node_label)
            if value is None:
                return None
            path.append(value)
        return tuple(path)
