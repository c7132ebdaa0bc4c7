"""Energy and carbon in the answer of ``gpufleet cost``: figures that are shown where they are asked for."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec

from gpufleet.ledger.costs import Group
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import MICRO_UNITS, exact, rounded_together

if TYPE_CHECKING:
    from gpufleet.ledger.energy import Energy

JOULES_PER_KWH = 3_600_000
GRAMS_PER_KG = 1000
"""Intensities of grids are published in grams, and sums are read in kilograms."""


class EnergyFigures(msgspec.Struct, frozen=True):
    """The energy of a time; ``grams_per_kwh`` is what was stated of the grid, None where nothing was."""

    energy: "Energy"
    grams_per_kwh: Fraction | None = None

    def names(self) -> tuple[str, ...]:
        """Columns of a file."""
        return ("energy_joules", "energy_kwh") if self.grams_per_kwh is None else COLUMNS

    def headings(self) -> tuple[str, ...]:
        """Columns of a table."""
        return ("ENERGY KWH",) if self.grams_per_kwh is None else ("ENERGY KWH", "CARBON KG")

    def of_groups(self, groups: Sequence[Group]) -> list[dict[str, str]]:
        """By group what a file has of it; each column adds up to its sum, which is the last one."""
        joules = [self.energy.joules.get(group.key, 0) for group in groups]
        columns = [list(map(str, [*joules, sum(joules)]))]
        columns += [
            [exact(one) for one in (*parts, sum(parts))]
            for parts in (
                rounded_together([amount * MICRO_UNITS for amount in some]) for some in self._parts(joules)
            )
        ]
        return [dict(zip(self.names(), row, strict=True)) for row in zip(*columns, strict=True)]

    def amounts(self, groups: Sequence[Group]) -> list[list[Fraction]]:
        """The columns of a table."""
        return self._parts([self.energy.joules.get(group.key, 0) for group in groups])

    def missing_joules(self, groups: Sequence[Group]) -> int:
        """What is of no group that costs anything."""
        return self.energy.total - sum(self.energy.joules.get(group.key, 0) for group in groups)

    def _parts(self, joules: Sequence[int]) -> list[list[Fraction]]:
        kwh = [Fraction(one, JOULES_PER_KWH) for one in joules]
        if self.grams_per_kwh is None:
            return [kwh]
        return [kwh, [one * self.grams_per_kwh / GRAMS_PER_KG for one in kwh]]


COLUMNS = ("energy_joules", "energy_kwh", "carbon_kg")


def grams_of(text: str | None, *, has_server: bool) -> Fraction | None:
    """Grams of a kWh as they were typed. Raises InputError, also for grams without energy."""
    if text is None:
        return None
    if not has_server:
        expected = "--prometheus URL beside it, which has the energy"
        raise InputError("there is no energy for it", field="--grid-intensity", value=text, expected=expected)
    whole, _, part = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= DIGITS_MAX) or (
        part and not (part.isascii() and part.isdigit() and len(part) <= DIGITS_MAX)
    ):
        expected = "grams of CO2 a kWh, such as 381 or 45.5"
        raise InputError("not an amount", field="--grid-intensity", value=text, expected=expected)
    return Fraction(text)


DIGITS_MAX = 6
"""No grid has a ton a kWh, and none is known to a millionth of a gram."""


def energy_notes(figures: EnergyFigures, groups: Sequence[Group]) -> Iterator[str]:
    """What is not in the columns."""
    if not figures.energy.joules:
        yield "Prometheus knows of no energy in this time: it has to scrape gpufleet's agents"
    missing = figures.missing_joules(groups)
    if missing:
        yield f"{missing:,} J are of groups without a cost, and in no row"
