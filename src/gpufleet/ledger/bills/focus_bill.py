"""Bills in the form of FOCUS, as AWS, Azure, Google Cloud and Oracle export them: versions 1.0 to 1.4, CSV.

``EffectiveCost`` is what is divided: it spreads what was paid for commitments over what used them, where
``BilledCost`` is 0 for all that was paid in advance. Columns that are not read may be missing.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from gpufleet.kube.codec.times import EXPECTED as A_TIME
from gpufleet.kube.codec.times import microseconds
from gpufleet.ledger.bills.bill_lines import Bill, BilledResource, ExactLine, in_micro_units
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

REQUIRED = ("EffectiveCost", "BillingCurrency", "ChargePeriodStart", "ChargePeriodEnd", "ResourceId")
"""Columns without which no line can be divided."""

CORRECTION = "Correction"
"""The class of a line that changes an earlier bill."""

UNUSED = "Unused"
"""The status of the part of a commitment that nothing used."""

EXPECTED = f"CSV in the form of FOCUS, with {', '.join(REQUIRED)}"
"""What is expected of a bill."""

Row = Mapping[str, str]


def read_bills(bills: Iterable[tuple[bytes, str]]) -> Bill:
    """The lines of several files, each with its name. Raises InputError, naming file and line."""
    lines: list[ExactLine] = []
    currency = ""
    for content, name in bills:
        for where, row in _rows(content, name):
            told = row["BillingCurrency"]
            if currency not in ("", told):
                raise InputError(
                    "another currency than before",
                    where=where,
                    field="BillingCurrency",
                    value=told,
                    expected=currency,
                )
            currency = told
            lines.append(_line(row, where))
    return Bill(in_micro_units(lines), currency)


def _rows(content: bytes, name: str) -> Iterator[tuple[str, Row]]:
    try:
        # With or without the byte order mark that some programs write first.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not text", where=name, expected=EXPECTED) from error
    # A cell may hold any character, also one at which Python would split lines.
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = [column for column in REQUIRED if column not in (rows.fieldnames or ())]
        if missing:
            raise InputError(f"no column {missing[0]}", where=name, expected=EXPECTED)
        for row in rows:
            where = f"{name}, line {rows.line_num}"
            # DictReader has None for cells that are missing, and as the key of cells beyond the columns.
            if None in row or None in row.values():
                raise InputError("a line of another length", where=where, expected="as many cells as columns")
            yield where, {key: "" if cell in NULLS else cell for key, cell in row.items()}
    except csv.Error as error:
        raise InputError(
            f"no table ({error})", where=f"{name}, line {rows.line_num}", expected=EXPECTED
        ) from error


NULLS = frozenset({"NULL", "null", "None"})
"""How exports write a cell that has no value, beside an empty one."""


def _line(row: Row, where: str) -> ExactLine:
    begin_us, end_us = (_moment(row[column], column, where) for column in PERIOD)
    if begin_us >= end_us:
        raise InputError(
            "the period ends before it begins", where=where, field=PERIOD[1], value=row[PERIOD[1]],
            expected=f"a moment after {row[PERIOD[0]]}",
        )  # fmt: skip
    return ExactLine(
        BilledResource(row["ResourceId"], row.get("ResourceName", ""), row.get("AvailabilityZone", "")),
        Span(begin_us, end_us),
        _amount(row["EffectiveCost"], where),
        row.get("ServiceName", "") or row.get("ChargeDescription", ""),
        row.get("ChargeClass", "") == CORRECTION,
        row.get("CommitmentDiscountStatus", "") == UNUSED,
    )


PERIOD = ("ChargePeriodStart", "ChargePeriodEnd")
"""Columns of the time that a line is for, the end exclusive."""


_MINUTES = re.compile(r"T[0-9]{2}:[0-9]{2}$")
_ZONE = re.compile(r"(Z|[+-][0-9]{2}:[0-9]{2})$")


def _moment(text: str, field: str, where: str) -> int:
    """A moment; exports without a zone are in UTC, as the specification asks."""
    written = text.removesuffix(" UTC").replace(" ", "T")
    if "T" not in written:
        written = f"{written}T00:00:00"
    zone = _ZONE.search(written)
    day_time, zone_text = (written[: zone.start()], zone[0]) if zone else (written, "Z")
    # Exports of whole hours may leave the seconds out.
    seconds = ":00" if _MINUTES.search(day_time) else ""
    written = f"{day_time}{seconds}{zone_text}"
    try:
        return microseconds(written)
    except InputError as error:
        raise InputError("not a time", where=where, field=field, value=text, expected=A_TIME) from error


def _amount(text: str, where: str) -> Fraction:
    """An amount, as it is written: also one such as 1.2E-7."""
    if not _AMOUNT.fullmatch(text):
        raise InputError(
            "not an amount",
            where=where,
            field="EffectiveCost",
            value=text[:80],
            expected="a number such as -2.5",
        )
    return Fraction(text)


_AMOUNT = re.compile(
    r"[+-]?[0-9]{1,12}(\.[0-9]{0,40})?([eE]-[0-9]{1,2})?|[+-]?[0-9](\.[0-9]{0,40})?[eE]\+?0?[0-9]"
)
"""Less than any account has, and no exponent that would make a number of any length."""
