"""Lays a plan of purchase out for people: what to buy first, then what starts, then what it does not help."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.cli.whatif_output import StartWords, counted_pods, work_under, wrapped
from gpufleet.model.money import MICRO_UNITS
from gpufleet.model.phrases import counted, length
from gpufleet.plan.answer import MONTH_HOURS, OneType, Plan, Purchase, SpotWork
from gpufleet.plan.node_names import beginning
from gpufleet.whatif.answer import Work

LISTED_MAX = 10
"""A screen has room for so many kinds of work."""

CENT_DECIMALS = 2
"""Decimals of an amount of money at least."""

UNCHANGED = "Nothing was bought, and nothing was changed in the cluster."


def show(plan: Plan, output: str) -> None:
    """Print the plan, on standard output."""
    if output == "json":
        echo_json(plan)
        return
    for line in lines(plan):
        echo_line(line)


def lines(plan: Plan) -> Iterator[str]:
    """The whole text."""
    for number, change in enumerate(plan.changes):
        yield from wrapped(f"{'If' if number == 0 else 'and'}  {change}", 4)
    if plan.changes:
        yield ""
    yield from _purchases(plan)
    yield from _starts(plan)
    yield from _others(plan)
    yield from _nothing_helps(plan)
    yield from _other_ways(plan)
    yield from _removed(plan)
    yield from spot_lines(plan.spot, "pod")
    yield ""
    yield from wrapped(f"Note: prices are from {plan.catalogue}.", 6)
    for note in plan.notes:
        yield from wrapped(f"Note: {note}", 6)
    yield UNCHANGED


def _purchases(plan: Plan) -> Iterator[str]:
    waits = "" if not plan.by_s else f" more than {length(plan.by_s)}"
    if not plan.pods_late:
        yield f"No work waits{waits}: nothing needs to be bought."
        return
    if not plan.nodes:
        yield f"{counted(plan.pods_late, 'pod')} would wait{waits}, and no purchase of these types helps."
        return
    some = "all" if plan.pods_helped == plan.pods_late else str(plan.pods_helped)
    which = "it" if plan.pods_late == 1 else f"{some} of them"
    this = "This node starts" if sum(one.count for one in plan.nodes) == 1 else "These nodes start"
    yield f"{counted(plan.pods_late, 'pod')} would wait{waits}. {this} {which}:"
    yield from purchase_table(plan.nodes, plan.cost_micro, plan.currency)


def purchase_table(nodes: Sequence[Purchase], cost_micro: int, currency: str) -> Iterator[str]:
    """What is bought, a line a type, with what it costs and the sum."""
    columns = [Column("NODES", right=True), Column("TYPE"), Column("GPUS"), Column("WHERE")]
    columns += [Column(f"{currency} PER HOUR", right=True), Column("PER MONTH", right=True)]
    costs_micro = [*(one.cost_micro for one in nodes), cost_micro]
    hours, months = amounts(costs_micro), amounts([cost * MONTH_HOURS for cost in costs_micro])
    words = [*(_words(one) for one in nodes), ["", "sum", "", ""]]
    rows = [[*row, hour, month] for row, hour, month in zip(words, hours, months, strict=True)]
    for line in laid_out(columns, [(row, "") for row in rows], None):
        yield f"  {line.text}"


def _words(one: Purchase) -> list[str]:
    return [str(one.count), one.instance_type, f"{one.gpus} x {one.gpu_model}", _where(one)]


def _where(one: Purchase | OneType) -> str:
    parts = (one.provider, one.zone or one.region, one.capacity_type, one.pool and f"NodePool {one.pool}")
    return " ".join(part for part in parts if part)


def amounts(amounts_micro: Sequence[int]) -> list[str]:
    """Amounts with as many decimals, at least two, as all of them need: a column adds up to its sum."""
    fractions = [f"{amount % MICRO_UNITS:06}".rstrip("0") for amount in amounts_micro]
    decimals = max([CENT_DECIMALS, *map(len, fractions)])
    return [
        f"{amount // MICRO_UNITS:,}.{fraction:0<{decimals}}"
        for amount, fraction in zip(amounts_micro, fractions, strict=True)
    ]


def _starts(plan: Plan) -> Iterator[str]:
    if plan.starts:
        words = StartWords(plan.at)
        types = {one.names: one.instance_type for one in plan.nodes}

        def when_and_where(work: Work) -> str:
            when = "" if work.start is None else words.moment(work.start)
            return f"{when} on {_places(work, types)}"

        yield from work_under(f"{counted_pods(plan.starts)} would start:", plan.starts, when_and_where)


def _others(plan: Plan) -> Iterator[str]:
    """What else is different with the nodes, and what ends with a node that goes."""
    when = StartWords(plan.at)
    rows: list[tuple[str, tuple[Work, ...], Callable[[Work], str]]] = [
        ("would no longer be evicted", plan.spared, lambda _: "goes on"),
        ("would be evicted", plan.evicted, when.evicted),
        ("would start later, or not at all", plan.delayed, when.delayed),
        ("would end for good", plan.lost, lambda work: work.why),
    ]
    for title, work, words in rows:
        if work:
            yield from work_under(f"{counted_pods(work)} {title}:", work, words)


def _places(work: Work, types: dict[str, str]) -> str:
    """The types of new nodes that work starts on, and whether it also gets nodes that are there."""
    nodes = () if work.start is None else tuple(work.start.nodes)
    new = Counter(types[begin] for node in nodes if (begin := beginning(node)) in types)
    there = len(nodes) - new.total()
    words = [f"{count} x {name}" for name, count in sorted(new.items())]
    words += [counted(there, "node") + " of today"] if there else []
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _nothing_helps(plan: Plan) -> Iterator[str]:
    if plan.nothing_helps:
        pods = sum(one.pods for one in plan.nothing_helps) + plan.nothing_helps_more
        some = counted(pods, "pod")
        heading = f"No purchase of these types helps {some}, judged with more than enough nodes:"
        more = plan.nothing_helps_more
        yield from work_under(heading, plan.nothing_helps, lambda work: _reason(work, plan.at), more)


def _reason(work: Work, at: str) -> str:
    if work.start is not None:
        return f"starts {StartWords(at).moment(work.start)}, also with more nodes"
    return work.why or "nothing stands in its way but its turn"


def _other_ways(plan: Plan) -> Iterator[str]:
    if plan.one_type:
        yield "One type alone:"
    costs = amounts([one.cost_micro for one in plan.one_type])
    for one, cost in zip(plan.one_type, costs, strict=True):
        starts = "all of them" if one.pods == plan.pods_helped else counted(one.pods, "pod")
        where = f" ({_where(one)})" if _where(one) else ""
        yield f"  {one.count} x {one.instance_type}{where}: {cost} {plan.currency} per hour, for {starts}"


def _removed(plan: Plan) -> Iterator[str]:
    """What the nodes cost that are planned without, beside what is bought in their place."""
    gone = plan.removed
    if not gone.nodes:
        return
    priced = gone.nodes - gone.without_price
    nodes, costs = counted(gone.nodes, "node"), "costs" if gone.nodes == 1 else "cost"
    if not priced:
        yield from wrapped(f"What the {nodes} that went {costs} is not known: no price is in the table.", 2)
        return
    cost, difference = amounts([gone.cost_micro, abs(gone.cost_micro - plan.cost_micro)])
    words = f"The {nodes} that went {costs} {cost} {plan.currency} per hour"
    if gone.without_price:
        yield from wrapped(f"{words} without {gone.without_price} of them, of which no price is known.", 2)
        return
    less = "less" if gone.cost_micro >= plan.cost_micro else "more"
    yield from wrapped(f"{words}: the fleet costs {difference} {less} with this plan.", 2)


def spot_lines(found: tuple[SpotWork, ...], noun: str = "task") -> Iterator[str]:
    """What goes on spot capacity, and why."""
    if not found:
        return
    yield "On spot capacity, by expected loss against price:"
    for one in found[:LISTED_MAX]:
        where = (
            "all on spot"
            if one.on_spot == one.tasks
            else f"{one.on_spot} on spot"
            if one.on_spot
            else "on demand"
        )
        asked = request_words(one.gpus, one.gpu_milli, one.models)
        order = f"; cheapest first: {', '.join(one.types)}" if one.types else ""
        tasks = counted(one.tasks, noun)
        yield from wrapped(f"  {one.queue}: {tasks} with {asked}: {where}; {one.why}{order}", 6)
    if len(found) > LISTED_MAX:
        yield f"  and {counted(len(found) - LISTED_MAX, 'kind')} of work more"


def request_words(gpus: int, gpu_milli: int, models: tuple[str, ...]) -> str:
    """A request of GPUs in words."""
    part = "" if gpu_milli in (0, 1000) else f", {gpu_milli / 1000:g} of each"
    return f"{counted(gpus, 'GPU')}{' of ' + ' or '.join(models) if models else ''}{part}"
