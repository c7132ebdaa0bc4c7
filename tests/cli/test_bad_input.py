"""Every parameter of every command refuses every kind of bad value: in a few lines, by name, with a way out.

The commands are asked for their parameters, so none can be forgotten. What is refused ends with code 2.
"""

import ctypes
import re
import signal
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from gpufleet.cli import parameters as kinds
from gpufleet.cli.main import ExitCode, main, run_program
from tests.cli.bad_texts import TEXTS
from tests.cli.command_parameters import (
    LINES,
    PROGRAMS,
    Parameter,
    commands,
    line_with,
    parameters,
    write_good_files,
)

PARAMETERS = list(parameters())
NUMBERS = [one for one in PARAMETERS if isinstance(one.asked.type, click.IntRange | click.FloatRange)]
CHOICES = [one for one in PARAMETERS if isinstance(one.asked.type, kinds.OneOf)]
INPUTS = [
    one
    for one in PARAMETERS
    if isinstance(one.asked.type, kinds.InputFile | kinds.InputPath | kinds.LogParameter)
]
FOLDERS = [one for one in PARAMETERS if isinstance(one.asked.type, kinds.InputFolder)]
OUTPUTS = [one for one in PARAMETERS if isinstance(one.asked.type, kinds.OutputFile | kinds.OutputFolder)]
OWN_TYPES = (kinds.Whole, kinds.Real, kinds.OneOf, kinds.GivenPath, kinds.LogParameter)
PATIENCE_S = 60
"""No refusal waits for anything; a daemon that takes the value would run for ever."""

LINES_MAX = 5
CHARACTERS_MAX = 1500
WAYS_OUT = re.compile(r"expected|did you mean|one of|write |name ")

# Read before all other files, whatever else is named.
FIRST_NEEDS = {
    "advise sharing --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "advise sharing --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "lint --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "lint --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "top --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "top --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "metrics --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "metrics --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "operator --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "project delete --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "project delete --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "operator --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "operator --jupyterhub-token-file": "--jupyterhub https://127.0.0.1:1 --jupyterhub-namespace n",
    "operator --jupyterhub-ca-file": "--jupyterhub https://127.0.0.1:1",
    "cost --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "ledger --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "ledger --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "cost --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "web --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "web --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "plan --prometheus-token-file": "--prometheus https://127.0.0.1:1",
    "plan --prometheus-ca-file": "--prometheus https://127.0.0.1:1",
    "plan --history": "--nodes nodes.csv",
    "plan --nodes": "--history tasks.csv",
    "plan --out": "--history tasks.csv --nodes nodes.csv",
    "fit --kubeconfig": "--cluster",
    "lint --kubeconfig": "--live",
    "import --kubeconfig": "",
    "scheduler --metrics-certificate": "--metrics-key key.pem",
    "scheduler --metrics-key": "--metrics-certificate certificate.pem",
    "agent --metrics-certificate": "--metrics-key key.pem",
    "agent --metrics-key": "--metrics-certificate certificate.pem",
    "web --certificate": "--key key.pem",
    "web --key": "--certificate certificate.pem",
}
EXCLUDED_BY = {
    "advise sharing --prometheus-token-file": "use.csv",
    "advise sharing --prometheus-ca-file": "use.csv",
    "import --kubeconfig": "manifest.yaml",
    "cost --kubeconfig": "seen.ledger",
    "whatif --snapshot": "--kubeconfig",
    "plan --snapshot": "--kubeconfig",
    "plan --history": "--kubeconfig",
    "plan --nodes": "--kubeconfig",
    "plan --out": "--kubeconfig",
    "plan --prometheus-token-file": "--kubeconfig",
    "plan --prometheus-ca-file": "--kubeconfig",
    "mig plan --snapshot": "--kubeconfig",
    "defragment --snapshot": "--kubeconfig",
    "drain --snapshot": "--kubeconfig",
}


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with good files, and nothing of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("gpufleet.localkube.up.up", go_on)
    write_good_files(tmp_path)


def go_on(*_: object) -> None:
    """No value that ought to be refused may start a cluster."""
    raise AssertionError("the command goes on as if the value were good")


class Ended(NamedTuple):
    """How a command ended, and what it said on standard error."""

    code: int
    said: str


@contextmanager
def limited_time() -> Iterator[None]:
    """A command that waits for something is a failure."""

    def too_long(_signal: int, _frame: types.FrameType | None) -> None:
        raise TimeoutError("the command goes on as if the value were good")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(line: list[str], capsys: pytest.CaptureFixture[str]) -> Ended:
    program = PROGRAMS.get(line[0])
    with limited_time():
        code = main(line) if program is None else run_program(program, line[1:], program=line[0])
    return Ended(code, capsys.readouterr().err)


