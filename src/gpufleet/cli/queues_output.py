"""How the queues look: a tree in a table for people, or JSON or YAML for programs.

A row is a queue, so that twenty teams fit on a screen. Bars and colour are for terminals only, and nothing is
said by them alone. Where the terminal is too narrow the least important columns go.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from gpufleet.cli.output import echo_json, echo_line, echo_painted
from gpufleet.cli.queues_table import Column, Glyphs, Line, laid_out, tree_names
from gpufleet.cli.terminal import with_color
from gpufleet.explain.queue_answer import QueueRow, QueuesAnswer, ReservationRow, ResourceRow
from gpufleet.explain.queue_phrases import plain, queue_words, waiting_words
from gpufleet.kube.yaml_documents import yaml_text
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import Quantity, parse_quantity
from gpufleet.model.visible import visible_line

GPU = "gpu"
NONE = "-"
# A longer name would push the columns of amounts off the screen.
NAME_LENGTH_MAX = 40
# One cell is a tenth of a queue's quota.
BAR_CELLS = 10
# A screen shows them; JSON has all.
WAITING_MAX = 20
# What decides between victims of other queues, where that is not their shares.
WORK_LOST_FIRST = "WorkLostFirst"
# Where the terminal does not tell its width.
WIDTH_FALLBACK = 100


class TableLayout(NamedTuple):
    """How to lay out: ``width`` None for as wide as it needs."""

    resource: str = ""
    wide: bool = False
    bars: bool = False
    glyphs: Glyphs = Glyphs()
    width: int | None = None


def show(answer: QueuesAnswer, output: str, resource: str, color: str, *, one: str = "") -> None:
    """Print the answer; ``one`` is the queue that was asked about, if one was."""
    if output == "json":
        echo_json(answer)
        return
    if output == "yaml":
        click.echo(yaml_text(answer), nl=False)
        return
    terminal = sys.stdout.isatty()
    # A pipe gets whole names: what reads them has no screen.
    width = shutil.get_terminal_size((WIDTH_FALLBACK, 24)).columns if terminal else None
    look = TableLayout(resource, output == "wide", terminal, _glyphs(), width)
    colored = with_color(color)
    for line in lines(answer, look, one=one):
        shown = visible_line(line.text)
        painted = click.style(shown, fg=line.color) if colored and line.color else shown
        echo_painted(painted, colored=colored)
    for note in answer.notes:
        # On standard error: a note is no row of the table.
        echo_line(f"note: {note}", err=True)


def _glyphs() -> Glyphs:
    """Lines and blocks where the output can hold them."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return Glyphs() if encoding.startswith("utf") else Glyphs.of_ascii()


def lines(answer: QueuesAnswer, look: TableLayout, *, one: str = "") -> Iterator[Line]:
    """The answer, line by line."""
    rows = list(answer.queues)
    if not rows:
        return
    if one:
        yield from _one(next(row for row in rows if row.name == one))
    chosen = _chosen(rows, look, every=look.wide or bool(one))
    yield from laid_out(_columns(chosen, look), _table(rows, chosen, look), look.width)
    for row in rows:
        for problem in row.problems:
            yield Line(f"{row.name}: {problem.reason}: {problem.message}", "red" if not row.active else "")
    if one:
        yield from _waiting(next(row for row in rows if row.name == one))


def _chosen(rows: Sequence[QueueRow], look: TableLayout, *, every: bool) -> list[str]:
    """The resources to show."""
    known = list(dict.fromkeys(sorted(one.resource for row in rows for one in row.resources)))
    if look.resource and look.resource not in known:
        near = nearest(look.resource, known)
        there = ", ".join(known) or "none"
        expected = f"one that queues name: {there}" if near is None else f"did you mean {near}?"
        raise InputError("no queue names it", field="--resource", value=look.resource, expected=expected)
    if look.resource:
        return [look.resource]
    if every and known:
        return sorted(known, key=lambda name: (name != GPU, name))
    return [GPU if GPU in known or not known else known[0]]


def _columns(chosen: list[str], look: TableLayout) -> list[Column]:
    """The table's columns, those with the highest number going first where there is too little room."""
    several = len(chosen) > 1
    found = [
        Column("QUEUE"),
        *([Column("RESOURCE")] if several else []),
        Column("USED" if several else f"USED {chosen[0].upper()}", right=True),
        Column("QUOTA", right=True),
        *([Column("", drops=2)] if look.bars else []),
        Column("BORROWED", right=True),
        Column("LENT", right=True, drops=3),
        Column("FAIR SHARE", right=True),
        Column("SHARE", right=True, drops=4),
        Column("PENDING", right=True),
        Column("WHY"),
    ]
    if look.wide:
        limits = ("AVAILABLE", "BORROW MAX", "LEND MAX", "HARD MAX", "PROTECTED")
        found += [Column(name, right=True) for name in limits]
        found += [Column(name) for name in ("PRIORITY", "WEIGHT", "ORDER", "MAY EVICT", "NAMESPACES")]
    return found


def _table(rows: list[QueueRow], chosen: list[str], look: TableLayout) -> Iterator[tuple[list[str], str]]:
    for row, name in zip(rows, tree_names(rows, look.glyphs), strict=True):
        short = name if len(name) <= NAME_LENGTH_MAX else name[: NAME_LENGTH_MAX - 1] + look.glyphs.cut
        shown = [one for one in chosen if row.resource(one) is not None] or chosen[:1]
        for number, resource in enumerate(shown):
            cells = _cells(row, row.resource(resource), look, first=number == 0)
            head = [short if number == 0 else "", *([resource] if len(chosen) > 1 else [])]
            yield [*head, *cells], _color(row)


