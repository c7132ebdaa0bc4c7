"""Which levels of the topology the engine was told of, and which it is to know now."""

from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.engine.event import Event, TopologySet
from gpufleet.model.identifiers import TopologyLevelName
from gpufleet.model.topology import Topology, TopologyLevel

WIDER_LEVELS = (
    TopologyLevelName("topology.kubernetes.io/region"),
    TopologyLevelName("topology.kubernetes.io/zone"),
)
"""Levels that tell racks of one name in two zones apart, where nodes have them."""


class TopologyLevels:
    """The levels that gangs have asked for so far."""

    def __init__(self, gangs: GangTracker, nodes: NodeTracker) -> None:
        self.gangs = gangs
        self.nodes = nodes
        self._levels: frozenset[TopologyLevelName] = frozenset()
        self._known = Topology()

    def events(self, *, nodes_changed: bool) -> list[Event]:
        """The levels that gangs ask for, the widest first: that with the fewest domains."""
        asked = self.gangs.levels()
        if asked <= self._levels and not (self._levels and nodes_changed):
            return []
        # Levels are only ever added: one that no gang asks for any more does no harm.
        self._levels |= asked
        nodes = [node.labels for node in self.nodes.known.values()]

        def domains(level: TopologyLevelName) -> tuple[int, str]:
            return (len({labels.get(level) for labels in nodes}), level)

        divided = [labels for labels in nodes if not self._levels.isdisjoint(labels)]
        wider = [
            level
            for level in WIDER_LEVELS
            if level not in self._levels and divided and all(level in labels for labels in divided)
        ]
        # The engine wants the widest level first, and the level's name breaks a tie so that the order is the
        # same in each process.
        levels = (*wider, *sorted(self._levels, key=domains))
        topology = Topology(tuple(TopologyLevel(level, level) for level in levels))
        if topology == self._known:
            return []
        self._known = topology
        return [TopologySet(topology)]