def assert_refused(ended: Ended, parameter: Parameter, value: str) -> None:
    """Code 2, and a few lines with the parameter, the value and a way out."""
    code, said = ended
    assert "Traceback" not in said, said
    assert code == ExitCode.BAD_INPUT, said
    assert len(said) <= CHARACTERS_MAX
    assert len(said.splitlines()) <= LINES_MAX, said
    assert "[Errno" not in said
    assert names_parameter(parameter, said, value), f"the parameter is not named as it is typed: {said}"
    shown = ascii(value[:30])[1:-1]
    part = re.search(r"found '(.+?)'", said)
    names_value = shown in said or value[:30] in said or (part is not None and part[1] in value)
    assert names_value, f"the value is not named: {said}"
    assert WAYS_OUT.search(said), f"no way out: {said}"


def names_parameter(parameter: Parameter, said: str, value: str) -> bool:
    """Whether an option is named with its dashes; an argument is known by its name or its value."""
    if isinstance(parameter.asked, click.Option):
        return re.search(rf"(?<![\w-]){re.escape(parameter.name)}(?![\w-])", said) is not None
    return parameter.name in said or value in said


def test_every_command_has_its_line() -> None:
    assert set(LINES) == set(commands())


def test_every_parameter_is_of_a_type_that_refuses_or_its_bad_texts_are_listed() -> None:
    texts = {str(one) for one in PARAMETERS if not isinstance(one.asked.type, OWN_TYPES)}
    assert texts == set(TEXTS), "list it in bad_texts.py, or give it a type of cli.parameters"


