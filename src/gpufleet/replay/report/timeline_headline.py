"""What a replay in time found, in plain words: which policy started most tasks, and how long they waited.

A mean wait is over the tasks that started, so a policy that leaves the hard ones waiting for ever looks
quick. Policies are therefore ranked by the tasks they never started, and only then by wait. ``page`` shows it
at the top.
"""

import msgspec

from gpufleet.replay.report.figures import count, duration, listed, percent, plural
from gpufleet.replay.report.headline import Headline, Tile, replayed
from gpufleet.replay.report.selection import first_timelines
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import SweepResult, Timeline, Waits

ALL_TASKS = "all"


class _PolicyTimeline(msgspec.Struct, frozen=True):
    """The first timeline of a policy and its waits over all tasks."""

    policy: str
    timeline: Timeline
    waits: Waits

    @property
    def rank(self) -> tuple[int, float]:
        """Smaller is better: tasks never started, then the mean wait."""
        mean_s = self.waits.mean_s
        return (self.waits.never_started, float("inf") if mean_s is None else mean_s)


def _policy_timelines(result: SweepResult) -> list[_PolicyTimeline]:
    found = [
        _PolicyTimeline(policy, timeline, timeline.waits_by_class[ALL_TASKS])
        for policy, timeline in first_timelines(result).items()
        if ALL_TASKS in timeline.waits_by_class
    ]
    return sorted(found, key=lambda one: one.rank)


def _title(best: _PolicyTimeline, others: list[_PolicyTimeline]) -> str:
    wait = f"{duration(best.waits.mean_s)} on average"
    if not others:
        return f"Tasks waited {wait} under {best.policy}"
    alike = [best.policy, *(one.policy for one in others if one.rank == best.rank)]
    if len(alike) > 1:
        return f"{listed(alike)} let tasks wait equally: {wait}"
    more = others[0].waits.never_started - best.waits.never_started
    if more:
        started = f"{count(best.waits.started)} of {plural(_tasks(best), 'task')}"
        return f"{best.policy} started the most tasks: {started}, {count(more)} more than {others[0].policy}"
    return f"{best.policy} let tasks wait least: {wait}"


def _tasks(one_policy: _PolicyTimeline) -> int:
    return one_policy.waits.started + one_policy.waits.never_started


def _tiles(best: _PolicyTimeline) -> tuple[Tile, ...]:
    return (
        Tile("Never started", count(best.waits.never_started), f"{best.policy}, of {_tasks(best):,}"),
        Tile("Mean wait", duration(best.waits.mean_s), f"{best.policy}, tasks that started"),
        Tile("99% waited at most", duration(best.waits.p99_s), f"{best.policy}, tasks that started"),
        Tile("GPUs busy", percent(best.timeline.mean_gpu_alloc_pct), f"{best.policy}, over the time"),
    )


def timeline_headline(result: SweepResult) -> Headline | None:
    """The top of the page; None where no run has a timeline."""
    timelines = _policy_timelines(result)
    if not timelines:
        return None
    best, *others = timelines
    sentences = ["Figures here are those of the first seed of each policy."]
    if any(one.waits.never_started for one in timelines):
        sentences.append(
            "Waits are those of the tasks that started: read them beside how many never did, since a "
            "policy that leaves the hard tasks waiting looks quick."
        )
    return Headline(_title(best, others), replayed(result), tuple(sentences), _tiles(best))


def timeline_ranking_table(result: SweepResult) -> Table | None:
    """The policies from fewest tasks never started to most; None where there is no timeline."""
    timelines = _policy_timelines(result)
    if not timelines:
        return None
    return table(
        "Standings: all tasks, first seed",
        ["Policy", "started", "never started", "mean wait", "half", "99%", "longest", "GPUs busy"],
        [
            [
                one.policy,
                count(one.waits.started),
                count(one.waits.never_started),
                duration(one.waits.mean_s),
                duration(one.waits.p50_s),
                duration(one.waits.p99_s),
                duration(one.waits.max_s),
                percent(one.timeline.mean_gpu_alloc_pct),
            ]
            for one in timelines
        ],
    )
