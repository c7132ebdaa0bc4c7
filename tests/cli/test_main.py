"""The command line's frame: light to start, clear about errors, and honest in its exit code."""

import subprocess
import sys

import click
import pytest

from gpufleet import __version__
from gpufleet.cli import main as cli
from gpufleet.model.model_errors import InputError, InternalError, WorldError

HEAVY = ("numpy", "numba", "pyarrow", "altair", "rich", "ray", "gpufleet.engine", "gpufleet.replay")


def heavy_modules_after(code: str) -> list[str]:
    """What a fresh Python has imported of the heavy modules after running some code."""
    script = f"import sys\n{code}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()[-1].split()


def test_help_imports_nothing_heavy_and_no_command() -> None:
    code = """
from gpufleet.cli.main import COMMANDS, main
main(["--help"])
assert not [name for name in COMMANDS if "gpufleet.cli." + name in sys.modules]
"""
    assert heavy_modules_after(code) == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(name: str) -> None:
    code = f"from gpufleet.cli.main import main\nassert main([{name!r}, '--help']) == 0"
    assert heavy_modules_after(code) == []


def test_python_dash_m_is_the_same_program() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "gpufleet", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"gpufleet {__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name}" in shown for name in cli.COMMANDS)


def test_a_mistyped_command_is_told_what_was_probably_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["repaly"]) == 2
    assert "No such command 'repaly'. Did you mean 'replay'?" in capsys.readouterr().err


def test_an_unknown_option_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--versoin"]) == 2
    assert "No such option '--versoin'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (
            InputError("not a number", field="cpu_milli", value="x\n", where="pods.csv, row 7"),
            2,
            "gpufleet: pods.csv, row 7, cpu_milli: not a number, found 'x\\n'\n",
        ),
        (click.UsageError("--seeds 44..42 is empty"), 2, "Error: --seeds 44..42 is empty\n"),
        (WorldError("the server does not answer"), 3, "gpufleet: the server does not answer\n"),
        (
            OSError(28, "No space left on device", "out.json"),
            3,
            "gpufleet: out.json: No space left on device; free some space or write elsewhere\n",
        ),
        (KeyboardInterrupt(), 130, "gpufleet: interrupted\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_kind_of_error_ends_in_its_own_way(
    error: BaseException,
    code: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_raising(error, monkeypatch) == code
    printed = capsys.readouterr().err
    assert printed.endswith(shown)
    assert "Traceback" not in printed


@pytest.mark.parametrize("error", [InternalError("a GPU is booked twice"), KeyError("gpu")], ids=repr)
def test_an_error_of_ours_tells_its_story(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_raising(error, monkeypatch) == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert str(error) in printed
    assert "this is a bug in gpufleet" in printed
    assert f"gpufleet {__version__}, Python {sys.version.split()[0]}" in printed


def test_a_command_may_choose_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    add_command(monkeypatch, lambda: 3)
    assert cli.main(["trial"]) == 3


def run_raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command that raises this error."""

    def fail() -> None:
        raise error

    add_command(monkeypatch, fail)
    return cli.main(["trial"])


def add_command(monkeypatch: pytest.MonkeyPatch, callback: object) -> None:
    """Give the command line one more command, for this test."""
    trial = click.Command("trial", callback=callback)  # type: ignore[arg-type]
    monkeypatch.setitem(cli.gpufleet.commands, "trial", trial)
