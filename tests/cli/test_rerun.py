"""``gpufleet rerun``: a saved log gives the same bytes, and what was changed in it is found."""

import gzip
import json
from pathlib import Path

import pytest

from gpufleet.cli import main as cli
from tests.replay.small_traces import small_files


def logged(folder: Path, name: str, *options: str) -> Path:
    """The log of one small run."""
    nodes, tasks = small_files(folder)
    path = folder / name
    arguments = [
        "--nodes",
        str(nodes),
        "--pods",
        str(tasks),
        "--log",
        str(path),
        "--quiet",
        "--jobs",
        "1",
        *options,
    ]
    assert cli.main(["replay", *arguments]) == 0
    return path


@pytest.mark.parametrize("mode", ["saturate", "timeline"])
@pytest.mark.parametrize("policy", ["gpufleet", "fgd", "random"])
@pytest.mark.parametrize("name", ["run.log", "run.log.gz"])
def test_every_step_comes_out_the_same(
    name: str, policy: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logged(tmp_path, name, "--policy", policy, "--mode", mode)
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    assert cli.main(["rerun", str(path)]) == 0
    steps = len(content.splitlines()) - 1
    assert capsys.readouterr().out == f"{steps} steps, every decision the same\n"


def test_equal_runs_write_equal_logs(tmp_path: Path) -> None:
    first, second = (
        logged(tmp_path, name, "--policy", "gpufleet").read_bytes() for name in ("a.log.gz", "b.log.gz")
    )
    assert first == second


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    return logged(tmp_path, "whole.log", "--policy", "best-fit").read_bytes().splitlines(keepends=True)


def rerun_of(lines: list[bytes], folder: Path) -> int:
    (folder / "changed.log").write_bytes(b"".join(lines))
    return cli.main(["rerun", str(folder / "changed.log")])


def test_another_decision_is_found(
    lines: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = next(place for place, line in enumerate(lines) if b'"instruction":"bind"' in line)
    lines[place] = lines[place].replace(b'"node":"n', b'"node":"m')
    assert rerun_of(lines, tmp_path) == 1
    first, saved, now = capsys.readouterr().err.splitlines()
    assert first.endswith(f"changed.log, line {place + 1}: decided otherwise than saved")
    assert saved == f"  saved: {lines[place].decode().rstrip()}"
    assert now.startswith('  now:   {"at_us":')


def test_any_changed_byte_of_a_decision_is_found(lines: list[bytes], tmp_path: Path) -> None:
    """Each byte in turn becomes another. (An event that another event could stand for may change.)"""
    place = next(place for place, line in enumerate(lines) if b'"instruction":"bind"' in line)
    line = lines[place]
    for byte in range(line.index(b'"instructions"'), len(line) - 1):
        changed = bytes([line[byte] ^ 1])
        whole = [*lines[:place], line[:byte] + changed + line[byte + 1 :], *lines[place + 1 :]]
        assert rerun_of(whole, tmp_path) in {1, 2}, (byte, line[byte : byte + 1], changed)


def test_a_missing_step_is_found(lines: list[bytes], tmp_path: Path) -> None:
    """Whoever took the place of a task that is gone is decided upon otherwise."""
    place = next(place for place, line in enumerate(lines) if b'"instruction":"bind"' in line)
    assert rerun_of([*lines[:place], *lines[place + 1 :]], tmp_path) == 1


def test_a_log_of_another_version_says_so(
    lines: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = json.loads(lines[0])
    lines[0] = json.dumps(header | {"version": "0.0.7", "policy": "random"}).encode() + b"\n"
    assert rerun_of(lines, tmp_path) == 1
    assert "saved by gpufleet 0.0.7, this is " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty log"),
        (b"hello\n", "line 1: not a log of the engine"),
        (b'{"log":"other/v9","version":"1","policy":"fgd","seed":1}\n', "unknown format"),
        (
            b'{"log":"gpufleet.io/engine-log/v1","version":"0.3","policy":"fgd","seed":1}\n',
            "decided by the rules of an earlier version; gpufleet 0.3 can run it again",
        ),
        (
            b'{"log":"gpufleet.io/engine-log/v2","version":"0.4","policy":"fgd","seed":1}\n',
            "decided by the rules of an earlier version; gpufleet 0.4 can run it again",
        ),
        (b"\x1f\x8bno gzip", "the log cannot be read"),
        (gzip.compress(b"x" * 99999)[:-20], "the log cannot be read"),
        (b"[" * 100_000 + b"\n", "line 1"),
    ],
)
def test_what_is_no_log_is_bad_input(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.log").write_bytes(content)
    assert cli.main(["rerun", str(tmp_path / "x.log")]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_a_log_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rerun", str(tmp_path / "no.log")]) == 2
    said = capsys.readouterr().err
    assert "LOG: is not there" in said
    assert "no.log" in said


def test_a_line_that_is_no_step_is_named(
    lines: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines[3] = b'{"at_us": "soon"}\n'
    assert rerun_of(lines, tmp_path) == 2
    assert "line 4: not a step" in capsys.readouterr().err


def test_time_that_goes_back_is_bad_input(
    lines: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines[3], lines[4] = lines[4], lines[3]
    assert rerun_of(lines, tmp_path) in {1, 2}
    assert "Traceback" not in capsys.readouterr().err
