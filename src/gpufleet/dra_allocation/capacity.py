"""Capacities of devices, and how much of them a request takes.

A request takes at least what it asks for: the policy of the device rounds it up, or says that the device
cannot serve it. Amounts are integers of nano units, as in ``model.quantity``. Rules: Kubernetes,
KEP-5075 (consumable capacity), with fractional ranges as since 1.37.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import MAXIMUM_INT64, NANO_PER_MILLI, NANO_PER_UNIT, Quantity


@dataclass(frozen=True, slots=True)
class AmountRange:
    """Amounts from a minimum up, in steps where there is one. Nothing above the maximum is served."""

    minimum: Quantity
    maximum: Quantity | None = None
    step: Quantity | None = None

    def __post_init__(self) -> None:
        if self.step is not None and self.step.nano <= 0:
            raise InputError("no step", field="step", value=str(self.step), expected="more than 0")

    @property
    def unit_nano(self) -> int:
        """The unit in which steps are counted: thousandths where all bounds are whole thousandths."""
        bounds = [one.nano for one in (self.minimum, self.maximum, self.step) if one is not None]
        is_milli = all(_is_milli(nano) for nano in bounds)
        return NANO_PER_MILLI if is_milli else NANO_PER_UNIT


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Which amounts may be taken. ``default`` is taken where nothing is asked for."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: AmountRange | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """How much a device has of something."""

    value: Quantity
    policy: RequestPolicy | None = None


def amounts_taken(
    requests: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity]
) -> dict[str, Quantity] | None:
    """How much a request takes of each capacity; None where the device cannot serve it.

    Raises ClaimError for an amount that no device can count.
    """
    if any(name not in capacity for name in requests):
        return None
    taken = {}
    # Capacities that are not asked for are taken too, by what their policy says.
    for name, has in capacity.items():
        amount = _taken(name, requests.get(name), has)
        if amount.nano < 0:
            raise ClaimError("a negative capacity", field=name, value=str(amount), expected="0 or more")
        taken[name] = amount
    if any(_violates(taken[name], has.policy) for name, has in capacity.items()):
        return None
    return taken


def _taken(name: str, asked: Quantity | None, has: DeviceCapacity) -> Quantity:
    policy = has.policy
    if asked is None:
        # Nothing says that less would do where there is no default, so all of it is taken.
        return has.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.valid_range is not None:
        return _in_range(name, asked, policy.valid_range)
    # Valid values ascend. An amount above all of them stays as it is, and ``_violates`` refuses it.
    return next((value for value in policy.valid_values if not value < asked), asked)


def _in_range(name: str, asked: Quantity, valid: AmountRange) -> Quantity:
    if asked < valid.minimum:
        return valid.minimum
    if valid.step is None:
        return asked
    unit = valid.unit_nano
    if (unit == NANO_PER_MILLI and not _is_milli(asked.nano)) or _units(asked.nano, unit) > MAXIMUM_INT64:
        expected = "an amount of whole thousandths of 64 bits"
        raise ClaimError("an amount that cannot be counted", field=name, value=str(asked), expected=expected)
    least, step = _units(valid.minimum.nano, unit), _units(valid.step.nano, unit)
    # Rounded up in integers: a request gets at least what it asks for.
    rounded = least + -(-(_units(asked.nano, unit) - least) // step) * step
    if rounded > MAXIMUM_INT64:
        expected = "an amount whose next step has 64 bits"
        raise ClaimError("an amount that cannot be counted", field=name, value=str(asked), expected=expected)
    return Quantity(rounded * unit, valid.step.notation)


def _violates(amount: Quantity, policy: RequestPolicy | None) -> bool:
    # The default of a policy is served although it may lie outside of what the policy takes.
    if policy is None or amount == policy.default:
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if valid.maximum is not None and valid.maximum < amount:
        return True
    if valid.step is None:
        return False
    unit = valid.unit_nano
    if unit == NANO_PER_MILLI and not _is_milli(amount.nano):
        return True
    away = _units(amount.nano, unit) - _units(valid.minimum.nano, unit)
    return away % _units(valid.step.nano, unit) != 0


def _is_milli(nano: int) -> bool:
    return nano % NANO_PER_MILLI == 0 and abs(nano // NANO_PER_MILLI) <= MAXIMUM_INT64


def _units(nano: int, unit: int) -> int:
    """The amount in units, rounded away from zero."""
    return -(-nano // unit) if nano > 0 else nano // unit
