"""Which pods to move, on a snapshot: the moves, what they gain and cost, clear words where there are none."""

import io
import json
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.defragment import applying, command
from gpufleet.defragment.plan import DefragmentPlan, PlannedMove
from tests.cluster.snapshots.small_snapshots import Fleet

SCATTERED = """\
2 moves would make room for larger pods:
  default/web-0  gpu-1 -> gpu-2  Job/web-0  loses what it did since it started
  default/web-1  gpu-1 -> gpu-2  Job/web-1  loses what it did since it started

                      now  after
  whole GPUs free     4    4
  pods of 1 that fit  4    4
  pods of 2 that fit  2    2
  pods of 4 that fit  0    1

Nothing was changed. --apply makes the moves.
"""


def scattered(*, job: bool = True) -> Fleet:
    """Two nodes of four GPUs, each with two single pods: no four GPUs lie together."""
    fleet = Fleet()
    for node in ("gpu-1", "gpu-2"):
        fleet.node(node)
    for number in range(4):
        name, node = f"web-{number}", ("gpu-1", "gpu-2")[number // 2]
        fleet.pod(name, node=node, devices=str(number % 2), job=name if job else "")
    return fleet


def shown(capsys: pytest.CaptureFixture[str], path: Path, *options: str, code: int = ExitCode.DONE) -> str:
    """What the command prints, on whichever stream its outcome belongs."""
    assert main(["defragment", "--snapshot", str(path), *options]) == code
    said = capsys.readouterr()
    return said.err if code else said.out


def test_the_moves_and_what_they_gain(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert shown(capsys, scattered().write(tmp_path / "fleet")) == SCATTERED


def test_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = json.loads(shown(capsys, scattered().write(tmp_path / "fleet"), "-o", "json"))
    assert said["schema"] == "gpufleet.io/defragment/v1"
    assert said["moves"][0] == {
        "pod": "default/web-0",
        "uid": "uid-of-web-0",
        "source": "gpu-1",
        "target": "gpu-2",
        "lostGpuS": None,
        "controller": "Job/web-0",
    }
    assert said["fits"][-1] == {"gpus": 4, "before": 0, "after": 1}


def test_pods_without_a_controller_stay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = shown(capsys, scattered(job=False).write(tmp_path / "fleet"))
    assert said.startswith("Nothing to move: no moves that are allowed would let larger pods fit.\n")
    assert "--apply" not in said


def test_moves_for_a_pod_that_waits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fleet = scattered()
    fleet.pod("large", gpus=4)
    path = fleet.write(tmp_path / "fleet")
    said = shown(capsys, path, "--for", "large")
    assert said.startswith("2 moves would let default/large start:\n")
    assert "whole GPUs free" not in said
    said = shown(capsys, path, "--for", "large", "--moves-max", "1", code=ExitCode.BAD_INPUT)
    assert "no 1 moves let it start" in said


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        ("nobody", "no such pod, found 'default/nobody'; expected a pod that waits"),
        ("web-0", "it has a node, found 'default/web-0'; expected a pod that waits; it runs on gpu-1"),
    ],
)
def test_nobody_to_start(capsys: pytest.CaptureFixture[str], tmp_path: Path, pod: str, problem: str) -> None:
    said = shown(capsys, scattered().write(tmp_path / "fleet"), "--for", pod, code=ExitCode.BAD_INPUT)
    assert said == f"gpufleet: --for: {problem}\n"


def test_a_snapshot_cannot_be_changed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = scattered().write(tmp_path / "fleet")
    assert "a snapshot is no cluster" in shown(capsys, path, "--apply", "--yes", code=ExitCode.BAD_INPUT)


A_MOVE = PlannedMove("default/web-0", "u", "gpu-1", "gpu-2", None, "Job/web-0")


@pytest.mark.parametrize(
    ("answer", "options", "made"), [("n\n", (), 0), ("\n", (), 0), ("y\n", (), 1), ("", ("--yes",), 1)]
)
def test_nobody_is_moved_unasked(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    options: tuple[str, ...],
    made: int,
) -> None:
    plan = DefragmentPlan("s", "t", "", (A_MOVE,), 4, 4, (), cut=False)
    asked: list[DefragmentPlan] = []
    monkeypatch.setattr(command, "of_cluster", lambda *_: plan)
    monkeypatch.setattr(applying, "apply_plan", lambda given, *_: asked.append(given))
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert main(["defragment", "--apply", *options]) == ExitCode.DONE
    assert asked == [plan] * made
    assert ("Nothing was changed." in capsys.readouterr().err) == (not made)


def test_where_nobody_can_answer_yes_has_to_be_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["defragment", "--apply"]) == ExitCode.BAD_INPUT
    assert "add --yes" in capsys.readouterr().err
