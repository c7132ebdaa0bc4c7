"""Prices of ``gpufleet replay``: which one each node of a trace has, and what runs cost as a table."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.table import Table

from gpufleet.cli.cost_input import priced
from gpufleet.ledger.price_book import Price, PriceBook, PriceUnit
from gpufleet.model.identifiers import NodeName
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import rounded_sums
from gpufleet.model.node import Node
from gpufleet.replay.fleet_prices import FleetPrices, NodePrice
from gpufleet.replay.ledger_log import priced_as
from gpufleet.replay.results import FleetCost, SweepResult

LAST_US = 253_402_214_400_000_000
"""The last day of the year 9999. A trace has a time of its own, so prices count that have no end."""

BUCKETS = {"unmeasured": "held", "idle-free": "free", "stranded": "stranded", "host": "CPU, memory"}
"""What the columns of the table put together."""

LEGEND = """\
held      what tasks held; a trace does not say how much of it they used
free      not held, and typical tasks could have used it
stranded  not held, and typical tasks could not have used it where it was"""


def prices_of(paths: Iterable[Path], nodes: Iterable[Node]) -> tuple[FleetPrices, tuple[str, ...]]:
    """The price of each node with GPUs, and notes on the files. Raises InputError where no node has one."""
    book, notes = priced(paths)
    with_gpus = [node for node in nodes if node.devices]
    found = {node.name: price for node in with_gpus if (price := _price_of(book, node)) is not None}
    if not found:
        models = ", ".join(sorted({node.devices[0].model or "(no model)" for node in with_gpus}))
        expected = f"prices without an end for nodes with GPUs of {models}"
        raise InputError("no price is for a node of the trace", field="--prices", expected=expected)
    return FleetPrices(book.currency, dict[NodeName, NodePrice](found)), notes


def _price_of(book: PriceBook, node: Node) -> NodePrice | None:
    price = book.spans(priced_as(node), LAST_US, LAST_US + 1)[0].price
    return None if price is None else _of_node(price, len(node.devices))


def _of_node(price: Price, gpus: int) -> NodePrice:
    if price.unit is PriceUnit.GPU_HOUR:
        return NodePrice(gpus * price.amount_micro, 0)
    return NodePrice(price.gpu_micro or 0, price.host_micro)


def cost_table(result: SweepResult, table: Table) -> Table:
    """What each run cost, in the columns of a table that has none but the policy's yet."""
    costs = list(_costs(result))
    names = [name for name in BUCKETS if any(_amount(cost, name) for _, _, cost in costs)]
    for name in ("seed", *(BUCKETS[one] for one in names), f"{costs[0][2].currency} in all"):
        table.add_column(name, justify="right", no_wrap=True)
    for policy, seed, cost in costs:
        table.add_row(policy, str(seed), *rounded_sums([_amount(cost, name) for name in names]))
    return table


def unpriced_note(result: SweepResult) -> Sequence[str]:
    """How many GPUs are in no amount; nothing where all have a price."""
    gpus = next((cost.unpriced_gpus for _, _, cost in _costs(result)), 0)
    return [f"{gpus:,} GPUs without a price are in no amount"] if gpus else []


def _costs(result: SweepResult) -> Iterator[tuple[str, int, FleetCost]]:
    for run in result.runs:
        if run.timeline is not None and run.timeline.cost is not None:
            yield run.policy, run.seed, run.timeline.cost


def _amount(cost: FleetCost, bucket: str) -> int:
    return sum(one.amount_micro for one in cost.buckets if one.bucket == bucket)
