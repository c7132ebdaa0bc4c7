"""Several runs side by side: the same results however many at a time, and a way out of every failure."""

import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.results import RunResult
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import RunOutcome, sweep
from tests.replay.small_traces import small_files


class Heard:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.finished_runs: list[str] = []

    def arrived(self, request: RunRequest, tasks: int) -> None:
        """Not asked about here."""

    def finished(self, request: RunRequest) -> None:
        """Note it."""
        self.finished_runs.append(request.title)


def requests_of(folder: Path, seeds: int = 3, mode: str = "saturate") -> list[RunRequest]:
    nodes, tasks = small_files(folder)
    return [
        RunRequest(str(nodes), str(tasks), policy, seed, mode=mode, picture=seed == 1)
        for policy in ("gpufleet", "fgd")
        for seed in range(1, seeds + 1)
    ]


@pytest.fixture
def slow_threads() -> Iterator[None]:
    """Threads take turns so seldom that one which waits for a process is far behind the others."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.5)
    yield
    sys.setswitchinterval(before)


def decided(result: RunResult) -> RunResult:
    """A result without what the machine has to do with."""
    return msgspec.structs.replace(result, decision_seconds=0.0, wall_seconds=0.0, peak_rss_mib=0.0)


def test_two_at_a_time_find_what_one_at_a_time_finds(tmp_path: Path) -> None:
    requests = requests_of(tmp_path)
    heard = Heard()
    alone, together = sweep(requests, 1, Heard()), sweep(requests, 2, heard)
    assert list(map(decided, together.runs())) == list(map(decided, alone.runs()))
    assert [(run.policy, run.seed) for run in together.runs()] == [(one.policy, one.seed) for one in requests]
    assert sorted(heard.finished_runs) == sorted(one.title for one in requests)
    assert together.missing() == []
    assert not multiprocessing.active_children()


def test_seeds_make_a_difference(tmp_path: Path) -> None:
    runs = sweep(requests_of(tmp_path)[:3], 1, Heard()).runs()
    assert len({msgspec.json.encode(run.curve) for run in runs}) == len(runs)


def test_figures_of_a_machine_are_plausible(tmp_path: Path) -> None:
    for run in sweep(requests_of(tmp_path, 1), 1, Heard()).runs():
        assert 0 < run.decision_seconds < run.wall_seconds < 60
        assert 20 < run.peak_rss_mib < 4096


@pytest.mark.usefixtures("slow_threads")
@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_input_in_a_run_is_told_as_such(jobs: int, tmp_path: Path) -> None:
    requests = requests_of(tmp_path, 1)
    Path(requests[0].pods_path).write_text("name\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"tasks\.csv"):
        sweep(requests, jobs, Heard())
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_done_before_a_failure_is_kept(jobs: int, tmp_path: Path) -> None:
    requests = requests_of(tmp_path, 2)
    requests[-1] = msgspec.structs.replace(requests[-1], placements_path=str(tmp_path / "no" / "x.csv"))
    outcome = sweep(requests, jobs, Heard())
    assert isinstance(outcome.failure, WorldError)
    assert "there is no folder" in str(outcome.failure)
    assert not outcome.interrupted
    assert "fgd, seed 2" in outcome.missing()
    if jobs == 1:
        assert len(outcome.runs()) == 3


class InterruptedAfter(Heard):
    """A listener beside which somebody presses Ctrl-C after so many runs."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self._runs = runs

    def finished(self, request: RunRequest) -> None:
        """Note it, and be interrupted."""
        super().finished(request)
        if len(self.finished_runs) == self._runs:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("slow_threads")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_keeps_what_is_done_and_names_what_is_not(jobs: int, tmp_path: Path) -> None:
    requests = requests_of(tmp_path)
    outcome = sweep(requests, jobs, InterruptedAfter(2))
    assert outcome.interrupted
    assert outcome.failure is None
    assert len(outcome.runs()) == 2
    done = [f"{run.policy}, seed {run.seed}" for run in outcome.runs()]
    assert sorted(done + outcome.missing()) == sorted(one.title for one in requests)
    assert not multiprocessing.active_children()


def test_an_outcome_lists_runs_in_the_order_asked_for(tmp_path: Path) -> None:
    requests = requests_of(tmp_path)
    result = sweep(requests[:1], 1, Heard()).runs()[0]
    outcome = RunOutcome(requests)
    for place in (4, 0, 2):
        outcome.results[place] = msgspec.structs.replace(result, seed=place)
    assert [run.seed for run in outcome.runs()] == [0, 2, 4]
    assert outcome.missing() == ["gpufleet, seed 2", "fgd, seed 1", "fgd, seed 3"]


def test_errors_about_traces_travel_between_processes() -> None:
    error = TraceError("not a number", file="a.csv", row=7, column="cpu_milli", value="x", expected="digits")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        back = pool.apply(same, (error,))
    assert (str(back), back.row, back.column, back.file) == (str(error), 7, "cpu_milli", "a.csv")


def same(error: TraceError) -> TraceError:
    """What went to the other process comes back."""
    return error
