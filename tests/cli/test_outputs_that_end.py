"""What a command prints may meet a full disk, a reader that has left, or Ctrl-C: each has its own end."""

import subprocess
import sys

import pytest

from gpufleet.cli.main import ExitCode, main, run_program
from tests.cli.command_parameters import PROGRAMS, commands

# Each prints without a cluster; --help is printed by all.
PRINTING = ["fit --list", "doctor --checks", "lint --rules", "completion bash", "fit llama-3.1-8b -o json"]


def run_with_output(line: str, output: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with standard output as the shell makes it."""
    command = f"set -o pipefail; {sys.executable} -m gpufleet {line} {output}"
    return subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("line", ["lint --help", *PRINTING])
def test_a_full_disk_is_told_in_one_line(line: str) -> None:
    ended = run_with_output(line, "> /dev/full")
    assert ended.returncode == ExitCode.WORLD_FAILED
    assert ended.stderr.splitlines() == [
        "gpufleet: what it writes or reads: No space left on device; free some space or write elsewhere"
    ]


@pytest.mark.parametrize("line", ["lint --help", *PRINTING])
def test_a_reader_that_leaves_ends_the_command_quietly(line: str) -> None:
    ended = run_with_output(line, "| true")
    assert ended.returncode in {0, ExitCode.READER_LEFT}
    assert not ended.stderr


@pytest.mark.parametrize("name", commands())
def test_ctrl_c_ends_every_command_with_one_word(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands()[name]

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "callback", interrupted)
    for parameter in command.params:
        monkeypatch.setattr(parameter, "required", False)
    ended = run_program(command, [], program=name) if name in PROGRAMS else main(name.split())
    assert ended == ExitCode.INTERRUPTED
    assert capsys.readouterr().err.strip() == "gpufleet: interrupted"
