"""gpufleet's own table of prices: one price a line, for some nodes and for some time.

Columns that say nothing may be missing. An empty cell of a scope stands for any value.
"""

import csv
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from gpufleet.kube.codec.times import EXPECTED, microseconds
from gpufleet.ledger.money import MICRO_UNITS
from gpufleet.ledger.price_book import Price, PriceScope, PriceUnit
from gpufleet.ledger.price_files.offers import Imported
from gpufleet.model.gpu_model import find
from gpufleet.model.model_errors import InputError

REQUIRED = ("unit", "amount", "currency")
"""Columns without which a line is no price."""

OPTIONAL = (
    "id",
    "provider",
    "region",
    "zone",
    "instance_type",
    "gpu_model",
    "capacity_type",
    "labels",
    "gpu_amount",
    "valid_from",
    "valid_to",
)
"""Columns that narrow a price down."""

CURRENCY_LENGTH = 3
"""Letters of a currency's code by ISO 4217."""


def read_own_table(lines: Iterable[str], name: str) -> Imported:
    """The prices of a table. Raises InputError, naming line and column."""
    rows = csv.DictReader(lines, strict=True)
    try:
        _check_columns(rows.fieldnames or (), name)
        prices = [_price(row, f"{name}, line {rows.line_num}", f"{name}:{rows.line_num}") for row in rows]
    except csv.Error as error:
        expected = "a table with commas, and a heading"
        raise InputError(
            f"no table ({error})", where=f"{name}, line {rows.line_num}", expected=expected
        ) from error
    return Imported(tuple(prices))


def _check_columns(found: Iterable[str], name: str) -> None:
    known = {*REQUIRED, *OPTIONAL}
    columns = list(found)
    for column in columns:
        if column not in known:
            expected = f"columns of {', '.join((*REQUIRED, *OPTIONAL))}"
            raise InputError("an unknown column", where=name, value=column, expected=expected)
    missing = [column for column in REQUIRED if column not in columns]
    if missing:
        raise InputError(f"no column {missing[0]}", where=name, expected=f"columns {', '.join(REQUIRED)}")


def _price(row: Mapping[str | None, str | None], where: str, line_id: str) -> Price:
    if None in row:
        raise InputError("more cells than columns", where=where, expected="one cell a column")
    cells = {str(key): (value or "").strip() for key, value in row.items()}
    gpu_amount = cells.get("gpu_amount", "")
    scope = PriceScope(
        labels=_labels(cells.get("labels", ""), where),
        instance_type=cells.get("instance_type", ""),
        gpu_model=_model(cells.get("gpu_model", "")),
        zone=cells.get("zone", ""),
        capacity_type=cells.get("capacity_type", ""),
        region=cells.get("region", ""),
        provider=cells.get("provider", ""),
    )
    return Price(
        cells.get("id") or line_id,
        scope,
        _unit(cells["unit"], where),
        _micro(cells["amount"], "amount", where),
        _currency(cells["currency"], where),
        _moment(cells.get("valid_from", ""), "valid_from", where) or 0,
        _moment(cells.get("valid_to", ""), "valid_to", where),
        gpu_micro=_micro(gpu_amount, "gpu_amount", where) if gpu_amount else None,
        source=where,
    )


def _unit(text: str, where: str) -> PriceUnit:
    units = {unit.value.lower(): unit for unit in PriceUnit}
    if text.lower() not in units:
        expected = " or ".join(PriceUnit)
        raise InputError("not a unit", where=where, field="unit", value=text, expected=expected)
    return units[text.lower()]


def _micro(text: str, field: str, where: str) -> int:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0 or amount > AMOUNT_MAX:
        expected = f"an amount from 0 to {AMOUNT_MAX}, such as 2.50"
        raise InputError("not an amount", where=where, field=field, value=text, expected=expected)
    scaled = amount * MICRO_UNITS
    if scaled != int(scaled):
        expected = "at most six decimals, as bills have"
        raise InputError("too many decimals", where=where, field=field, value=text, expected=expected)
    return int(scaled)


AMOUNT_MAX = 10**9
"""No node costs more an hour, in any currency."""


def _currency(text: str, where: str) -> str:
    if len(text) != CURRENCY_LENGTH or not (text.isascii() and text.isalpha() and text.isupper()):
        expected = "a code such as USD or EUR"
        raise InputError("not a currency", where=where, field="currency", value=text, expected=expected)
    return text


def _moment(text: str, field: str, where: str) -> int | None:
    if not text:
        return None
    try:
        return microseconds(text if len(text) > len("2026-01-31") else f"{text}T00:00:00Z")
    except InputError as error:
        expected = f"{EXPECTED}, or a day such as 2026-01-31"
        raise InputError("not a time", where=where, field=field, value=text, expected=expected) from error


def _labels(text: str, where: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in filter(None, (one.strip() for one in text.split(";"))):
        key, equals, value = part.partition("=")
        if not equals or not key:
            expected = "KEY=VALUE, more of them after a semicolon"
            raise InputError("not a label", where=where, field="labels", value=part, expected=expected)
        found.append((key, value))
    return tuple(sorted(found))


def _model(text: str) -> str:
    """The name that the catalogue has for a model; any other name as it is written."""
    found = find(text) if text else None
    return text if found is None else found.name
