"""Which nodes offer alike devices: what a claim finds on one of them, it finds on the others.

Alike devices have one name and content, but for what names a single device (its UUID, its address). For
those it counts which devices have the same, since a constraint may ask for it. A claim with a selector that
reads such a name finds nodes alike only by asking each.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from gpufleet.device_selectors.cel_errors import ExpressionError
from gpufleet.device_selectors.selector import DEFAULT_FEATURES, Features, selector
from gpufleet.device_selectors.values import Version
from gpufleet.dra_allocation.claims import DeviceClass, ResourceClaim
from gpufleet.dra_allocation.slices import Device, ResourceSlice

NAMES_OF_ONE_DEVICE = frozenset(
    {
        "uuid",
        "parentUUID",
        "pciBusID",
        "pciAddress",
        "pcieRoot",
        "parentPciBusID",
        "serial",
        "serialNumber",
        "mac",
        "ipv4",
        "ipv6",
        "guid",
    }
)
"""Attributes of drivers that differ from node to node, without their domains."""


def asks_for_one_device(
    claims: Iterable[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    features: Features = DEFAULT_FEATURES,
) -> bool:
    """True if a selector of these claims may tell devices apart by what names a single one."""
    choices = (choice for claim in claims for request in claim.requests for choice in request.choices)
    for choice in choices:
        of_class = classes.get(choice.class_name)
        selectors = choice.selectors if of_class is None else (*of_class.selectors, *choice.selectors)
        if any(_names_one_device(expression, features) for expression in selectors):
            return True
    return False


def _names_one_device(expression: str, features: Features) -> bool:
    try:
        reads = selector(expression, features).reads
    except ExpressionError:
        # It refuses every device alike.
        return False
    return reads is None or not reads.isdisjoint(NAMES_OF_ONE_DEVICE)


class SliceContent(NamedTuple):
    """What a slice offers. ``single`` are the values that name single devices, each once, in order."""

    content: Hashable
    single: tuple[Hashable, ...]


def content_of(one: ResourceSlice) -> SliceContent:
    """What a slice offers, apart from where it is and which single devices it has."""
    values: dict[Hashable, int] = {}
    devices = tuple(_content(device, values) for device in one.devices)
    counters = tuple(
        (each.name, tuple(sorted((name, has.nano) for name, has in each.counters.items())))
        for each in one.counter_sets
    )
    content = (one.driver, devices, counters, one.skips_node_operations, one.reach is None)
    return SliceContent(content, tuple(values))


def _content(device: Device, values: dict[Hashable, int]) -> Hashable:
    attributes = []
    for name, value in device.attributes.items():
        typed: Hashable
        if isinstance(value, str | bool | int | Version):
            typed = (type(value), value)
            if name.rpartition("/")[2] in NAMES_OF_ONE_DEVICE:
                typed = values.setdefault(typed, len(values))
        else:
            # Of lists a constraint compares the parts, so no number stands for one.
            typed = tuple((type(each), each) for each in value)
        attributes.append((name, typed))
    capacity = tuple((name, has.value.nano, has.policy) for name, has in sorted(device.capacity.items()))
    uses = tuple(
        (
            use.counter_set,
            tuple((name, amount.nano) for name, amount in sorted(use.counters.items())),
            use.compatibility_groups,
        )
        for use in device.counter_uses
    )
    attributes.sort(key=lambda one: one[0])
    return (
        device.name,
        tuple(attributes),
        capacity,
        uses,
        device.taints,
        device.reach,
        device.binding_conditions,
        device.is_shareable,
    )


def labelled(groups: Iterable[Iterable[Hashable]]) -> tuple[int, ...]:
    """Values by the order in which they first came: in 0, 1, 0 the first and the third are the same."""
    known: dict[Hashable, int] = {}
    return tuple(known.setdefault(one, len(known)) for group in groups for one in group)
