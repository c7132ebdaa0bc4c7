"""Ctrl-C, lost workers and a lost parent: what is done stays, what is missing is named, nobody is left."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.replay_command import (
    ended,
    group_is_empty,
    interrupt,
    results,
    started,
    wait_until,
    workers_of,
)
from tests.replay.small_traces import small_files

MANY_SEEDS = "1..3000"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str | Path, ...]:
    nodes, tasks = small_files(tmp_path)
    return ("--nodes", nodes, "--pods", tasks)


def stray_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_finished_runs_are_kept_and_the_rest_is_named(
    jobs: str, files: tuple[str | Path, ...], tmp_path: Path
) -> None:
    out, json_path = tmp_path / "out", tmp_path / "x.json"
    process = started(
        "replay",
        *files,
        "--policy",
        "fgd",
        "--seed",
        MANY_SEEDS,
        "--jobs",
        jobs,
        "--out",
        out,
        "--json",
        json_path,
    )
    # written by the first run, while others follow
    wait_until((out / "placements-fgd-1.csv").exists)
    with pytest.raises(TimeoutError):
        wait_a_little(process.pid)
    interrupt(process)
    code, shown, told = ended(process)
    assert code == 130, told
    assert "Traceback" not in told
    found = results(json_path)
    assert found == results(out / "results.json")
    assert not found["complete"]
    done = [run["seed"] for run in found["runs"]]
    assert done
    assert sorted(done + [int(title.rpartition(" ")[2]) for title in found["missing"]]) == list(
        range(1, 3001)
    )
    assert found["policies"][0]["seeds"] == done
    assert f"gpufleet: interrupted; {len(done)} of 3000 runs are done, missing: fgd, seed " in told
    assert "fgd" in shown, "the table of what is done"
    assert list(out.glob("*.html")), "the report of what is done"
    assert not stray_files(tmp_path)


def wait_a_little(group: int) -> None:
    """Half a second in which the command goes on."""
    import time

    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        assert not group_is_empty(group)
        time.sleep(0.05)
    raise TimeoutError


def test_nothing_done_yet(files: tuple[str | Path, ...], tmp_path: Path) -> None:
    """The workers are still importing: they must die quietly."""
    json_path = tmp_path / "x.json"
    process = started("replay", *files, "--seed", "1..2", "--jobs", "2", "--json", json_path)
    wait_until(lambda: workers_of(process))
    interrupt(process)
    code, shown, told = ended(process)
    assert code == 130
    assert shown == ""
    lines = told.splitlines()
    missing = "fgd, seed 1; fgd, seed 2; gpufleet, seed 1; gpufleet, seed 2"
    assert lines == [f"gpufleet: interrupted; 0 of 4 runs are done, missing: {missing}"]
    found = results(json_path)
    assert (found["complete"], found["runs"], found["policies"], len(found["missing"])) == (False, [], [], 4)


def test_a_worker_that_is_killed_is_a_failure_outside(files: tuple[str | Path, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    written = ("--out", out, "--json", tmp_path / "x.json")
    process = started("replay", *files, "--policy", "fgd", "--seed", MANY_SEEDS, "--jobs", "2", *written)
    wait_until((out / "placements-fgd-1.csv").exists)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    code, _, told = ended(process)
    assert code == 3
    assert "gpufleet: a worker process ended by itself" in told.splitlines()[-1]
    assert not results(tmp_path / "x.json")["complete"]
    assert not stray_files(tmp_path)


def test_workers_end_when_their_parent_is_killed(files: tuple[str | Path, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started("replay", *files, "--policy", "fgd", "--seed", MANY_SEEDS, "--jobs", "2", "--out", out)
    wait_until((out / "placements-fgd-1.csv").exists)
    process.kill()
    ended(process)
    assert not (out / "results.json").exists()
