"""What ``gpufleet cost`` is asked: sums by some groupings, idle jobs, budgets, or unusual days."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from gpufleet.cli.cost_days import Budgets, UnusualDays
from gpufleet.cli.cost_idle import show_idle
from gpufleet.cli.cost_input import Asked, groupings, span_of
from gpufleet.cli.cost_output import show
from gpufleet.ledger.costs import Cost
from gpufleet.ledger.idle_board import IDLE_BY
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

Show = Callable[[Cost, str, Iterable[str]], None]


class CostQuestion(Protocol):
    """What rows are put together by, of which time, and how the answer looks."""

    by: tuple[str, ...]

    def span(self, asked: Asked, known_until_us: int, first_us: int | None = None) -> Span:
        """The time whose rows are needed; ``first_us`` is when charges begin. Raises InputError."""

    def show(self, cost: Cost, output: str, notes: Iterable[str]) -> None:
        """Print the answer."""


class Sums:
    """What a time cost, put together."""

    def __init__(self, by: tuple[str, ...], shown: Show) -> None:
        self.by = by
        self._shown = shown

    def span(self, asked: Asked, known_until_us: int, first_us: int | None = None) -> Span:
        """The time that is asked for; without a begin a day, and of charges all of them."""
        begin_us, until_us = asked
        if first_us is not None:
            begin_us = first_us if begin_us is None else max(begin_us, first_us)
        return span_of(begin_us, until_us, known_until_us)

    def show(self, cost: Cost, output: str, notes: Iterable[str]) -> None:
        """Print the answer."""
        self._shown(cost, output, notes)


def question_of(
    by: str | None, output: str, *, idle: bool, budgets: Path | None, unusual: bool, begin: str | None
) -> CostQuestion:
    """What the options ask. Raises InputError for options that do not go together."""
    asked = {"--idle": idle, "--budgets": budgets is not None, "--unusual": unusual}
    names = [option for option, is_named in asked.items() if is_named]
    if len(names) > 1:
        raise InputError("two questions at once", field=names[1], expected=f"{names[0]} alone")
    if budgets is not None:
        return Budgets(budgets, output, {"--by": by, "--from": begin})
    if unusual:
        return UnusualDays(by, output)
    if idle:
        if by is not None:
            expected = "--idle without it"
            raise InputError("puts no idle jobs together", field="--by", value=by, expected=expected)
        return Sums(IDLE_BY, show_idle)
    return Sums(groupings("queue" if by is None else by), show)