@pytest.mark.parametrize("value", ["many", "nan", "inf", "1e999", "", "9" * 40, "0x10"])
@pytest.mark.parametrize("parameter", NUMBERS, ids=str)
def test_what_is_no_number_is_refused(
    parameter: Parameter, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(run(line_with(parameter, value), capsys), parameter, value)


@pytest.mark.parametrize("parameter", NUMBERS, ids=str)
def test_numbers_beyond_the_range_are_refused_with_the_range(
    parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = parameter.asked.type
    assert isinstance(asked, click.IntRange | click.FloatRange)
    assert asked.min is not None
    assert asked.max is not None, "a number without an upper bound makes a command run without end"
    for number in (asked.min - 1, asked.max + 1):
        ended = run(line_with(parameter, str(number)), capsys)
        assert_refused(ended, parameter, str(number))
        assert f"{asked.max:,g}" in ended.said or f"{asked.max:,}" in ended.said


@pytest.mark.parametrize("parameter", CHOICES, ids=str)
def test_the_nearest_word_is_proposed(parameter: Parameter, capsys: pytest.CaptureFixture[str]) -> None:
    asked = parameter.asked.type
    assert isinstance(asked, kinds.OneOf)
    longest = max(asked.choices, key=len)
    ended = run(line_with(parameter, longest[:-1]), capsys)
    assert_refused(ended, parameter, longest[:-1])
    assert f"did you mean {longest}?" in ended.said
    assert all(word in ended.said for word in asked.choices)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [(one, text) for one in PARAMETERS for text in TEXTS.get(str(one), TEXTS["replay --ray"]).texts],
    ids=lambda one: str(one)[:40],
)
def test_bad_texts_are_refused(parameter: Parameter, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = TEXTS[str(parameter)]
    assert_refused(run(line_with(parameter, value, row.needs, row.without), capsys), parameter, value)


def absent(_: Path) -> str:
    return "absent/file"


def misspelt(folder: Path) -> str:
    (folder / "cluster-file.yaml").touch()
    return "cluster-fiel.yaml"


def folder(place: Path) -> str:
    (place / "a-folder").mkdir()
    return "a-folder"


def below_a_file(_: Path) -> str:
    return "manifest.yaml/file"


def unreadable(place: Path) -> str:
    (place / "locked").write_text("x: 1\n", encoding="utf-8")
    (place / "locked").chmod(0)
    return "locked"


def binary(place: Path) -> str:
    (place / "binary").write_bytes(bytes(range(256)) * 8)
    return "binary"


def latin(place: Path) -> str:
    (place / "latin").write_bytes("name: Größe\n".encode("latin-1"))
    return "latin"


def empty(place: Path) -> str:
    (place / "nothing").touch()
    return "nothing"


def broken_yaml(place: Path) -> str:
    (place / "broken.yaml").write_text("a: [1, {b: \n- c", encoding="utf-8")
    return "broken.yaml"


def broken_json(place: Path) -> str:
    (place / "broken.json").write_text('{"a": [1, 2', encoding="utf-8")
    return "broken.json"


@contextmanager
def obeying_modes() -> Iterator[None]:
    """Root reads every file; without the two capabilities for it, modes count for root too."""
    version, override_and_search, mask = 0x20080522, (1 << 1) | (1 << 2), 0xFFFFFFFF
    system = ctypes.CDLL(None)
    head = (ctypes.c_uint32 * 2)(version, 0)
    before, without = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    assert system.capget(head, before) == 0
    for place, word in enumerate(before):
        without[place] = word if place else word & ~override_and_search & mask
    assert system.capset(head, without) == 0
    try:
        yield
    finally:
        assert system.capset(head, before) == 0


def refused_path(parameter: Parameter, value: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a path that is refused."""
    name = str(parameter)
    line = line_with(parameter, value, FIRST_NEEDS.get(name, ""), EXCLUDED_BY.get(name, ""))
    ended = run(line, capsys)
    assert_refused(ended, parameter, value)
    return ended.said


@pytest.mark.parametrize("make", [absent, misspelt, below_a_file])
@pytest.mark.parametrize("parameter", [*INPUTS, *FOLDERS], ids=str)
def test_a_path_to_nothing_is_refused(
    tmp_path: Path, parameter: Parameter, make: types.FunctionType, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused_path(parameter, make(tmp_path), capsys)
    assert "is not there" in said
    if make is misspelt:
        assert "did you mean cluster-file.yaml?" in said


@pytest.mark.parametrize("parameter", INPUTS, ids=str)
def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    value = unreadable(tmp_path)
    with obeying_modes():
        said = refused_path(parameter, value, capsys)
    assert "may not be read by this user" in said


@pytest.mark.parametrize("parameter", INPUTS, ids=str)
def test_a_folder_in_place_of_a_file_is_refused(
    tmp_path: Path, parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    value = folder(tmp_path)
    if isinstance(parameter.asked.type, kinds.InputPath):
        assert parameter.command in {"lint", "scenario run"}, "these read folders"
    else:
        assert "is a folder" in refused_path(parameter, value, capsys)


@pytest.mark.parametrize("parameter", FOLDERS, ids=str)
def test_a_file_in_place_of_a_folder_is_refused(
    parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no folder" in refused_path(parameter, "manifest.yaml", capsys)


MAY_BE = {
    ("lint PATH", empty): "a file with comments only is no fault, and a word says that it is empty",
    ("plan --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("lint --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("cost --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("ledger --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("top --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("metrics --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("operator --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("operator --jupyterhub-token-file", broken_json): "a line of ASCII may be a token",
    ("project delete --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("web --prometheus-token-file", broken_json): "a line of ASCII may be a token",
    ("advise sharing --prometheus-token-file", broken_json): "a line of ASCII may be a token",
}


@pytest.mark.parametrize("make", [binary, latin, empty, broken_yaml, broken_json])
@pytest.mark.parametrize("parameter", INPUTS, ids=str)
def test_a_file_with_something_else_in_it_is_refused(
    tmp_path: Path, parameter: Parameter, make: types.FunctionType, capsys: pytest.CaptureFixture[str]
) -> None:
    if (str(parameter), make) in MAY_BE:
        return
    refused_path(parameter, make(tmp_path), capsys)


@pytest.mark.parametrize("parameter", OUTPUTS, ids=str)
def test_an_output_that_cannot_be_is_refused_before_any_work(
    tmp_path: Path, parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    values = ["manifest.yaml/file"]
    if isinstance(parameter.asked.type, kinds.OutputFile):
        values += ["absent/file", folder(tmp_path), "/dev/full"]
    else:
        values += ["manifest.yaml", "/dev/full"]
    for value in values:
        said = refused_path(parameter, value, capsys)
        assert "folder" in said or "regular file" in said


@pytest.mark.parametrize("parameter", OUTPUTS, ids=str)
def test_an_output_that_this_user_may_not_write_fails_before_any_work(
    tmp_path: Path, parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "locked-folder"
    place.mkdir(mode=0o555)
    with obeying_modes():
        name = str(parameter)
        line = line_with(
            parameter, "locked-folder/file", FIRST_NEEDS.get(name, ""), EXCLUDED_BY.get(name, "")
        )
        code, said = run(line, capsys)
    assert code == ExitCode.WORLD_FAILED, said
    assert "locked-folder" in said
    assert "write elsewhere" in said or "name another" in said
