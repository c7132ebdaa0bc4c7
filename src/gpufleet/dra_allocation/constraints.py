"""Constraints over the devices of a claim, checked device by device and undone in reverse.

An attribute with a list of values counts as the set of them: devices match while one value is common to all,
and are distinct while no two have one in common.
"""

from gpufleet.dra_allocation.claims import DeviceConstraint
from gpufleet.dra_allocation.slices import Device

Values = frozenset[tuple[type, object]]
"""Values of an attribute with their types: a number is no truth value, and no text."""


class ConstraintState:
    """One constraint, and the values of the devices that are chosen so far."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self.constraint = constraint
        self._chosen: list[Values] = []

    def add(self, driver: str, device: Device) -> bool:
        """Choose the device, if it satisfies the constraint with those that are chosen."""
        values = attribute_values(driver, device, self.constraint.attribute)
        if not values:
            return False
        if self.constraint.is_distinct:
            if any(not values.isdisjoint(one) for one in self._chosen):
                return False
        elif self._chosen:
            # What is common to all devices so far stands last, so one comparison is enough.
            values &= self._chosen[-1]
            if not values:
                return False
        self._chosen.append(values)
        return True

    def remove(self) -> None:
        """Take back the device that was chosen last."""
        self._chosen.pop()


def attribute_values(driver: str, device: Device, attribute: str) -> Values:
    """The values of a device's attribute; none where it lacks the attribute."""
    value = device.attributes.get(attribute)
    if value is None:
        domain, _, identifier = attribute.partition("/")
        # An attribute without a domain belongs to the domain of its driver.
        if domain != driver:
            return frozenset()
        value = device.attributes.get(identifier)
        if value is None:
            return frozenset()
    listed = value if isinstance(value, list) else [value]
    return frozenset((type(one), one) for one in listed)
