"""Lays the cost of a time out: as tables for people, as CSV, or as JSON.

In tables amounts have two decimals, and those of a column still add up to its sum: they are rounded together,
by the largest remainders. CSV and JSON have all six decimals.
"""

import csv
import datetime as dt
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from gpufleet.cli.cost_energy import EnergyFigures
from gpufleet.cli.output import echo_data, echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.kube.codec.times import whole_time
from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.cost_rows import HOST_IDLE, HOSTS, OTHERS, UNUSED
from gpufleet.ledger.costs import WASTE_BY, Cost, Group
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.model import money
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.money import HUNDREDTHS, MICRO_UNITS, decimals, rounded_together

GPU_HOUR = HOUR_US * WHOLE_GPU_MILLI
"""The quantity of a GPU for an hour."""

NO_POD, NO_VALUE = "(held by no pod)", "(none)"
"""In tables and CSV: the part that no pod holds, and pods that have no queue, owner or label of that name."""

UNKNOWN = "-"
"""In tables: an amount that nothing is known of, which is not 0."""

CAUSES: dict[str, str] = {
    Bucket.IDLE_HELD: "held by pods that computed nothing",
    Bucket.WAITING: "held by members of gangs that were not whole",
    Bucket.STARTING: "held while images were pulled and containers started",
    Bucket.LOADING: "held while pods that run were not ready",
    Bucket.ENDING: "held by pods that were told to end",
    Bucket.IDLE_FREE: "free, held by no pod",
    Bucket.STRANDED: "free, and of no use to waiting work",
    Bucket.RESERVED: "kept for waiting work",
    Bucket.DRAINING: "on nodes that were cordoned or leaving",
    Bucket.JOINING: "on nodes that were not ready",
    Bucket.OUT: "ill GPUs",
    HOST_IDLE: "CPU and memory that no pod held",
    UNUSED: "commitments that nothing used",
}
"""What each bucket of waste is, in words."""


def show(cost: Cost, output: str, notes: Iterable[str], energy: EnergyFigures | None = None) -> None:
    """Print the answer, with the energy where it was asked for."""
    if output == "json":
        echo_json(_document(cost, tuple(notes), energy))
    elif output == "csv":
        echo_data(_csv(cost, energy))
        for note in notes:
            echo_line(f"note: {note}", err=True)
    else:
        for line in lines(cost, notes, energy):
            echo_line(line)


def lines(cost: Cost, notes: Iterable[str], energy: EnergyFigures | None = None) -> Iterator[str]:
    """The answer for people."""
    end_us = cost.span.until_us or 0
    yield f"GPU nodes from {_minute(cost.span.from_us)} to {_minute(end_us)} UTC"
    yield ""
    if cost.total.quantity or cost.total.amount_micro:
        yield from _table([name.upper() for name in cost.by], cost.groups, cost, _name, energy)
        waste = [one for one in cost.waste if one.quantity or one.amount_micro]
        if waste:
            yield ""
            yield from _table(["WASTE"], waste, cost, _cause)
    else:
        yield "No GPU is known of that time."
    told = [*_gaps(cost), *notes]
    if told:
        yield ""
    yield from (f"Note: {note}" for note in told)


def _table(
    headings: Sequence[str],
    groups: Sequence[Group],
    cost: Cost,
    named: Callable[[Group], list[str]],
    energy: EnergyFigures | None = None,
) -> Iterator[str]:
    has_use = any(one.used for one in cost.groups)
    has_prices = cost.total.amount_micro is not None
    is_waste = named is _cause
    by = WASTE_BY if is_waste else cost.by
    columns = [Column(heading) for heading in headings]
    names = [*map(named, groups), ["sum", *[""] * (len(headings) - 1)]]
    figures = [_hours(groups, by, [one.quantity for one in groups])]
    columns.append(Column("GPU-HOURS", right=True))
    if has_use and not is_waste:
        columns.append(Column("COMPUTED", right=True))
        figures.append(_hours(groups, by, [one.used for one in groups]))
    if cost.total.unmeasured and not is_waste:
        columns.append(Column("UNMEASURED", right=True))
        figures.append(_hours(groups, by, [one.unmeasured for one in groups]))
    if has_prices:
        columns.append(Column(f"COST {cost.currency}", right=True))
        figures.append(_amounts([one.amount_micro for one in groups]))
        if not is_waste:
            columns.append(Column("WASTE", right=True))
            figures.append(_amounts([one.waste_micro for one in groups]))
    if energy is not None:
        columns += [Column(heading, right=True) for heading in energy.headings()]
        for amounts in energy.amounts(groups):
            parts = rounded_together([amount * HUNDREDTHS for amount in amounts])
            figures.append([decimals(part) for part in (*parts, sum(parts))])
    rows = zip(names, zip(*figures, strict=True), strict=True)
    for line in laid_out(columns, (([*name, *cells], "") for name, cells in rows), None):
        yield line.text


def _name(group: Group) -> list[str]:
    return [NO_POD if part is None else part or NO_VALUE for part in group.key]


def _cause(group: Group) -> list[str]:
    bucket, reason = group.key
    words = CAUSES[bucket or ""]
    return [f"{words}: {reason}" if reason else words]


def _is_of_host(group: Group, by: Sequence[str]) -> bool:
    """True for CPU, memory and what is for no node, which are not counted in hours of GPUs."""
    return any(
        part in OTHERS or (name == "bucket" and part in HOSTS)
        for name, part in zip(by, group.key, strict=True)
    )


def _hours(groups: Sequence[Group], by: Sequence[str], quantities: Sequence[int]) -> list[str]:
    """Hours of GPUs with two decimals, and their sum behind them."""
    unknown = [_is_of_host(one, by) for one in groups]
    return _rounded(quantities, GPU_HOUR, unknown)


