"""What a Prometheus adds to ``gpufleet cost``: measured use, energy and carbon, or the cost of tokens."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gpufleet.cli.cost_energy import EnergyFigures, energy_notes, grams_of
from gpufleet.cli.cost_input import DAY_US, Asked, Known, groupings
from gpufleet.cli.cost_output import show
from gpufleet.ledger.bills.billed_hours import Division
from gpufleet.ledger.costs import cost_of
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

if TYPE_CHECKING:
    from gpufleet.ledger.past import Past
    from gpufleet.usage.prometheus.access import Access


class Measured:
    """What is asked of a server; nothing where none is named."""

    def __init__(
        self, access: "Access | None", grid_intensity: str | None, by: str | None, *, tokens: bool
    ) -> None:
        """Raises InputError for options that say nothing together."""
        self._access = access
        self._tokens = tokens
        self._grams = grams_of(grid_intensity, has_server=access is not None)
        if tokens and access is None:
            expected = "--prometheus URL beside it, which has the tokens"
            raise InputError("there are no tokens for it", field="--per-million-tokens", expected=expected)
        if tokens and grid_intensity is not None:
            expected = "--per-million-tokens without it"
            raise InputError(
                "is of energy", field="--grid-intensity", value=grid_intensity, expected=expected
            )
        self.by = groupings(by or ("model" if tokens else "queue"))

    @property
    def is_asked(self) -> bool:
        """Whether a server is named."""
        return self._access is not None

    def check(self, others: Mapping[str, object]) -> None:
        """Raises InputError for what it does not go with; ``others`` are options of other questions."""
        if not self.is_asked:
            return
        for option, is_named in others.items():
            if not is_named:
                continue
            if self._tokens:
                expected = "groups as text, CSV or JSON, of what was observed"
                raise InputError("has no tokens", field=option, expected=expected)
            if option in NOT_OF_USE:
                raise InputError(NOT_OF_USE[option], field=option, expected="no --prometheus beside it")
            if self._grams is not None:
                expected = "groups as text, CSV or JSON, without --grid-intensity otherwise"
                raise InputError("has no energy", field=option, expected=expected)
        # Prometheus' client is loaded only where it is asked.
        from gpufleet.ledger import energy, token_costs

        if self._tokens:
            token_costs.check_groupings(self.by)
        elif self._grams is not None:
            energy.check_groupings(self.by)

    def past(self, asked: Asked) -> "Past":
        """What the server knows of the time that was asked for. Raises InputError and WorldError."""
        begin_us, until_us = asked
        if self._access is None:
            expected = "--prometheus URL beside it, which has scraped kube-state-metrics"
            raise InputError("there is no past without a server", field="--past", expected=expected)
        if begin_us is None or until_us is None or begin_us >= until_us:
            expected = "--from TIME and --until TIME, a later one"
            raise InputError("is of a time with an end", field="--past", expected=expected)
        if until_us - begin_us > PAST_DAYS_MAX * DAY_US:
            expected = f"at most {PAST_DAYS_MAX} days; --save puts several together"
            raise InputError("is of too long a time", field="--past", expected=expected)
        from gpufleet.ledger.past import past_of
        from gpufleet.usage.prometheus.client import Prometheus

        return past_of(Prometheus(self._access), Span(begin_us, until_us))

    def with_use(self, found: Known, span: Span, save: Path | None) -> Known:
        """What is known, with the use that the server has of the time. Raises InputError and WorldError."""
        if self._access is None or self._tokens:
            return found
        from gpufleet.ledger.measured_use import measured_use
        from gpufleet.usage.prometheus.client import Prometheus

        spans = list(measured_use(Prometheus(self._access), found.intervals, span))
        if not spans:
            note = f"{self._access.url} has no use of GPUs that pods held in this time"
            return msgspec.structs.replace(found, notes=(*found.notes, note))
        return found.with_use(spans, save)

    def _show_tokens(
        self, found: Known, book: PriceBook, span: Span, division: Division, output: str, notes: Iterable[str]
    ) -> None:
        """Ask, and print the cost of tokens. Raises InputError and WorldError."""
        from gpufleet.cli.cost_tokens import show_tokens
        from gpufleet.ledger.token_costs import token_costs
        from gpufleet.usage.prometheus.client import Prometheus

        if self._access is not None:
            source = Prometheus(self._access)
            costs = token_costs(source, found.intervals, book, span, self.by, division)
            show_tokens(costs, self.by, span, book.currency or division.currency, output, notes)

    def show(
        self, found: Known, book: PriceBook, span: Span, division: Division, output: str, notes: Iterable[str]
    ) -> None:
        """Print tokens, or groups with the energy of them. Raises InputError and WorldError."""
        if self._tokens:
            self._show_tokens(found, book, span, division, output, notes)
            return
        from gpufleet.ledger.energy import energy_of, has_grouping
        from gpufleet.usage.prometheus.client import Prometheus

        cost = cost_of(found.intervals, book, span, self.by, division)
        if self._access is None or not all(map(has_grouping, self.by)):
            show(cost, output, notes)
            return
        energy = energy_of(Prometheus(self._access), found.intervals, span, self.by)
        figures = EnergyFigures(energy, self._grams)
        show(cost, output, (*notes, *energy_notes(figures, cost.groups)), figures)


PAST_DAYS_MAX = 100
"""A quarter of a year at a time: all that a server tells of it is in memory."""

NOT_OF_USE = {
    "--budgets": "is of amounts, which use does not change",
    "--unusual": "is of amounts, which use does not change",
    "LOG": "has charges, which are worked out",
}
"""What a Prometheus adds nothing to, and why."""
