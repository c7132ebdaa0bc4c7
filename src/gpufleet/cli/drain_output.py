"""Lays the plan of a drain out for people: nodes in their order, what becomes of the work, what is lost."""

from collections.abc import Iterator

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.drain.plan import DrainPlan, Losses, NodePlan, Way, WorkPlan, short_words
from gpufleet.model.phrases import counted


def show(plan: DrainPlan, output: str) -> None:
    """Print a plan on standard output."""
    if output == "json":
        echo_json(plan)
        return
    for line in lines(plan):
        echo_line(line)


def tell(line: str) -> None:
    """What becomes of the drain, as it happens, on standard error."""
    echo_line(line, err=True)


def lines(plan: DrainPlan) -> Iterator[str]:
    """The whole text."""
    header = ("NODE", "WAVE", "CLOSED", "EMPTY", "GPU-HOURS LOST")
    yield from table([header, *(node_row(one) for one in plan.nodes)])
    if plan.work:
        yield ""
        yield from table([("WORK", "GPUS", "WHAT", "LOST"), *(work_row(one) for one in plan.work)])
    yield ""
    if plan.short is None:
        yield "The rest of the fleet has room for all work that has to move."
    else:
        how_long = "and for how long is not known"
        if plan.short.longest_s is not None:
            how_long = f"for at most {duration(plan.short.longest_s)}"
        yield f"{short_words(plan.short.gpus)} for work that has to move, {how_long}."
    lost = plan.lost_gpu_hours
    yield f"Lost: {hours(lost)} GPU-hours ({by_reason(lost)})."
    for note in plan.notes:
        yield f"Note: {note}"


def node_row(node: NodePlan) -> tuple[str, ...]:
    """One line of the nodes."""
    empty = "not by itself" if node.empty_at_s is None else f"in {duration(node.empty_at_s)}"
    closed = f"in {duration(node.closed_at_s)}"
    return node.node, str(node.wave), closed, empty, hours(node.lost_gpu_hours)


def work_row(work: WorkPlan) -> tuple[str, ...]:
    """One line of the work."""
    return work.name, f"{work.gpus:g}", what(work), f"{work.lost_gpu_hours:.1f} GPU-hours"


def what(work: WorkPlan) -> str:
    """What becomes of it, in words."""
    if work.way is Way.STAYS:
        return f"stays: {work.why}"
    if work.way is Way.NO_PLACE or work.at_s is None:
        return "fits nowhere else"
    when = f"in {duration(work.at_s)}"
    if work.way is Way.WAITS:
        return f"has ended {when}"
    if work.way is Way.EVICTED:
        return f"evicted {when}; another scheduler places it"
    moved = [f"{move.source} -> {move.target}" for move in work.moves if move.source != move.target]
    ways = ", ".join(moved[:3]) + (f" and {len(moved) - 3} more" if len(moved) > 3 else "")
    stays = len(work.moves) - len(moved)
    restarts = f"; {counted(stays, 'pod')} of it start again in place" if stays else ""
    asks = ", after it was asked to save its work" if work.is_asked_to_save else ""
    again = "; may have to move once more" if work.again else ""
    return f"moves {when}{asks}: {ways}{restarts}{again}"


def by_reason(lost: Losses) -> str:
    """What was lost, by reason."""
    return f"{lost.evicted:.1f} work that ends, {lost.idle:.1f} idle while others end, {lost.away:.1f} away"


def hours(lost: Losses) -> str:
    """All reasons together."""
    return f"{lost.evicted + lost.idle + lost.away:.1f}"


def duration(seconds: float) -> str:
    """A length of time in the unit in which people think of it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
