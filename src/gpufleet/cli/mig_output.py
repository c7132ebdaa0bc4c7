"""Lays a plan of MIG layouts out for people: the cards that change, who gets what, and who gets nothing."""

from collections.abc import Iterator

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.cli.whatif_output import wrapped
from gpufleet.model.phrases import counted
from gpufleet.repartition.answer import PlannedCard, PlannedStep, RepartitionPlan

UNCHANGED = "Nothing was changed."
ACTIONS = {
    "make": "make",
    "remove": "remove",
    "enable-mig": "enable MIG",
    "enable-mig-with-reset": "enable MIG and reset",
    "disable-mig": "disable MIG",
    "disable-mig-with-reset": "disable MIG and reset",
}


def show(plan: RepartitionPlan, output: str, *, changes: bool = False) -> None:
    """Print the plan, on standard output; ``changes`` says that it is carried out then."""
    if output == "json":
        echo_json(plan)
        return
    for line in lines(plan, changes=changes):
        echo_line(line)


def tell(line: str) -> None:
    """How far the cards are, as it happens, on standard error."""
    echo_line(line, err=True)


def lines(plan: RepartitionPlan, *, changes: bool = False) -> Iterator[str]:
    """The whole text."""
    if plan.config and not plan.cards:
        yield f"No card would be cut anew for {plan.config}."
    elif not plan.config and not plan.instances and not plan.unserved:
        yield "No pod waits for a MIG instance."
    yield from _cards(plan)
    yield from _instances(plan)
    if plan.unserved:
        pods = counted(len(plan.unserved), "pod")
        yield f"{pods} without a place:"
        for one in plan.unserved:
            yield from wrapped(f"  {one.pod}: {one.reason}", 4)
    for left in plan.left_out:
        yield from wrapped(f"Left out: {' '.join(filter(None, (left.node, left.card)))}, {left.reason}", 4)
    for note in plan.notes:
        yield from wrapped(f"Note: {note}", 6)
    if not changes:
        yield UNCHANGED


def _cards(plan: RepartitionPlan) -> Iterator[str]:
    if not plan.cards:
        return
    yield f"{counted(len(plan.cards), 'card')} would be cut anew:"
    columns = [Column("NODE"), Column("CARD"), Column("IN USE"), Column("BEFORE"), Column("AFTER")]
    columns.append(Column("STEPS"))
    for line in laid_out(columns, [(_row(one), "") for one in plan.cards], None):
        yield f"  {line.text}"


def _row(card: PlannedCard) -> list[str]:
    layouts = [" ".join(layout) or "-" for layout in (card.in_use, card.before, card.after)]
    return [card.node, card.card, *layouts, ", ".join(map(_step, card.steps))]


def _step(step: PlannedStep) -> str:
    where = "" if step.start is None else f" {step.profile}@{step.start}"
    return f"{ACTIONS.get(step.action, step.action)}{where}"


def _instances(plan: RepartitionPlan) -> Iterator[str]:
    if not plan.instances:
        return
    pods = len({one.pod for one in plan.instances})
    yield f"{counted(pods, 'pod')} would have room:"
    columns = [Column("POD"), Column("NODE"), Column("CARD"), Column("INSTANCE"), Column("")]
    rows = [
        ([one.pod, one.node, one.card, f"{one.profile}@{one.start}", "exists" if one.exists else "made"], "")
        for one in plan.instances
    ]
    for line in laid_out(columns, rows, None):
        yield f"  {line.text}"
