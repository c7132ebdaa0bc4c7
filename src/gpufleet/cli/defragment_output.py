"""Lays a defragmentation plan out for people: the moves, then what fits before and after them."""

from collections.abc import Iterator

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.defragment.plan import DefragmentPlan, PlannedMove
from gpufleet.model.phrases import counted

UNCHANGED = "Nothing was changed. --apply makes the moves."
CUT = "Not every move was looked at: the fleet is too large for that."


def show(plan: DefragmentPlan, output: str, *, applies: bool = False) -> None:
    """Print a plan on standard output; ``applies``: the moves are made next."""
    if output == "json":
        echo_json(plan)
        return
    for line in lines(plan, applies=applies):
        echo_line(line)


def tell(line: str) -> None:
    """What becomes of the moves, as it happens, on standard error."""
    echo_line(line, err=True)


def lines(plan: DefragmentPlan, *, applies: bool) -> Iterator[str]:
    """The whole text."""
    if not plan.moves:
        yield "Nothing to move: no moves that are allowed would let larger pods fit."
    else:
        gain = f"let {plan.starts} start" if plan.starts else "make room for larger pods"
        yield f"{counted(len(plan.moves), 'move')} would {gain}:"
        yield from table([moved(one) for one in plan.moves])
    if plan.starts == "":
        yield ""
        yield from table(
            [
                ("", "now", "after"),
                ("whole GPUs free", str(plan.whole_gpus_before), str(plan.whole_gpus_after)),
                *((f"pods of {one.gpus} that fit", str(one.before), str(one.after)) for one in plan.fits),
            ]
        )
    if plan.cut:
        yield CUT
    for note in plan.notes:
        yield f"Note: {note}"
    if plan.moves and not applies:
        yield ""
        yield UNCHANGED


def moved(move: PlannedMove) -> tuple[str, ...]:
    """One line of the moves."""
    return move.pod, f"{move.source} -> {move.target}", move.controller, f"loses {gpu_time(move.lost_gpu_s)}"


def gpu_time(gpu_s: int | None) -> str:
    """GPU-seconds in the unit in which people think of them."""
    if gpu_s is None:
        return "what it did since it started"
    if gpu_s < 120:
        return f"{gpu_s} GPU-seconds"
    return f"{gpu_s / 60:.0f} GPU-minutes" if gpu_s < 7200 else f"{gpu_s / 3600:.1f} GPU-hours"


def table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
