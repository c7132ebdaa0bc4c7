"""What a replay to saturation found, in plain words: which policy kept the most GPUs busy, by how many.

The comparison is between means over seeds at load 100 and at 130, as the summary has them. A lead smaller
than the deviation between seeds is told as such. ``page`` shows it at the top.
"""

from gpufleet.replay.report.figures import ABSENT, amount, count, listed, percent
from gpufleet.replay.report.headline import Headline, Tile, replayed
from gpufleet.replay.report.selection import by_alloc
from gpufleet.replay.results import PolicySummary, SweepResult

HEADLINE_LOADS = ("100", "130")
LOAD_MEANING = "Load 100 is the moment when the tasks that had come asked for 100% of the GPUs."


def busy_gpus(result: SweepResult, summary: PolicySummary, load: str) -> float | None:
    """GPUs allocated at ``load``: the summary's percent of the GPUs of the cluster."""
    found = summary.alloc_pct.get(load)
    return None if found is None else found.mean / 100 * result.gpus


def headline_loads(result: SweepResult) -> list[str]:
    """Load 100 and 130, or the highest that any policy has a figure for if it has neither."""
    known = {load for summary in result.policies for load in summary.alloc_pct}
    loads = [load for load in HEADLINE_LOADS if load in known]
    return loads or sorted(known, key=float)[-1:]


def _lead_gpus(result: SweepResult, best: PolicySummary, other: PolicySummary, load: str) -> float:
    lead_pct = best.alloc_pct[load].mean - other.alloc_pct[load].mean
    return lead_pct / 100 * result.gpus


def _within_deviation(best: PolicySummary, other: PolicySummary, load: str) -> bool:
    found = (best.alloc_pct[load], other.alloc_pct[load])
    deviations = [one.deviation for one in found if one.deviation is not None]
    return bool(deviations) and found[0].mean - found[1].mean <= max(deviations)


def _caution(result: SweepResult, load: str) -> str:
    """Which leads prove nothing; nothing where all do. The leads themselves stand in the table below."""
    best, *others = by_alloc(result, load)
    close = [other.policy for other in others if _within_deviation(best, other, load)]
    if not close:
        return ""
    return f"At load {load} the lead over {listed(close)} is no larger than the deviation between seeds."


def _refused_none(result: SweepResult) -> str:
    never = [one.policy for one in result.policies if one.first_refusal_load is None]
    return f"{listed(never)} refused none." if never else ""


def _title(result: SweepResult, load: str) -> str:
    best, *others = by_alloc(result, load)
    busy = f"{count(busy_gpus(result, best, load))} of {count(result.gpus)} GPUs busy"
    if not others:
        return f"{best.policy} kept {busy} at load {load}"
    lead = count(_lead_gpus(result, best, others[0], load))
    return f"{best.policy} kept the most GPUs busy: {lead} more than {others[0].policy} at load {load}"


def _tiles(result: SweepResult, load: str) -> list[Tile]:
    best, *others = by_alloc(result, load)
    refusal = best.first_refusal_load
    tiles = [
        Tile(
            f"Busy GPUs at load {load}",
            percent(best.alloc_pct[load].mean),
            f"{best.policy}: {count(busy_gpus(result, best, load))} of {count(result.gpus)}",
        )
    ]
    if len(others) > 1:
        lead = count(_lead_gpus(result, best, others[-1], load))
        tiles.append(Tile("Ahead of the last", f"{lead} GPUs", f"last: {others[-1].policy}"))
    refused = ABSENT if refusal is None else f"load {amount(refusal.mean)}"
    about = f"{best.policy} refused none" if refusal is None else f"{best.policy}, mean over the seeds"
    return [*tiles, Tile("First task refused at", refused, about)]


def saturate_headline(result: SweepResult) -> Headline | None:
    """The top of the page; None where no policy has a figure."""
    loads = headline_loads(result)
    if not loads:
        return None
    sentences = [LOAD_MEANING, *(_caution(result, load) for load in loads), _refused_none(result)]
    said = tuple(sentence for sentence in sentences if sentence)
    return Headline(_title(result, loads[0]), replayed(result), said, tuple(_tiles(result, loads[0])))
