"""The runs of a policy over its seeds: mean and sample standard deviation."""

from pathlib import Path

import pytest

from gpufleet.replay.results import MeanDeviation
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.summary import by_key, mean_deviation, summarise
from tests.replay.small_traces import small_files


def test_mean_and_sample_deviation() -> None:
    # deviations -1, 0, 1: variance (1 + 0 + 1) / (3 - 1) = 1
    assert mean_deviation([4, 5, 6]) == MeanDeviation(5, 1, 3)
    assert mean_deviation([4]) == MeanDeviation(4, None, 1)


def test_each_key_over_the_runs_that_have_it() -> None:
    assert by_key([{"100": 1.0, "130": 5.0}, {"100": 3.0}]) == {
        "100": MeanDeviation(2, 1.414214, 2),
        "130": MeanDeviation(5, None, 1),
    }


def test_a_summary_is_made_of_the_runs_of_its_policy(tmp_path: Path) -> None:
    nodes, tasks = small_files(tmp_path)
    runs = [
        run(RunRequest(str(nodes), str(tasks), policy, seed))
        for policy in ("random", "best-fit")
        for seed in (1, 2, 3)
    ]
    random_policy, best_fit = summarise(runs)
    assert (random_policy.policy, best_fit.policy) == ("random", "best-fit")
    assert best_fit.seeds == [1, 2, 3]
    figures = [one.alloc_pct["100"] for one in runs[3:]]
    assert best_fit.alloc_pct["100"].mean == pytest.approx(sum(figures) / 3)
    assert best_fit.first_refusal_load is not None
    assert best_fit.first_refusal_load.runs == 3
    assert best_fit.decision_seconds.mean > 0
    shares = [one.accepted_by_class["share"]["100"].accepted_pct or 0 for one in runs[3:]]
    assert best_fit.accepted_pct_by_class["share"]["100"].mean == pytest.approx(sum(shares) / 3, abs=1e-4)