def _cells(row: QueueRow, found: ResourceRow | None, look: TableLayout, *, first: bool) -> list[str]:
    use = found or ResourceRow("")
    bar = [_bar(use, look.glyphs)] if look.bars else []
    amounts = [
        plain(use.used),
        plain(use.quota),
        *bar,
        _or_none(use.borrowed),
        _or_none(use.lent),
        NONE if use.fair_share is None else plain(use.fair_share),
    ]
    if not first:
        waits = ["", "", ""]
    else:
        waits = [
            NONE if row.share is None else plain(row.share),
            str(row.pods_waiting) if row.pods_waiting else NONE,
            queue_words(row),
        ]
    return [*amounts, *waits, *(_wide(row, use, first=first) if look.wide else [])]


def _wide(row: QueueRow, use: ResourceRow, *, first: bool) -> list[str]:
    limits = (use.available, use.borrowing_limit, use.lending_limit, use.hard_limit)
    amounts = [NONE if one is None else plain(one) for one in limits]
    amounts.append(_or_none(use.protected))
    policy = row.policy
    if policy is None or not first:
        return [*amounts, "", "", "", "", ""]
    evicts = f"own {policy.within_queue}, owed {policy.reclaim}, beyond {policy.borrowing}"
    evicts += ", by work lost" if policy.victim_order == WORK_LOST_FIRST else ""
    namespaces = ",".join(policy.namespaces)
    return [*amounts, str(policy.priority), policy.weight, policy.ordering, evicts, namespaces]


def _one(row: QueueRow) -> Iterator[Line]:
    """The settings of one queue, as its owner decided them."""
    below = f", below {row.parent}" if row.parent else ""
    policy = row.policy
    if policy is None:
        yield Line(f"queue {row.name}{below}: no FleetQueue of that name can be read")
        yield Line("")
        return
    in_force = "in force" if row.active else "not in force"
    yield Line(
        f"queue {row.name}{below}: {policy.state}, {in_force}; priority {policy.priority}, "
        f"weight {policy.weight}, ordering {policy.ordering}"
    )
    times = (
        ("its own work may be preempted after", policy.preempt_after),
        ("and reclaimed after", policy.reclaim_after),
        ("pods of gangs above their minimum after", policy.elastic_after),
    )
    spared = ", ".join(f"{words} {time}" for words, time in times if time is not None)
    yield Line(
        f"  may evict: its own work {policy.within_queue}, for what it is owed {policy.reclaim}, "
        f"to borrow {policy.borrowing}{f'; {spared}' if spared else ''}"
    )
    if policy.victim_order == WORK_LOST_FIRST:
        yield Line("  others' work by: the least GPU time lost, whichever queue has borrowed the most")
    further = (("half-life", policy.half_life), ("longest run", policy.run_time_max))
    for words, time in further:
        if time is not None:
            yield Line(f"  {words}: {time}")
    if policy.learn_run_times:
        yield Line("  run times: learned, for work that does not say its own")
    if row.reservation is not None:
        yield _reservation(row.reservation)
    if policy.namespaces:
        yield Line(f"  namespaces: {', '.join(policy.namespaces)}")
    if row.dominant_resource is not None and row.share is not None:
        yield Line(f"  dominant share: {plain(row.share)} of {row.dominant_resource}, by its weight")
    yield Line("")


def _reservation(held: ReservationRow) -> Line:
    start = f"expected to start {held.expected_start}" if held.expected_start else "its start is not known"
    nodes = f"{held.nodes} node{'' if held.nodes == 1 else 's'}" if held.nodes else "nodes"
    whose = f"{held.kind} {held.namespace}/{held.name}"
    return Line(f"  reservation: {whose} holds {nodes} since {held.since}, {start}")


def _waiting(row: QueueRow) -> Iterator[Line]:
    """The waiting work, in the order of its turn."""
    if row.waiting is None or not row.waiting:
        return
    yield Line("")
    columns = [
        Column("POSITION", right=True),
        Column("WAITS"),
        Column("PODS", right=True),
        Column("PRIORITY", right=True),
        Column("REASON"),
        Column("CREATED"),
    ]
    table = (
        (
            [
                NONE if one.position is None else str(one.position),
                f"{one.kind} {one.namespace}/{one.name}",
                str(one.pods),
                str(one.priority),
                waiting_words(one),
                one.created,
            ],
            "",
        )
        for one in row.waiting[:WAITING_MAX]
    )
    yield from laid_out(columns, table, None)
    if len(row.waiting) > WAITING_MAX:
        yield Line(f"and {len(row.waiting) - WAITING_MAX} more; -o json has all")


def _color(row: QueueRow) -> str:
    if not row.active:
        return "red"
    return "yellow" if any(_number(one.borrowed) for one in row.resources) else ""


def _or_none(amount: str) -> str:
    return NONE if not _number(amount) else plain(amount)


def _number(amount: str) -> int:
    found: Quantity = parse_quantity(amount)
    return found.nano


def _bar(use: ResourceRow, glyphs: Glyphs) -> str:
    """How much of its quota a queue uses, and how much of what it uses is borrowed."""
    used, quota, borrowed = _number(use.used), _number(use.quota), _number(use.borrowed)
    whole = max(used, quota)
    if not whole:
        return " " * BAR_CELLS
    # Rounded up: a queue that uses anything at all is not drawn as idle.
    full = -(-used * BAR_CELLS // whole)
    beyond = min(full, -(-borrowed * BAR_CELLS // whole))
    return glyphs.own * (full - beyond) + glyphs.borrowed * beyond + glyphs.idle * (BAR_CELLS - full)
