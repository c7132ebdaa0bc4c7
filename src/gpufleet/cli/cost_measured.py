"""What a Prometheus adds to ``gpufleet cost``: energy and carbon beside costs, or the cost of tokens."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gpufleet.cli.cost_energy import EnergyFigures, energy_notes, grams_of
from gpufleet.cli.cost_input import Known, groupings
from gpufleet.cli.cost_output import show
from gpufleet.ledger.bills.billed_hours import Division
from gpufleet.ledger.costs import cost_of
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

if TYPE_CHECKING:
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
        """Raises InputError for what it does not go with."""
        if not self.is_asked:
            return
        for option, is_named in others.items():
            if is_named:
                what = "tokens" if self._tokens else "energy"
                expected = "groups as text, CSV or JSON, of what was observed"
                raise InputError(f"has no {what}", field=option, expected=expected)
        # Prometheus' client is loaded only where it is asked.
        from gpufleet.ledger import energy, token_costs

        (token_costs if self._tokens else energy).check_groupings(self.by)

    def show(
        self, found: Known, book: PriceBook, span: Span, division: Division, output: str, notes: Iterable[str]
    ) -> None:
        """Ask, and print the answer. Raises InputError and WorldError."""
        from gpufleet.cli.cost_tokens import show_tokens
        from gpufleet.ledger.energy import energy_of
        from gpufleet.ledger.token_costs import token_costs
        from gpufleet.usage.prometheus.client import Prometheus

        if self._access is None:
            return
        source = Prometheus(self._access)
        if self._tokens:
            costs = token_costs(source, found.intervals, book, span, self.by, division)
            show_tokens(costs, self.by, span, book.currency or division.currency, output, notes)
            return
        cost = cost_of(found.intervals, book, span, self.by, division)
        figures = EnergyFigures(energy_of(source, found.intervals, span, self.by), self._grams)
        show(cost, output, (*notes, *energy_notes(figures, cost.groups)), figures)
