"""The runs of each policy summed up over its seeds."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from gpufleet.replay.results import MeanDeviation, PolicySummary, RunResult


def mean_deviation(values: Sequence[float]) -> MeanDeviation:
    """Mean and sample standard deviation (none for a single value)."""
    deviation = round(stdev(values), 6) if len(values) > 1 else None
    return MeanDeviation(round(fmean(values), 6), deviation, len(values))


def by_key(runs: Iterable[dict[str, float]]) -> dict[str, MeanDeviation]:
    """Mean and deviation for each key, over the runs that have it."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for key, value in run.items():
            values.setdefault(key, []).append(value)
    return {key: mean_deviation(found) for key, found in values.items()}


def accepted_pct(run: RunResult, name: str) -> dict[str, float]:
    """Accepted percent of a class by load, where any of the class arrived."""
    return {
        load: count.accepted_pct
        for load, count in run.accepted_by_class.get(name, {}).items()
        if count.accepted_pct is not None
    }


def summarise(runs: Sequence[RunResult]) -> list[PolicySummary]:
    """One summary a policy, in the order in which the policies first appear."""
    return [
        summarise_policy(policy, [run for run in runs if run.policy == policy])
        for policy in dict.fromkeys(run.policy for run in runs)
    ]


def summarise_policy(policy: str, runs: Sequence[RunResult]) -> PolicySummary:
    """All runs of one policy."""
    refusals = [run.first_refusal_load for run in runs if run.first_refusal_load is not None]
    classes = dict.fromkeys(name for run in runs for name in run.accepted_by_class)
    return PolicySummary(
        policy=policy,
        seeds=[run.seed for run in runs],
        alloc_pct=by_key(run.alloc_pct for run in runs),
        frag_pct_of_cluster=by_key(run.frag_pct_of_cluster for run in runs),
        accepted_pct_by_class={name: by_key(accepted_pct(run, name) for run in runs) for name in classes},
        first_refusal_load=mean_deviation(refusals) if refusals else None,
        decision_seconds=mean_deviation([run.decision_seconds for run in runs]),
    )
