"""gpufleet's own table of prices: one price a line, for some nodes and for some time.

Columns that say nothing may be missing. An empty cell of a scope stands for any value.
"""

from collections.abc import Iterable

from gpufleet.ledger.price_book import Price, PriceUnit
from gpufleet.ledger.price_files.offers import Imported
from gpufleet.ledger.price_files.table_cells import SCOPE, VALIDITY, Line, lines_of
from gpufleet.model.model_errors import InputError

REQUIRED = ("unit", "amount", "currency")
"""Columns without which a line is no price."""

OPTIONAL = ("id", *SCOPE, "gpu_amount", *VALIDITY)
"""Columns that narrow a price down."""


def read_own_table(lines: Iterable[str], name: str) -> Imported:
    """The prices of a table. Raises InputError, naming line and column."""
    return Imported(tuple(_price(line) for line in lines_of(lines, name, REQUIRED, OPTIONAL)))


def _price(line: Line) -> Price:
    return Price(
        line.id,
        line.scope(),
        _unit(line.text("unit"), line.where),
        line.micro("amount"),
        line.currency(),
        line.moment("valid_from") or 0,
        line.moment("valid_to"),
        gpu_micro=line.micro("gpu_amount") if line.text("gpu_amount") else None,
        source=line.where,
    )


def _unit(text: str, where: str) -> PriceUnit:
    units = {unit.value.lower(): unit for unit in PriceUnit}
    if text.lower() not in units:
        expected = " or ".join(PriceUnit)
        raise InputError("not a unit", where=where, field="unit", value=text, expected=expected)
    return units[text.lower()]
