"""Pools: the devices of one driver and pool name that a node can reach, with the counters that they share.

Only slices of the newest generation count. A pool of which slices are missing is being changed, and one in
which names repeat or counters are unknown is invalid: no device of it is given. Pools are in the order of
driver and name, those with devices that are prepared before they are bound last; slices are in the order of
their names, devices in the order of their slice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpufleet.device_selectors.selector import DeviceView
from gpufleet.dra_allocation.slices import (
    CounterSet,
    Device,
    DeviceId,
    NodeFacts,
    NodeReach,
    ResourceSlice,
)

Counter = tuple[str, str]
"""Name of a counter set, and of a counter in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device that a node may reach. ``draws`` are its shares of the pool's counters, in nano units."""

    id: DeviceId
    device: Device
    view: DeviceView
    reach: NodeReach
    is_reached: bool
    draws: tuple[tuple[Counter, int], ...]
    is_served: bool


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool as a node sees it. ``problem`` says why it gives no device, empty where it gives them."""

    driver: str
    name: str
    problem: str = ""
    is_invalid: bool = False
    candidates: tuple[Candidate, ...] = ()
    elsewhere: tuple[Candidate, ...] = ()
    counters: dict[Counter, int] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    """Of all its devices, here and elsewhere."""

    @property
    def path(self) -> str:
        """The driver and the name of the pool, as one text."""
        return f"{self.driver}/{self.name}"


class SliceIndex:
    """All slices of a cluster, by the nodes that may reach them and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._by_node: dict[str, list[ResourceSlice]] = {}
        self._by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
        self._shared: list[ResourceSlice] = []
        for one in slices:
            self._by_pool.setdefault((one.driver, one.pool.name), []).append(one)
            if one.reach is not None and one.reach.node_name:
                self._by_node.setdefault(one.reach.node_name, []).append(one)
            else:
                self._shared.append(one)

    def pools(self, node: NodeFacts) -> tuple[Pool, ...]:
        """The pools that the node can reach, in the order of search."""
        newest: dict[tuple[str, str], list[ResourceSlice]] = {}
        for one in (*self._by_node.get(node.name, ()), *self._shared):
            # Before generations are compared: Kubernetes takes the newest of those slices that the node can
            # reach.
            if not one.accepts(node):
                continue
            slices = newest.setdefault((one.driver, one.pool.name), [])
            if slices and one.pool.generation > slices[0].pool.generation:
                slices.clear()
            if not slices or one.pool.generation == slices[0].pool.generation:
                slices.append(one)
        found = (self._pool(node, key, slices) for key, slices in sorted(newest.items()))
        return tuple(sorted((pool for pool in found if pool is not None), key=_is_prepared))

    def _pool(self, node: NodeFacts, key: tuple[str, str], here: list[ResourceSlice]) -> Pool | None:
        """None where drivers have begun to replace all slices of it that the node could reach."""
        wanted = here[0].pool
        same_pool = self._by_pool[key]
        # Newer slices that the node cannot reach make these old all the same.
        if any(one.pool.generation > wanted.generation for one in same_pool):
            return None
        every: Sequence[ResourceSlice] = here
        # The other slices may be those that the node cannot reach: a pool is complete as a whole.
        if len(here) != wanted.slice_count:
            every = [one for one in same_pool if one.pool.generation == wanted.generation]
            if len(every) != wanted.slice_count:
                problem = f"is being changed: {len(every)} of {wanted.slice_count} slices are there"
                return Pool(*key, problem)
        return _built(node, key, here, every)


def _is_prepared(pool: Pool) -> bool:
    return any(one.device.binding_conditions for one in pool.candidates)


def _built(
    node: NodeFacts, key: tuple[str, str], here: list[ResourceSlice], every: Sequence[ResourceSlice]
) -> Pool:
    here_names = {one.name for one in here}
    away = [one for one in every if one.name not in here_names]
    # A counter set may stand in a slice that the node cannot reach.
    counters: dict[Counter, int] = {}
    sets = {one.name for part in (*here, *away) for one in part.counter_sets}
    problem = _duplicate_device(here) or _count(counters, (*here, *away))
    candidates = [_candidates(node, one) for one in sorted(here, key=lambda one: one.name)]
    elsewhere = [_candidates(node, one) for one in away]
    for slice_candidates in (*candidates, *elsewhere):
        for candidate in slice_candidates:
            problem = problem or _unknown_counter(candidate, counters, sets)
    if problem:
        return Pool(*key, problem, is_invalid=True)
    flat = tuple(one for part in candidates for one in part)
    rest = tuple(one for part in elsewhere for one in part)
    names = frozenset(one.device.name for one in (*flat, *rest))
    return Pool(*key, candidates=flat, elsewhere=rest, counters=counters, names=names)


def _candidates(node: NodeFacts, one: ResourceSlice) -> list[Candidate]:
    found = []
    for device in one.devices:
        reach = one.reach or device.reach or NodeReach()
        amounts = {name: has.value for name, has in device.capacity.items()}
        draws = tuple(
            ((use.counter_set, name), amount.nano)
            for use in device.counter_uses
            for name, amount in use.counters.items()
        )
        found.append(
            Candidate(
                DeviceId(one.driver, one.pool.name, device.name),
                device,
                DeviceView(one.driver, device.attributes, amounts, device.is_shareable),
                reach,
                # The reach of a whole slice was compared with the node before.
                one.reach is not None or reach.accepts(node),
                draws,
                not one.skips_node_operations,
            )
        )
    return found


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    seen = set()
    for one in slices:
        for device in one.devices:
            if device.name in seen:
                return f"is invalid: it has two devices {device.name}"
            seen.add(device.name)
    return ""


def _count(counters: dict[Counter, int], slices: Iterable[ResourceSlice]) -> str:
    """Write down the counters of all slices; say which set comes twice."""
    seen: dict[str, CounterSet] = {}
    for one in slices:
        for counter_set in one.counter_sets:
            if counter_set.name in seen:
                return f"is invalid: it has two counter sets {counter_set.name}"
            seen[counter_set.name] = counter_set
            for name, amount in counter_set.counters.items():
                counters[counter_set.name, name] = amount.nano
    return ""


def _unknown_counter(candidate: Candidate, counters: dict[Counter, int], sets: set[str]) -> str:
    uses = candidate.device.counter_uses
    names = [use.counter_set for use in uses if use.counter_set not in sets]
    names += ["/".join(counter) for counter, _ in candidate.draws if counter not in counters]
    if not names:
        return ""
    return f"is invalid: device {candidate.device.name} uses the unknown counter {names[0]}"
