"""Which policies and runs a picture shows, and in what order.

The order of the summaries fixes colours and rows everywhere. A picture that can show one run only shows the
first seed of each policy, the only one with its nodes in the result.
"""

from gpufleet.replay.results import PolicySummary, RunResult, SweepResult, Timeline


def policy_names(result: SweepResult) -> list[str]:
    """The policies in the order of the summaries."""
    return [summary.policy for summary in result.policies]


def runs_of(result: SweepResult, policy: str) -> list[RunResult]:
    """The runs of one policy, in order of seeds."""
    return sorted((run for run in result.runs if run.policy == policy), key=lambda run: run.seed)


def by_alloc(result: SweepResult, load: str) -> list[PolicySummary]:
    """The policies that have a figure at ``load``, the one with most GPUs allocated first."""
    known = [summary for summary in result.policies if load in summary.alloc_pct]
    return sorted(known, key=lambda summary: -summary.alloc_pct[load].mean)


def first_timelines(result: SweepResult) -> dict[str, Timeline]:
    """The timeline of the first seed of each policy that has one."""
    found: dict[str, Timeline] = {}
    for policy in policy_names(result):
        for run in runs_of(result, policy):
            if run.timeline is not None:
                found.setdefault(policy, run.timeline)
    return found
