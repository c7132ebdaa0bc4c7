"""Which devices are held, by which claims: the allocations of every claim, by pool."""

from collections.abc import Hashable, Iterable, Iterator

from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.results import Allocation
from gpufleet.engine.place.relations.alike_nodes import PoolName


class HeldByClaims:
    """The allocations by pool and claim."""

    def __init__(self) -> None:
        self._by_pool: dict[PoolName, dict[str, Allocation]] = {}

    def replace(
        self, claim: str, before: Allocation | None, after: Allocation | None
    ) -> dict[PoolName, None]:
        """A claim has another allocation, or none any more; the pools of which other devices are held."""
        if before == after:
            return {}
        for pool in _pools(before):
            allocations = self._by_pool[pool]
            del allocations[claim]
            if not allocations:
                del self._by_pool[pool]
        for pool in _pools(after):
            if after is not None:
                self._by_pool.setdefault(pool, {})[claim] = after
        return _pools(before) | _pools(after)

    def held_of(self, pools: Iterable[PoolName]) -> HeldDevices:
        """What is held of these pools."""
        found: dict[str, Allocation] = {}
        for pool in pools:
            found.update(self._by_pool.get(pool, {}))
        return HeldDevices.of(found.values())

    def likeness(self, pools: Iterable[PoolName]) -> Hashable:
        """What alike nodes have in common whose pools, in turn, are held alike."""
        return tuple(
            (place, tuple(sorted(_taken(allocations.values(), pool))))
            for place, pool in enumerate(pools)
            if (allocations := self._by_pool.get(pool))
        )

    def others_with(self, claim: str, allocation: Allocation) -> Iterator[str]:
        """Other claims that hold one of these devices as well, where it is not for several."""
        for ours in allocation.devices:
            for other, has in self._by_pool.get((ours.id.driver, ours.id.pool), {}).items():
                if other != claim and any(theirs.excludes(ours) for theirs in has.devices):
                    yield other


def _taken(
    allocations: Iterable[Allocation], pool: PoolName
) -> Iterator[tuple[str, bool, tuple[tuple[str, int], ...]]]:
    """By device of a pool, whether it is held as a share and how much of it."""
    for allocation in allocations:
        for one in allocation.devices:
            if one.id[:2] == pool and not one.admin_access:
                taken = tuple(sorted((name, amount.nano) for name, amount in one.taken.items()))
                yield one.id.device, one.is_share, taken


def _pools(allocation: Allocation | None) -> dict[PoolName, None]:
    devices = () if allocation is None else allocation.devices
    return dict.fromkeys((one.id.driver, one.id.pool) for one in devices)
