"""Cells of tables that people write by hand: amounts, currencies, moments, and the nodes of a line."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation

from gpufleet.kube.codec.times import EXPECTED, microseconds
from gpufleet.ledger.price_book import PriceScope
from gpufleet.model.gpu_model import find
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import MICRO_UNITS

SCOPE = ("provider", "region", "zone", "instance_type", "gpu_model", "capacity_type", "labels")
"""Columns of the nodes that a line is for; an empty cell is any."""

VALIDITY = ("valid_from", "valid_to")
"""Columns of the time that a line is good for."""

CURRENCY_LENGTH = 3
"""Letters of a currency's code by ISO 4217."""

Cells = Mapping[str, str]


class Line:
    """A line of a table, by column; a cell that is missing is empty."""

    def __init__(self, cells: Cells, name: str, number: int) -> None:
        self._cells = cells
        self.where = f"{name}, line {number}"
        self.id = cells.get("id") or f"{name}:{number}"

    def text(self, column: str) -> str:
        """The cell as it is written."""
        return self._cells.get(column, "")

    def scope(self) -> PriceScope:
        """The nodes that it is for."""
        return PriceScope(
            labels=_labels(self.text("labels"), self.where),
            instance_type=self.text("instance_type"),
            gpu_model=_model(self.text("gpu_model")),
            zone=self.text("zone"),
            capacity_type=self.text("capacity_type"),
            region=self.text("region"),
            provider=self.text("provider"),
        )

    def currency(self) -> str:
        """The code of its currency."""
        text = self.text("currency")
        if len(text) != CURRENCY_LENGTH or not (text.isascii() and text.isalpha() and text.isupper()):
            expected = "a code such as USD or EUR"
            raise InputError(
                "not a currency", where=self.where, field="currency", value=text, expected=expected
            )
        return text

    def micro(self, column: str) -> int:
        """An amount in micro-units."""
        return _micro(self.text(column), column, self.where)

    def moment(self, column: str) -> int | None:
        """A moment; None for an empty cell."""
        return _moment(self.text(column), column, self.where)


def lines_of(
    lines: Iterable[str], name: str, required: Iterable[str], optional: Iterable[str]
) -> Iterator[Line]:
    """The lines of a table with these columns. Raises InputError, naming line and column."""
    rows = csv.DictReader(lines, strict=True)
    try:
        _check_columns(rows.fieldnames or (), name, tuple(required), tuple(optional))
        for row in rows:
            if None in row:
                where = f"{name}, line {rows.line_num}"
                raise InputError("more cells than columns", where=where, expected="one cell a column")
            yield Line({key: (value or "").strip() for key, value in row.items()}, name, rows.line_num)
    except csv.Error as error:
        expected = "a table with commas, and a heading"
        raise InputError(
            f"no table ({error})", where=f"{name}, line {rows.line_num}", expected=expected
        ) from error


def _check_columns(
    found: Iterable[str], name: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    columns = list(found)
    for column in columns:
        if column not in (*required, *optional):
            expected = f"columns of {', '.join((*required, *optional))}"
            raise InputError("an unknown column", where=name, value=column, expected=expected)
    missing = [column for column in required if column not in columns]
    if missing:
        raise InputError(f"no column {missing[0]}", where=name, expected=f"columns {', '.join(required)}")


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
