"""Files of charges of ``gpufleet cost``: written once, and answered from without working rows out again."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpufleet.cli.cost_input import Asked, Known, is_parquet
from gpufleet.cli.cost_question import CostQuestion
from gpufleet.cli.parameters import LogSource
from gpufleet.ledger.bills.billed_hours import Division
from gpufleet.ledger.cost_rows import CostRow, hours_of, other_rows, rows_of
from gpufleet.ledger.costs import Cost
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

FORMS = ("text", "csv", "json")
"""Forms of sums."""


def charges_among(logs: Sequence[LogSource]) -> list[Path]:
    """Those of the files that have charges."""
    packed = [source for source in logs if isinstance(source, Path) and is_parquet(source)]
    if not packed:
        return []
    # DuckDB is loaded for a third of a second, and most answers need none.
    from gpufleet.ledger.charges import heading_of

    return [path for path in packed if heading_of(path) is not None]


def sums_of(
    paths: Sequence[Path],
    asked: Asked,
    question: CostQuestion,
    output: str,
    *,
    logs: Sequence[LogSource],
    named: Mapping[str, object],
) -> Cost:
    """The sums of charges. Raises InputError for options and LOGs that do not go with charges."""
    check_alone(paths, logs, named)
    if output not in FORMS:
        raise InputError("no form of sums", field="--output", value=output, expected=", ".join(FORMS))
    from gpufleet.ledger.charges import Charges

    found = Charges(paths)
    span = question.span(asked, found.span.until_us or 0, found.span.from_us)
    return found.cost(span, question.by)


def check_alone(paths: Sequence[Path], logs: Sequence[LogSource], named: Mapping[str, object]) -> None:
    """Raises InputError for options and LOGs that do not go with charges."""
    for option, is_named in named.items():
        if is_named:
            raise InputError(f"{paths[0]} has charges, which are worked out", field=option, expected=NOTHING)
    if len(paths) < len(logs):
        expected = "charges alone, or observations alone"
        raise InputError("charges beside observations", where=str(paths[0]), expected=expected)


NOTHING = "no such option beside a file of charges"


def write_rows(known: Known, book: PriceBook, span: Span, division: Division, path: Path) -> None:
    """Write every row of a time as charges."""
    from gpufleet.ledger.charges import ChargesHeading, write_charges

    heading = ChargesHeading(
        known.cluster, book.currency or division.currency, span.from_us, span.until_us or 0
    )
    write_charges(path, rows_within(known, book, span, division), heading)


def rows_within(known: Known, book: PriceBook, span: Span, division: Division) -> Iterator[CostRow]:
    """Every row of a time."""
    for node in known.intervals.each():
        records, pods = node.records, node.pods
        for hour in hours_of(records, book, span, division):
            yield from rows_of(hour, records.priced_as.gpu_model, pods)
    yield from other_rows(division, span)
