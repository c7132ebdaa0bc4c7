"""Amounts and times of a scenario file, as whole numbers of the engine's units."""

from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.codec.quota_amounts import read_amount
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.quantity import Quantity, parse_quantity
from gpufleet.model.queue import GPU_MEMORY
from gpufleet.model.resources import MEBIBYTE
from gpufleet.scenario.scenario_errors import ScenarioError
from gpufleet.scenario.text import Amount


def quantity(amount: Amount, field: str) -> Quantity:
    """An amount, not below nothing."""
    read = parse_quantity(str(amount), field=field)
    if read < Quantity(0):
        raise ScenarioError("below nothing", field=field, value=amount, expected="0 or more")
    return read


def milli(amount: Amount, field: str) -> int:
    """An amount in thousandths."""
    return quantity(amount, field).milli_value()


def units(amount: Amount, field: str) -> int:
    """An amount in whole units, bytes for example."""
    return quantity(amount, field).value()


def mebibytes(amount: Amount, field: str) -> int:
    """MiB; a plain number is one of MiB, as with our annotations."""
    if isinstance(amount, int):
        return units(amount, field)
    # Rounded up: a pod must not get less memory than it asks for.
    return -(-units(amount, field) // MEBIBYTE)


def quota_amount(resource: str, amount: Amount, field: str) -> int:
    """An amount of a resource in the unit in which quotas count it; GPU memory without a unit is in MiB."""
    if resource == GPU_MEMORY and isinstance(amount, int):
        return units(amount, field)
    return read_amount(QuotaResource(resource), str(amount), field)


def microseconds(text: str, field: str) -> int:
    """A length of time such as 90s, 1.5s or 1h30m."""
    return read_duration(text, field, fractions=True)