def _amounts(amounts: Sequence[int | None]) -> list[str]:
    """Amounts of money with two decimals, and their sum behind them."""
    unknown = [amount is None for amount in amounts]
    return _rounded([amount or 0 for amount in amounts], MICRO_UNITS, unknown)


def _rounded(figures: Sequence[int], unit: int, unknown: Sequence[bool]) -> list[str]:
    """Figures with two decimals of a unit, which still add up, and their sum behind them."""
    parts = _hundredths(figures, unit)
    shown = [UNKNOWN if absent else decimals(part) for absent, part in zip(unknown, parts, strict=True)]
    return [*shown, decimals(sum(parts))]


def rounded_texts(figures: Sequence[int], unit: int) -> list[str]:
    """Figures with two decimals of a unit, which still add up to the sum of them."""
    return [decimals(part) for part in _hundredths(figures, unit)]


def money_texts(amounts: Sequence[int]) -> list[str]:
    """Amounts with two decimals, each rounded for itself."""
    return [decimals(part) for one in amounts for part in _hundredths([one], MICRO_UNITS)]


def _hundredths(figures: Sequence[int], unit: int) -> list[int]:
    return rounded_together([Fraction(figure * HUNDREDTHS, unit) for figure in figures])


def _gaps(cost: Cost) -> Iterator[str]:
    """What is not known, so that no figure above is taken for more than it is."""
    total = cost.total
    if total.quantity and total.amount_micro is None:
        yield "no price is known for these nodes; --prices takes a table of them"
    elif total.unpriced:
        yield f"{_hour_words(total.unpriced)} have no price, and are in no amount"
    if cost.unreported_micro:
        yield (
            f"{exact(cost.unreported_micro)} {cost.currency} are of GPUs of nodes without a report of them:"
            " what they did is not known"
        )
    unseen = cost.unseen
    if unseen:
        yield f"{_hour_words(unseen)} are of times in which pods were not followed: some may have held them"
    if total.unmeasured > unseen:
        yield f"{_hour_words(total.unmeasured - unseen)} were held by pods whose use is not known"


def _hour_words(quantity: int) -> str:
    return f"{quantity / GPU_HOUR:,.2f} GPU-hours"


def _minute(at_us: int) -> str:
    return f"{_moment(at_us):%Y-%m-%d %H:%M}"


def _moment(at_us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_us // US_PER_S, dt.UTC)


US_PER_S = 1_000_000
"""Python counts moments from seconds."""


def _csv(cost: Cost, energy: EnergyFigures | None) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = () if energy is None else energy.names()
    writer.writerow([*cost.by, *FIGURES, "currency", *names])
    of_groups = _energy(cost, energy)
    for group, joules in zip(cost.groups, of_groups, strict=False):
        figures = _figures(group, cost.by).values()
        writer.writerow([*_name(group), *figures, cost.currency, *joules.values()])
    return file.getvalue()


FIGURES = (
    "gpu_hours",
    "computed",
    "unmeasured",
    "unpriced",
    "gpu_cost",
    "host_cost",
    "other_cost",
    "cost",
    "waste",
)
"""The figures of a group, hours of GPUs first."""


def _figures(group: Group, by: Sequence[str]) -> dict[str, str | None]:
    quantities = (group.quantity, group.used, group.unmeasured, group.unpriced)
    amounts = (group.gpu_micro, group.host_micro, group.other_micro, group.amount_micro, group.waste_micro)
    is_of_host = _is_of_host(group, by)
    hours = (None if is_of_host else exact_hours(one) for one in quantities)
    texts = [*hours, *(exact(one) for one in amounts)]
    return dict(zip(FIGURES, texts, strict=True))


def exact_hours(quantity: int) -> str:
    """Hours of GPUs with nine decimals, which is less than a microsecond of a thousandth of one."""
    # A correction may take hours away.
    sign, size = ("-" if quantity < 0 else ""), abs(quantity)
    whole, rest = divmod(size * HOUR_PARTS // GPU_HOUR, HOUR_PARTS)
    return f"{sign}{whole}.{rest:09}"


HOUR_PARTS = 10**9
"""Parts of a GPU-hour in files."""


def exact(amount_micro: int | None) -> str | None:
    """An amount with all six decimals; None for what is not known."""
    return None if amount_micro is None else money.exact(amount_micro)


def _energy(cost: Cost, energy: EnergyFigures | None) -> list[dict[str, str]]:
    """By group, and of all of them, what was asked of energy."""
    return [{}] * (len(cost.groups) + 1) if energy is None else energy.of_groups(cost.groups)


def _document(cost: Cost, notes: tuple[str, ...], energy: EnergyFigures | None) -> dict[str, object]:
    def groups(by: Sequence[str], some: Iterable[Group]) -> list[dict[str, str | None]]:
        return [{**dict(zip(by, one.key, strict=True)), **_figures(one, by)} for one in some]

    of_groups = _energy(cost, energy)
    return {
        "from": stamp(cost.span.from_us),
        "until": stamp(cost.span.until_us or 0),
        "currency": cost.currency or None,
        "by": list(cost.by),
        "groups": [
            {**one, **joules} for one, joules in zip(groups(cost.by, cost.groups), of_groups, strict=False)
        ],
        "waste": groups(WASTE_BY, cost.waste),
        "total": {**_figures(cost.total, ()), **of_groups[-1]},
        "notes": [*_gaps(cost), *notes],
    }


def stamp(at_us: int) -> str:
    """A moment as the API writes it."""
    return whole_time(_moment(at_us))
