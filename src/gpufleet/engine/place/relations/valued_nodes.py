"""Which nodes have a device with a value of an attribute, for claims that name one.

Worked out for an attribute when a claim first names it, and anew when slices changed: claims that name a
single device are rare, and slices change rarely beside them.
"""

from collections.abc import Iterable, Mapping

from gpufleet.device_selectors.reads import NeededValue
from gpufleet.dra_allocation.slices import ResourceSlice

ANYWHERE = ""
"""In place of a node's name: the device is not on a single node."""

NO_NODES: frozenset[str] = frozenset()


class ValuedNodes:
    """Nodes by attribute and value. ``slices`` are all slices by name, as they are now."""

    def __init__(self, slices: Mapping[str, ResourceSlice]) -> None:
        self._slices = slices
        self._nodes: dict[tuple[str, str], dict[str, set[str]]] = {}

    def forget(self) -> None:
        """A slice changed."""
        self._nodes.clear()

    def with_all(self, needed: Iterable[NeededValue]) -> set[str] | None:
        """The nodes that have a device for each of these values; None where any node may have them."""
        found: set[str] | None = None
        for one in needed:
            nodes = self._with(one)
            if ANYWHERE not in nodes:
                found = set(nodes) if found is None else found & nodes
        return found

    def _with(self, one: NeededValue) -> set[str] | frozenset[str]:
        attribute = (one.domain, one.name)
        by_value = self._nodes.get(attribute)
        if by_value is None:
            by_value = self._nodes[attribute] = self._by_value(*attribute)
        return by_value.get(one.value, NO_NODES)

    def _by_value(self, domain: str, name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for one in self._slices.values():
            node = ANYWHERE if one.reach is None else one.reach.node_name or ANYWHERE
            names = (f"{domain}/{name}", name) if one.driver == domain else (f"{domain}/{name}",)
            for device in one.devices:
                for each in names:
                    value = device.attributes.get(each)
                    if isinstance(value, str):
                        found.setdefault(value, set()).add(node)
        return found
