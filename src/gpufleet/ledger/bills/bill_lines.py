"""Lines of a bill in whole micro-units, which add up to the bill.

Bills have amounts with up to twenty decimals. They are rounded together, so nothing is lost or made.
"""

from collections.abc import Iterable
from fractions import Fraction

import msgspec

from gpufleet.ledger.spans import Span
from gpufleet.model.money import MICRO_UNITS, rounded_together


class BilledResource(msgspec.Struct, frozen=True, order=True):
    """What a line is for, as the provider names it."""

    id: str = ""
    name: str = ""
    zone: str = ""


class ExactLine(msgspec.Struct, frozen=True):
    """A line as it was read. ``service`` is what is paid for, in the bill's own words."""

    resource: BilledResource
    span: Span
    amount: Fraction
    service: str = ""
    is_correction: bool = False
    is_unused: bool = False


class BillLine(msgspec.Struct, frozen=True):
    """A line in micro-units. ``is_unused`` is a commitment that nothing used."""

    resource: BilledResource
    span: Span
    amount_micro: int
    service: str = ""
    is_correction: bool = False
    is_unused: bool = False


class Bill(msgspec.Struct, frozen=True):
    """The lines of some files, all in one currency."""

    lines: tuple[BillLine, ...]
    currency: str

    @property
    def total_micro(self) -> int:
        """What all lines add up to."""
        return sum(line.amount_micro for line in self.lines)


def in_micro_units(lines: Iterable[ExactLine]) -> tuple[BillLine, ...]:
    """The lines, which add up to their exact sum, rounded to a micro-unit."""
    found = list(lines)
    amounts = rounded_together([line.amount * MICRO_UNITS for line in found])
    return tuple(
        BillLine(line.resource, line.span, micro, line.service, line.is_correction, line.is_unused)
        for line, micro in zip(found, amounts, strict=True)
    )
