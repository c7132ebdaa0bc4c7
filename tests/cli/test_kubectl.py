"""The plugin of kubectl is the same command, and completes as kubectl asks for it."""

import sys

import pytest

from gpufleet.cli import kubectl
from gpufleet.cli.main import COMMANDS, main


def completed(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """What is suggested after these words."""
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-gpufleet", *words])
    assert kubectl.complete() == 0
    *found, directive = capsys.readouterr().out.splitlines()
    assert directive == ":4"
    return [line.partition("\t")[0] for line in found]


def test_commands_and_options_are_suggested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed([""], monkeypatch, capsys) == sorted(COMMANDS)
    assert completed(["expl"], monkeypatch, capsys) == ["explain"]
    assert completed(["explain", "--outp"], monkeypatch, capsys) == ["--output"]


def test_names_are_not_suggested_where_no_cluster_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nothing")
    assert completed(["explain", ""], monkeypatch, capsys) == []


def test_help_names_the_command_as_it_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-gpufleet", "explain", "--help"])
    assert kubectl.plugin() == 0
    assert "Usage: kubectl gpufleet explain" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_lines(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_GPUFLEET_COMPLETE" in capsys.readouterr().out
