"""Compatibility groups: which devices may hold one counter set together.

All of them have no group, or they have a group in common. Counter sets start with the devices that are held.
"""

from collections.abc import Iterable

from gpufleet.dra_allocation.slices import CounterUse


class GroupState:
    """For each counter set the groups that its holders have in common, as a stack."""

    def __init__(self) -> None:
        self._common: dict[str, list[frozenset[str]]] = {}

    def admits(self, uses: Iterable[CounterUse]) -> bool:
        """True if a device with these uses may join the holders of its counter sets."""
        for use in uses:
            common, groups = self._common.get(use.counter_set), frozenset(use.compatibility_groups)
            if common and common[-1] != groups and common[-1].isdisjoint(groups):
                return False
        return True

    def add(self, uses: Iterable[CounterUse]) -> None:
        """A device joins those that hold the counter sets."""
        for use in uses:
            common = self._common.setdefault(use.counter_set, [])
            groups = frozenset(use.compatibility_groups)
            common.append(common[-1] & groups if common else groups)

    def remove(self, uses: Iterable[CounterUse]) -> None:
        """The device that joined last leaves."""
        for use in uses:
            self._common[use.counter_set].pop()
