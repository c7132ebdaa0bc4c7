"""What can be bought: types of instances with their GPUs, their size and their price for an hour.

A table of ours has 16 types of two providers at one date. Prices change and contracts differ, so a table of
one's own takes its place: CSV with the same columns.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.model import gpu_model
from gpufleet.model.gpu_catalogue import GpuModel
from gpufleet.model.label_advice import nearest
from gpufleet.model.label_syntax import is_label_value
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import MICRO_UNITS, rounded
from gpufleet.model.phrases import listed
from gpufleet.model.taint import Taint

CATALOGUE = "--catalogue"
TYPE = "--type"
REQUIRED = ("instance_type", "gpus", "gpu_model", "cpus", "memory_gib", "price", "currency")
OPTIONAL = ("provider", "region", "zone", "capacity_type", "most", "interruptions_per_hour")
"""Columns that may be missing; an empty cell says nothing."""

SHIPPED = "the table of gpufleet of November 2026: on demand, list prices"
"""What the table that comes with gpufleet is called, with its date: a price without a date is no fact."""

ON_DEMAND = "on-demand"
TABLE_BYTES_MAX = 16 * 1024 * 1024
"""A table of types has a few kilobytes; more is another file by mistake."""

GPUS_MAX = 64
"""More than any machine has."""

AMOUNT_MAX = 10**9
"""CPUs, GiB and prices beyond are a mistake in typing."""

AMOUNT = re.compile(r"[0-9]{1,10}(\.[0-9]{1,20})?")
"""Amounts as price lists write them. Exponents are refused: the power of one may not fit the memory."""

RATE_MAX = 60
"""A node that is taken back more than once a minute computes nothing."""

CURRENCY_LENGTH = 3
"""Letters of a currency's code by ISO 4217."""

NODE_COUNT_MAX = 10_000
"""As many nodes of one type as a large cluster has in all."""


class InstanceType(msgspec.Struct, frozen=True):
    """A type of node that can be bought. ``most`` is how many can be had, None for as many as are wanted.
    ``interruptions_per_hour`` is how often its provider takes a node back, None where that is not known.

    ``node_names`` is how the names of its nodes begin, which ``node_names.named`` says. ``pool`` is the
    NodePool of Karpenter that buys it, "" for none. Its nodes have ``labels`` and ``taints`` besides those
    that a provider gives every node, and ``amounts`` of further resources.
    """

    name: str
    gpus: int
    gpu_model: str
    gpu_memory_mib: int | None
    cpu_milli: int
    memory_mib: int
    price_micro: int
    currency: str
    provider: str = ""
    region: str = ""
    zone: str = ""
    capacity_type: str = ON_DEMAND
    most: int | None = None
    node_names: str = ""
    interruptions_per_hour: float | None = None
    pool: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    amounts: tuple[tuple[str, str], ...] = ()


class Catalogue(msgspec.Struct, frozen=True):
    """Types in one currency, and where they come from."""

    types: tuple[InstanceType, ...]
    source: str

    @property
    def currency(self) -> str:
        """The currency of all prices."""
        return self.types[0].currency


def shipped() -> Catalogue:
    """The table that comes with gpufleet."""
    text = (files("gpufleet.plan") / "data" / "instance_types.csv").read_text(encoding="utf-8")
    return read_catalogue(text, SHIPPED)


def catalogue_of(path: Path | None) -> Catalogue:
    """The table of a file, or ours. Raises InputError."""
    if path is None:
        return shipped()
    try:
        text = read_regular(path, TABLE_BYTES_MAX, field=CATALOGUE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8", field=CATALOGUE, value=str(path), expected="a table in UTF-8"
        ) from error
    return read_catalogue(text, path.name)


def chosen(catalogue: Catalogue, names: Iterable[str]) -> Catalogue:
    """The catalogue with the types of these names alone; with all for none. Raises InputError."""
    wanted = dict.fromkeys(names)
    if not wanted:
        return catalogue
    known = {one.name for one in catalogue.types}
    for name in wanted:
        if name not in known:
            near = nearest(name, known)
            expected = f"did you mean {near}?" if near else f"such as {listed(sorted(known)[:5])}"
            raise InputError("no such type of instance", field=TYPE, value=name, expected=expected)
    return msgspec.structs.replace(
        catalogue, types=tuple(one for one in catalogue.types if one.name in wanted)
    )


def read_catalogue(text: str, name: str) -> Catalogue:
    """A table of types. Raises InputError, naming the line and the column."""
    rows = csv.DictReader(text.splitlines(), strict=True)
    types: list[InstanceType] = []
    try:
        _check_columns(rows.fieldnames or (), name)
        for row in rows:
            where = f"{name}, line {rows.line_num}"
            if None in row or None in row.values():
                expected = f"{len(rows.fieldnames or ())} cells"
                raise InputError("more or fewer cells than columns", where=where, expected=expected)
            types.append(_type(row, where))
            _check_beside(types, where)
    except csv.Error as error:
        where = f"{name}, line {rows.line_num}"
        expected = "a table with commas, and a heading"
        raise InputError(f"no table ({error})", where=where, expected=expected) from error
    if not types:
        raise InputError("no type of instance", where=name, expected="a line for each type")
    return Catalogue(tuple(types), name)


