"""Lays out what a million tokens of serving engines cost."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from gpufleet.cli.cost_days import check_form
from gpufleet.cli.cost_output import NO_VALUE, UNKNOWN, exact, exact_hours, money_texts, rounded_texts, stamp
from gpufleet.cli.output import echo_data, echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.ledger.spans import Span
from gpufleet.ledger.token_costs import TokenCost
from gpufleet.model.device import WHOLE_GPU_MILLI

GPU_HOUR = HOUR_US * WHOLE_GPU_MILLI
"""The quantity of a GPU for an hour."""

FIGURES = ("prompt_tokens", "generated_tokens", "gpu_hours", "cost", "cost_per_million")
"""Columns of a file."""


def show_tokens(
    found: Sequence[TokenCost],
    by: Sequence[str],
    span: Span,
    currency: str,
    output: str,
    notes: Iterable[str],
) -> None:
    """Print the answer. Raises InputError for a form that it has not."""
    check_form(output)
    if output == "json":
        rows = [{**dict(zip(by, one.key, strict=True)), **_figures(one)} for one in found]
        times = {"from": stamp(span.from_us), "until": stamp(span.until_us or 0)}
        echo_json(
            {**times, "currency": currency or None, "by": list(by), "groups": rows, "notes": list(notes)}
        )
        return
    if output == "csv":
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*by, *FIGURES, "currency"])
        writer.writerows([*_names(one), *_figures(one).values(), currency] for one in found)
        echo_data(file.getvalue())
    else:
        for line in _lines(found, by, currency):
            echo_line(line)
    for note in notes:
        echo_line(f"note: {note}", err=True)


def _names(one: TokenCost) -> list[str]:
    return [part or NO_VALUE for part in one.key]


def _figures(one: TokenCost) -> dict[str, str | None]:
    texts = (
        str(one.prompt),
        str(one.generated),
        exact_hours(one.quantity),
        exact(one.amount_micro),
        exact(one.per_million_micro),
    )
    return dict(zip(FIGURES, texts, strict=True))


def _lines(found: Sequence[TokenCost], by: Sequence[str], currency: str) -> Iterator[str]:
    if not found:
        yield "Prometheus knows of no tokens of pods in this time: it has to scrape vLLM, SGLang or TGI."
        return
    columns = [Column(name.upper()) for name in by]
    names = ("PROMPT TOKENS", "GENERATED", "GPU-HOURS", f"COST {currency}".strip(), "PER MILLION")
    columns += [Column(name, right=True) for name in names]
    hours = rounded_texts([one.quantity for one in found], GPU_HOUR)
    rows = [
        [
            *_names(one),
            f"{one.prompt:,}",
            f"{one.generated:,}",
            text,
            *(UNKNOWN if amount is None else money_texts([amount])[0] for amount in (one.amount_micro,)),
            UNKNOWN if one.per_million_micro is None else exact(one.per_million_micro) or UNKNOWN,
        ]
        for one, text in zip(found, hours, strict=True)
    ]
    yield from (line.text for line in laid_out(columns, ((row, "") for row in rows), None))
