"""Amounts and times of a scenario file, as whole numbers of the engine's units."""

import re

from gpufleet.model.quantity import Quantity, parse_quantity
from gpufleet.model.queue import COST, CPU, GPU, GPU_MEMORY, GPU_MODEL_PREFIX
from gpufleet.model.resources import MEBIBYTE
from gpufleet.scenario.errors import ScenarioError
from gpufleet.scenario.text import Amount

_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_MICROSECONDS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_MILLIONTHS = 10**6


def quantity(amount: Amount, field: str) -> Quantity:
    """An amount, not below nothing."""
    read = parse_quantity(str(amount), field=field)
    if read < Quantity(0):
        raise ScenarioError("below nothing", field=field, value=amount, expected="0 or more")
    return read


def milli(amount: Amount, field: str) -> int:
    """Thousandths."""
    return quantity(amount, field).milli_value()


def units(amount: Amount, field: str) -> int:
    """Whole units, bytes for example."""
    return quantity(amount, field).value()


def mebibytes(amount: Amount, field: str) -> int:
    """MiB; a plain number is one of MiB, as with our annotations."""
    if isinstance(amount, int):
        return units(amount, field)
    return -(-units(amount, field) // MEBIBYTE)


def quota_amount(resource: str, amount: Amount, field: str) -> int:
    """An amount of a resource in the unit in which quotas count it (``model.queue``)."""
    if resource in {GPU, CPU, COST} or resource.startswith(GPU_MODEL_PREFIX):
        return milli(amount, field)
    return mebibytes(amount, field) if resource == GPU_MEMORY else units(amount, field)


def microseconds(text: str, field: str) -> int:
    """A length of time such as 90s, 5m or 1h30m."""
    parts = list(_PART.finditer(text))
    if not parts or "".join(part.group(0) for part in parts) != text:
        raise ScenarioError(
            "not a length of time", field=field, value=text, expected="such as 90s, 5m, 1h30m or 2d"
        )
    total = 0
    for part in parts:
        whole, _, rest = part.group(1).partition(".")
        millionths = int(whole) * _MILLIONTHS + int((rest or "0").ljust(6, "0"))
        total += millionths * _MICROSECONDS[part.group(2)] // _MILLIONTHS
    return total
