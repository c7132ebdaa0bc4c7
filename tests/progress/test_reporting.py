"""What a long step says: what it does, how far it is, and when it will probably end."""

import io
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpufleet.progress import reporting
from gpufleet.progress.durations import Step, expected_s, record
from gpufleet.progress.reporting import ToPerson, bar, elapsed, left

STEP = Step("a step", 300.0)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def told(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, lines: int) -> str:
    """What a step says until it has told of itself so many times."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(reporting, "ON_TERMINAL_S", 0.001)
    monkeypatch.setattr(reporting, "IN_LOG_S", 0.001)
    enough = threading.Event()
    asked = iter(range(lines))

    def detail() -> str:
        if next(asked, None) is None:
            enough.set()
        return "7 of 9"

    with ToPerson("setup: ").during("building it", detail, STEP):
        assert enough.wait(60)
    return stream.getvalue()


def test_in_a_pipe_each_line_stays_and_names_the_expected_end(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = told(monkeypatch, io.StringIO(), 2).splitlines()
    assert first == "setup: building it (about 5 min 00 s)"
    assert len(rest) >= 2
    assert all(
        re.fullmatch(r"setup: building it: \d+ s, 7 of 9, about \d min \d\d s left", one) for one in rest
    )


def test_on_a_terminal_one_line_is_written_over_and_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(monkeypatch, Terminal(), 2)
    assert "\n" not in said
    assert re.search(r"\[\.{20}\] setup: building it: \d+ s, 7 of 9, about \d min \d\d s left", said)
    assert said.endswith("\r\x1b[K")


def test_the_time_that_a_step_took_is_expected_the_next_time() -> None:
    assert expected_s(STEP) == 300
    record(STEP, 42.04)
    assert expected_s(STEP) == 42
    assert expected_s(Step("another", 7.0)) == 7


def test_a_step_that_found_its_work_done_or_failed_says_nothing_of_the_next_time() -> None:
    record(STEP, 0.1)
    with pytest.raises(OSError, match="no room"), ToPerson().during("building it", str, STEP):
        raise OSError("no room")
    assert expected_s(STEP) == 300


@pytest.mark.parametrize("content", ["", "[]", '{"a step": "long"}', '{"a step": -1}', "[" * 100_000, "\xff"])
def test_a_record_that_cannot_be_read_leaves_the_estimate(tmp_path: Path, content: str) -> None:
    (tmp_path / "gpufleet").mkdir()
    (tmp_path / "gpufleet" / "durations.json").write_bytes(content.encode("latin-1"))
    assert expected_s(STEP) == 300
    record(STEP, 5)
    assert expected_s(STEP) == 5


def test_a_cache_that_cannot_be_written_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    record(STEP, 5)
    assert expected_s(STEP) == 300


def test_words_of_time() -> None:
    assert elapsed(42.4) == "42 s"
    assert elapsed(303) == "5 min 03 s"
    assert left(60, 300) == "about 4 min 00 s left"
    assert left(400, 300) == "longer than expected (5 min 00 s)"
    assert bar(150, 300) == "[##########..........] "
    assert bar(900, 300).count("#") == 19
    assert not bar(5, None)


def test_a_program_that_fails_shows_what_it_said_and_its_code() -> None:
    program = [sys.executable, "-c", "print('no such package'); raise SystemExit(7)"]
    line = [sys.executable, "-m", "gpufleet.progress.command", "a step", "30", "installing", *program]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 7
    assert ended.stderr.splitlines() == ["setup: installing (about 30 s)", "no such package"]
    assert not ended.stdout


def test_set_up_tells_its_steps_before_anything_is_installed() -> None:
    """Without site-packages, as a fresh Python is."""
    source = Path(reporting.__file__).parents[2]
    script = f"import sys; sys.path.insert(0, {str(source)!r}); import gpufleet.progress.command"
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_end_follows_what_is_done_where_a_step_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, enough = io.StringIO(), threading.Event()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(reporting, "IN_LOG_S", 0.001)

    def revised(elapsed_s: float, expected_s: float) -> float:
        if "left" in stream.getvalue():
            enough.set()
        return elapsed_s + 3 * expected_s

    with ToPerson("setup: ").during("building it", str, STEP, revised):
        assert enough.wait(60)
    assert "s, about 15 min 00 s left\n" in stream.getvalue()