def _check_columns(found: Iterable[str], name: str) -> None:
    columns = list(found)
    for column in columns:
        if column not in (*REQUIRED, *OPTIONAL):
            expected = f"columns of {', '.join((*REQUIRED, *OPTIONAL))}"
            raise InputError("an unknown column", where=name, value=column, expected=expected)
        if columns.count(column) > 1:
            raise InputError("a column twice", where=name, value=column, expected="each once")
    missing = [column for column in REQUIRED if column not in columns]
    if missing:
        expected = f"a heading with {', '.join(REQUIRED)}"
        raise InputError(f"no column {missing[0]}", where=name, expected=expected)


def _check_beside(types: list[InstanceType], where: str) -> None:
    """A type is named once at a place, and all prices are of one currency: they are compared."""
    last = types[-1]
    if last.currency != types[0].currency:
        expected = f"{types[0].currency}, as in the first line"
        raise InputError(
            "another currency", where=where, field="currency", value=last.currency, expected=expected
        )
    if any(_place(one) == _place(last) for one in types[:-1]):
        expected = "each type once in a region, a zone and a capacity type"
        raise InputError(
            "named twice", where=where, field="instance_type", value=last.name, expected=expected
        )


def _place(one: InstanceType) -> tuple[str, ...]:
    return one.name, one.provider, one.region, one.zone, one.capacity_type


def _type(row: Mapping[str, str], where: str) -> InstanceType:
    name = row["instance_type"]
    if not name or not is_label_value(name):
        expected = "the value of a label node.kubernetes.io/instance-type"
        raise InputError("not a type", where=where, field="instance_type", value=name, expected=expected)
    gpus = _whole(row["gpus"], "gpus", where, GPUS_MAX)
    model = _model(row["gpu_model"], where)
    currency = row["currency"]
    if len(currency) != CURRENCY_LENGTH or not (currency.isascii() and currency.isalpha()):
        raise InputError(
            "not a currency", where=where, field="currency", value=currency, expected="such as USD"
        )
    most = row.get("most") or ""
    return InstanceType(
        name,
        gpus,
        str(model.name),
        model.memory_mib,
        _scaled(row["cpus"], "cpus", where, 1_000),
        _scaled(row["memory_gib"], "memory_gib", where, 1_024),
        _scaled(row["price"], "price", where, MICRO_UNITS),
        currency.upper(),
        _place_name(row, "provider", where),
        _place_name(row, "region", where),
        _place_name(row, "zone", where),
        _place_name(row, "capacity_type", where) or ON_DEMAND,
        _whole(most, "most", where, NODE_COUNT_MAX) if most else None,
        interruptions_per_hour=_rate(row.get("interruptions_per_hour") or "", where),
    )


def _rate(text: str, where: str) -> float | None:
    """A rate by the hour; None for an empty cell, which says nothing."""
    if not text:
        return None
    if not AMOUNT.fullmatch(text) or float(text) > RATE_MAX:
        expected = f"a number such as 0.02, up to {RATE_MAX}"
        raise InputError(
            "not a rate", where=where, field="interruptions_per_hour", value=text, expected=expected
        )
    return float(text)


def _place_name(row: Mapping[str, str], column: str, where: str) -> str:
    """A cell that names of nodes and labels are made of; "" where it is missing."""
    text = row.get(column) or ""
    if not is_label_value(text):
        expected = "letters, digits, -, _ and . as in the value of a label"
        raise InputError("not a name", where=where, field=column, value=text, expected=expected)
    return text


def _model(name: str, where: str) -> GpuModel:
    found = gpu_model.matching(name)
    if len(found) == 1:
        return found[0]
    if found:
        expected = "one of " + ", ".join(str(model.name) for model in found)
        raise InputError(
            "may mean several models", where=where, field="gpu_model", value=name, expected=expected
        )
    near = gpu_model.nearest_name(name)
    expected = f"did you mean {near}?" if near else "a model such as H100-80GB"
    raise InputError("no such model of GPU", where=where, field="gpu_model", value=name, expected=expected)


def _whole(text: str, field: str, where: str, most: int) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 1 <= number <= most:
        expected = f"a whole number from 1 to {most:,}"
        raise InputError("not a number of that", where=where, field=field, value=text, expected=expected)
    return number


def _scaled(text: str, field: str, where: str, units: int) -> int:
    """An amount in units, rounded to the nearest. A price of 0 would make any number of nodes free."""
    amount = Fraction(text) if AMOUNT.fullmatch(text) else Fraction(0)
    found = rounded(amount.numerator * units, amount.denominator)
    if not found or amount > AMOUNT_MAX:
        least = f"{1 / units:.6f}".rstrip("0")
        expected = f"a number such as 55.04, from {least} to {AMOUNT_MAX:,}"
        raise InputError("not an amount", where=where, field=field, value=text, expected=expected)
    return found
