"""Prices of nodes that one owns, worked out of what they cost to buy, to run and to power.

An hour costs what is written off in it, ``(purchase - residual) / (years x 8766)``, a part of each year's
support, space and network, and its energy: watts as measured, times what cooling adds (PUE), times the
tariff. Hours are those of the calendar, not of use, so that idle time costs what it costs. The GPUs' part is
theirs of the purchase, and of the yearly costs by the same ratio; of the energy it is what they draw.
"""

from collections.abc import Iterable
from fractions import Fraction

from gpufleet.ledger.price_book import Price, PriceUnit
from gpufleet.ledger.price_files.offers import Imported, number
from gpufleet.ledger.price_files.table_cells import SCOPE, VALIDITY, Line, lines_of
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import rounded

REQUIRED = ("purchase", "gpu_purchase", "years", "currency")
"""Columns without which no price can be worked out."""

YEARLY = ("support", "space", "network")
"""Costs of a year of one node."""

POWER = ("watts", "gpu_watts", "pue", "tariff")
"""The mean power of a node and of its GPUs, what cooling multiplies it by, and the price of a kWh."""

OPTIONAL = ("id", *SCOPE, "residual", *YEARLY, *POWER, *VALIDITY)
"""Columns that may be missing or empty; those of power go together."""

HOURS_PER_YEAR = 8766
"""Of 365 days and a quarter."""

WATTS_PER_KW = 1000
"""A tariff is the price of a kilowatt hour, and power is given in watts."""


def read_owned_nodes(lines: Iterable[str], name: str) -> Imported:
    """The prices of a table. Raises InputError, naming line and column."""
    return Imported(tuple(_price(line) for line in lines_of(lines, name, REQUIRED, OPTIONAL)))


def _price(line: Line) -> Price:
    purchase, residual = line.micro("purchase"), _or_nothing(line, "residual")
    _check(line, "residual", residual, purchase, "purchase")
    gpu_purchase = line.micro("gpu_purchase")
    _check(line, "gpu_purchase", gpu_purchase, purchase, "purchase")
    years = number(line.text("years"), field="years", where=line.where)
    if not years or not purchase:
        column = "purchase" if years else "years"
        raise InputError(
            "is 0", where=line.where, field=column, value=line.text(column), expected="more than 0"
        )
    yearly = sum(_or_nothing(line, column) for column in YEARLY)
    hourly = Fraction(purchase - residual) / (years * HOURS_PER_YEAR) + Fraction(yearly, HOURS_PER_YEAR)
    energy, gpu_energy = _energy(line)
    whole, of_gpus = hourly + energy, hourly * Fraction(gpu_purchase, purchase) + gpu_energy
    return Price(
        line.id,
        line.scope(),
        PriceUnit.NODE_HOUR,
        rounded(whole.numerator, whole.denominator),
        line.currency(),
        line.moment("valid_from") or 0,
        line.moment("valid_to"),
        gpu_micro=rounded(of_gpus.numerator, of_gpus.denominator),
        source=line.where,
    )


def _energy(line: Line) -> tuple[Fraction, Fraction]:
    """What an hour of the node's power costs, and of that its GPUs'; nothing without all four columns."""
    told = [column for column in POWER if line.text(column)]
    if not told:
        return Fraction(0), Fraction(0)
    if len(told) < len(POWER):
        missing = next(column for column in POWER if column not in told)
        raise InputError("is missing", where=line.where, field=missing, expected=f"all of {', '.join(POWER)}")
    watts, gpu_watts, pue = (
        number(line.text(column), field=column, where=line.where) for column in POWER[:3]
    )
    if pue < 1:
        raise InputError(
            "below 1", where=line.where, field="pue", value=line.text("pue"), expected="1 or more"
        )
    _check(line, "gpu_watts", gpu_watts, watts, "watts")
    price = line.micro("tariff") * pue / WATTS_PER_KW
    return watts * price, gpu_watts * price


def _or_nothing(line: Line, column: str) -> int:
    """An amount that a line may leave out."""
    return line.micro(column) if line.text(column) else 0


def _check(line: Line, column: str, part: int | Fraction, whole: int | Fraction, of: str) -> None:
    if part > whole:
        expected = f"at most the {of}"
        raise InputError(
            "too much", where=line.where, field=column, value=line.text(column), expected=expected
        )
