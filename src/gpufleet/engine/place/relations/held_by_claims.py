"""Which devices are held, by which claims: the allocations of every claim, by pool."""

from collections.abc import Iterable

from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.results import Allocation
from gpufleet.engine.place.relations.device_catalogue import PoolName


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

    def is_disputed(self, claim: str, allocation: Allocation) -> bool:
        """True if another claim holds one of these devices as well, and it is not for several."""
        return any(
            theirs.excludes(ours)
            for ours in allocation.devices
            for other, has in self._by_pool.get((ours.id.driver, ours.id.pool), {}).items()
            if other != claim
            for theirs in has.devices
        )


def _pools(allocation: Allocation | None) -> dict[PoolName, None]:
    devices = () if allocation is None else allocation.devices
    return dict.fromkeys((one.id.driver, one.id.pool) for one in devices)
