"""The sweep on Ray: a cluster of this machine, started here and gone afterwards."""

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from gpufleet import __version__
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.replay import ray_sweep
from gpufleet.replay.results import SweepResult
from gpufleet.replay.run_request import RunRequest
from tests.replay.small_traces import small_files

COMMAND = ("-m", "gpufleet", "replay", "--policy", "fgd,best-fit", "--seed", "1..2")
PATIENCE_S = 30


def replayed(folder: Path, name: str, *options: str) -> SweepResult:
    """A small sweep through the command line; its JSON and what it writes go to a folder of that name."""
    nodes, tasks = small_files(folder)
    out = folder / name
    ran = subprocess.run(
        [sys.executable, *COMMAND, "--nodes", nodes, "--pods", tasks, "--out", out, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    return msgspec.json.decode((out / "results.json").read_bytes(), type=SweepResult)


def ray_processes() -> list[int]:
    """Processes of Ray on this machine that this user can see."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith((b"/raylet", b"/gcs_server")) or words[0].startswith(b"ray::"):
            found.append(int(folder.name))
    return found


def wait_until_gone(processes: set[int]) -> None:
    until = time.monotonic() + PATIENCE_S
    while processes & set(ray_processes()):
        assert time.monotonic() < until, "processes of Ray are left"
        time.sleep(0.1)


def without_machine(result: SweepResult) -> list[object]:
    """What was decided in every run."""
    return [
        msgspec.structs.replace(run, decision_seconds=0.0, wall_seconds=0.0, peak_rss_mib=0.0)
        for run in result.runs
    ]


def test_ray_finds_what_this_machine_finds_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(ray_processes())
    here = replayed(tmp_path, "here", "--jobs", "1")
    there = replayed(tmp_path, "there", "--ray", "local", "--jobs", "2")
    assert without_machine(there) == without_machine(here)
    assert [(run.policy, run.seed) for run in there.runs] == [
        ("fgd", 1),
        ("fgd", 2),
        ("best-fit", 1),
        ("best-fit", 2),
    ]
    # what runs wrote on the workers came back
    for name in ("placements-fgd-1.csv", "placements-best-fit-1.csv"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    wait_until_gone(set(ray_processes()) - before)


def test_nothing_is_told_to_the_makers_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    ray_sweep.import_ray()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"Ray is not installed; expected pip install 'gpufleet\[ray\]'"):
        ray_sweep.import_ray()


def test_a_worker_of_another_version_is_refused(tmp_path: Path) -> None:
    nodes, tasks = small_files(tmp_path)
    with pytest.raises(WorldError, match=r"a Ray worker has gpufleet .*, this is 0\.0\.1"):
        ray_sweep.run_remotely(RunRequest(str(nodes), str(tasks), "fgd", 1), {}, "0.0.1")


def test_a_worker_needs_no_shared_folder(tmp_path: Path) -> None:
    nodes, tasks = small_files(tmp_path)
    asked = RunRequest(
        str(nodes), str(tasks), "fgd", 1, placements_path="elsewhere/p.csv", log_path="elsewhere/run.log.gz"
    )
    files = ray_sweep.files_of(asked, ray_sweep.INPUTS)
    nodes.unlink()
    tasks.unlink()
    result, written = ray_sweep.run_remotely(asked, files, __version__)
    assert result.arrived > 0
    assert written["placements_path"][0].endswith("p.csv")
    assert written["placements_path"][1].startswith(b"pod,node,")
    assert written["log_path"][1].startswith(b"\x1f\x8b")
