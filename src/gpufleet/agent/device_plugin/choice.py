"""Which free units suit a container best, where no grant says which.

Of whole devices: those that reach each other fastest, where the slowest pair counts first, since that is
what holds the others up; of equals, those on one NUMA node, and then those whose loss cuts the fewest
fast links among the rest. Of replicas: of the GPU that the fewest use (distributed) or the most
(packed).
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.units.node_units import GpuUnit, Units
from gpufleet.devices.facts import Link

TRIED_MAX = 500
"""So many sets are looked at; where there are more, the set is grown unit by unit."""

# Nearer than any link between two GPUs.
SAME_CARD = max(Link) + 1
Score = tuple[int, int, int, int]


class Choice:
    """Chooses among the units of a node; a ``whole.Best``."""

    def __init__(self, node: NodeGpus, units: Units, *, packed: bool = False) -> None:
        self._node = node
        self._units = units
        self._packed = packed

    def __call__(self, free: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """The best ``size`` of the free ones, those that are required among them."""
        known = {name: self._units[name] for name in (*required, *free) if name in self._units}
        if any(unit.replica is not None for unit in known.values()):
            return self._spread(known, required, size)
        return self._linked(known, required, size)

    def _spread(self, known: Units, required: Sequence[str], size: int) -> list[str]:
        """Replicas one by one, each from the GPU or instance that is used the least, or the most."""
        left: dict[str, list[str]] = {}
        for unit in known.values():
            left.setdefault(unit.device, []).append(unit.id)
        # Counted by GPU or instance, as a container slows down by its neighbours there.
        used = dict.fromkeys(left, 0)
        # What is not offered to choose from is in use.
        for unit in self._units.values():
            if unit.device in used and unit.id not in known:
                used[unit.device] += 1
        chosen = []
        here = dict.fromkeys(left, 0)
        for name in required:
            device = known[name].device
            left[device].remove(name)
            used[device] += 1
            here[device] += 1
            chosen.append(name)
        while len(chosen) < size:
            usable = [device for device in left if left[device]]
            device = min(usable, key=lambda device: self._rank(used[device], here[device]))
            chosen.append(left[device].pop(0))
            used[device] += 1
            here[device] += 1
        return chosen

    def _rank(self, used: int, here: int) -> tuple[int, int]:
        """Spread over GPUs, a container's own replicas first; or the fullest GPU first."""
        # Two replicas of one GPU give a container no more of it than one, so its own are spread first.
        return (-used, 0) if self._packed else (here, used)

    def _linked(self, known: Units, required: Sequence[str], size: int) -> list[str]:
        others = [name for name in known if name not in required]
        missing = size - len(required)
        # Sixteen GPUs have thousands of sets of eight, and the kubelet waits for the answer.
        if comb(len(others), missing) > TRIED_MAX:
            return self._grown(known, list(required), others, size)
        sets = ((*required, *more) for more in combinations(others, missing))
        return list(max(sets, key=lambda chosen: self._score(known, chosen)))

    def _grown(self, known: Units, chosen: list[str], others: list[str], size: int) -> list[str]:
        """Begin with the best pair, and add what goes best with those that are there."""
        if not chosen and size > 1:
            first = max(combinations(others, 2), key=lambda pair: self._within(known, pair))
            chosen = list(first)
        while len(chosen) < size:
            rest = [name for name in others if name not in chosen]
            chosen.append(max(rest, key=lambda name: self._score(known, (*chosen, name))))
        return chosen

    def _score(self, known: Units, chosen: Iterable[str]) -> Score:
        """More is better: slowest link, all links, pairs on one NUMA node, what is left whole."""
        within = [known[name] for name in chosen]
        names = {unit.id for unit in within}
        rest = [unit for unit in known.values() if unit.id not in names]
        # What the choice cuts from those that are left is what the next pod will miss.
        cut = sum(self._link(one, other) + _near(one, other) for one in within for other in rest)
        return (*self._within(known, names), -cut)

    def _within(self, known: Units, chosen: Iterable[str]) -> tuple[int, int, int]:
        pairs = list(combinations((known[name] for name in chosen), 2))
        links = [self._link(one, other) for one, other in pairs]
        return min(links, default=0), sum(links), sum(_near(*pair) for pair in pairs)

    def _link(self, one: GpuUnit, other: GpuUnit) -> int:
        return SAME_CARD if one.gpu == other.gpu else self._node.link(one.gpu, other.gpu)


def _near(one: GpuUnit, other: GpuUnit) -> int:
    """1 on the same NUMA node, where it is known."""
    return int(one.numa_node is not None and one.numa_node == other.numa_node)
