"""Shows the measurements that ``gpufleet fit`` is held against, and how near its estimates come."""

from collections.abc import Iterator

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.fit.evidence import Evidence, evidence, nearness
from gpufleet.fit.ranges import GIB

AS_PUBLISHED, NO_CARD = "as published", "-"
"""In the table: weights in the format of the publisher, and a source that names no card."""
SCHEMA = 2
"""A change that breaks readers of the JSON gets another number."""


def show_evidence(output: str) -> None:
    """Print every row and the summary."""
    if output == "json":
        rows = [
            {"row": row, "estimate_gib": round(row.estimate.bytes / GIB, 4), "off": round(row.off, 6)}
            for row in evidence()
        ]
        echo_json({"schema": SCHEMA, "rows": rows, "nearness": nearness(evidence())})
        return
    for line in lines():
        echo_line(line)


def lines() -> Iterator[str]:
    """The whole text."""
    rows = evidence()
    yield f"{len(rows)} measurements that others published, a GPU, in GiB"
    yield ""
    sources = list(dict.fromkeys(_source(row) for row in rows))
    headings = ("PART", "MODEL", "WEIGHTS", "CARD", "TP", "ENGINE")
    columns = [
        *map(Column, headings),
        Column("MEASURED", right=True),
        Column("ESTIMATE", right=True),
        Column("OFF", right=True),
        Column("FITTED"),
        Column("SOURCE", right=True),
    ]
    cells = ((_cells(row, sources.index(_source(row)) + 1), "") for row in rows)
    yield from (line.text for line in laid_out(columns, cells, None))
    yield ""
    yield from (f"[{number}] {source}" for number, source in enumerate(sources, start=1))
    yield ""
    yield from _summary()
    yield ""
    yield "Fitted: a constant of fit was chosen with that row in view. Only the others say how near an"
    yield "estimate comes to a model or card that was not seen before. False fits: rows whose measurement was"
    yield "worse than the worst case that an answer rests on."


def _source(row: Evidence) -> str:
    return ", ".join(filter(None, (row.source, row.version, row.date)))


def _way(row: Evidence) -> str:
    """The engine, or how the training was set up."""
    run = row.training
    return f"{run.method} {run.batch} x {run.context}" if run is not None else row.engine


def _cells(row: Evidence, source: int) -> list[str]:
    return [
        row.part,
        row.model,
        row.weights or AS_PUBLISHED,
        row.gpu or NO_CARD,
        str(row.tensor_parallel),
        _way(row),
        f"{row.measured_gib:.2f}",
        f"{row.estimate.bytes / GIB:.2f}",
        f"{row.off:+.1%}",
        _yes(row.fitted),
        f"[{source}]",
    ]


def _yes(fitted: bool) -> str:
    return "yes" if fitted else "no"


def _summary() -> Iterator[str]:
    columns = [
        Column("PART"),
        Column("FITTED"),
        Column("ROWS", right=True),
        Column("SOURCES", right=True),
        Column("MEDIAN OFF", right=True),
        Column("WORST OFF", right=True),
        Column("FALSE FITS", right=True),
    ]
    cells = (
        (
            [
                one.part,
                _yes(one.fitted),
                str(one.rows),
                str(one.sources),
                f"{one.median_off:.1%}",
                f"{one.worst_off:.1%}",
                str(one.false_fits),
            ],
            "",
        )
        for one in nearness(evidence())
    )
    yield from (line.text for line in laid_out(columns, cells, None))
