"""An answer is readable in any width, harmless in any terminal, and the same for programs."""

import json

import msgspec
import pytest

from gpufleet.cli import explain_output
from gpufleet.cli.explain_output import lines, show
from gpufleet.cli.main import main
from gpufleet.cli.terminal import with_color
from gpufleet.explain.answer import (
    SCHEMA,
    Answer,
    Asked,
    GangRow,
    MemberRow,
    ReasonRow,
    State,
)
from gpufleet.model.visible import visible_line

ANSWER = Answer(
    SCHEMA,
    Asked("pod", "team-a", "train"),
    State.WAITS,
    "pod team-a/train waits: it needs 4 whole GPUs",
    cause="gpu-busy",
    why="of the 8 GPUs of the 1 node that would do 3 are free; it needs 4 on one node",
    way_out=("it fits on gpu-1 when team-a/eval (1 GPU) ends", "ask for at most 3 GPUs in one pod"),
    nodes=23,
    reasons=(
        ReasonRow("gpu-busy", "with too few free GPUs", 1, 2, ("gpu-1", "gpu-2")),
        ReasonRow("taint", "tainted, and the pod does not tolerate it", 22, 22, (), "gpu:NoSchedule on 22"),
        ReasonRow("cpu", "short of CPU", 0, 1, ("gpu-2",)),
    ),
    gang=GangRow("gang/team-a/train", 2, 1, 0, members=(MemberRow("train", State.WAITS),)),
    notes=("1 waiting pod would be looked at first: team-a/urgent",),
)

SHOWN = """\
pod team-a/train waits: it needs 4 whole GPUs

Why:       of the 8 GPUs of the 1 node that would do 3 are free; it needs 4 on one node
Way out:   it fits on gpu-1 when team-a/eval (1 GPU) ends
  or:      ask for at most 3 GPUs in one pod

Nodes:     23, each counted once under its first reason
        1  with too few free GPUs; and 1 that fails for something else first
       22  tainted, and the pod does not tolerate it (gpu:NoSchedule on 22)
           also 1 short of CPU

Gang:      team-a/train: 1 of 2 members has come, 0 are placed
           train  waits

Note:      1 waiting pod would be looked at first: team-a/urgent
"""


def test_people_read_state_reason_and_way_out_in_this_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    show(ANSWER, "text", "never")
    assert capsys.readouterr().out == SHOWN


@pytest.mark.parametrize("width", [40, 60, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in lines(ANSWER, width)) <= width


def test_json_and_yaml_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show(ANSWER, "json", "never")
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["cause"], found["state"]) == (
        "gpufleet.io/explain/v1",
        "gpu-busy",
        "waits",
    )
    assert found["reasons"][0]["nodes"] == ["gpu-1", "gpu-2"]
    show(ANSWER, "yaml", "never")
    assert msgspec.yaml.decode(capsys.readouterr().out) == found


def test_colour_is_for_terminals_and_obeys_the_usual_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    assert not with_color("auto")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert with_color("auto")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not with_color("auto")
    assert with_color("always")
    painted = explain_output.painted("Why:       x", ANSWER)
    assert painted != "Why:       x"
    assert painted.endswith("       x")


def test_what_could_move_a_cursor_is_escaped() -> None:
    assert visible_line("a\x1b[2Jb\u202e\r\n") == "a\\x1b[2Jb\\u202e\\r\\n"


def test_without_a_cluster_the_error_says_how_to_have_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nothing")
    assert main(["explain", "p"]) in {2, 3}
    assert "gpufleet up" in capsys.readouterr().err
