"""A command that works on a cluster says what takes long, and how long it compiles kernels if it has to."""

import io
import re
import sys
import threading
import time
from pathlib import Path

import numba
import pytest

from gpufleet.cluster import progress
from gpufleet.cluster.progress import ENGINE, Progress
from gpufleet.progress import reporting
from tests.progress.test_reporting import Terminal

LIMIT_S = 60


@pytest.fixture(autouse=True)
def _soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(progress, "PATIENCE_S", 0.001)
    monkeypatch.setattr(progress, "CACHE_FOLDER", tmp_path / "kernels")
    monkeypatch.setattr(reporting, "ON_TERMINAL_S", 0.001)
    monkeypatch.setattr(reporting, "IN_LOG_S", 0.001)


def said(stream: io.StringIO, words: str) -> None:
    """Return when the stream has the words."""
    limit_s = time.monotonic() + LIMIT_S
    while words not in stream.getvalue():
        assert time.monotonic() < limit_s, stream.getvalue()
        threading.Event().wait(0.001)


def compiles_one() -> None:
    """What the first question does for each kernel."""
    numba.njit(lambda number: number + 1)(1)


def test_in_a_pipe_a_compilation_is_one_line_with_the_expected_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress() as told:
        told.say("reading the cluster")
        said(stream, "gpufleet: reading the cluster ...\n")
        told.say(ENGINE)
        compiles_one()
        compiles_one()
        told.say("looking for moves")
        said(stream, "gpufleet: looking for moves ...\n")
    lines = [line for line in stream.getvalue().splitlines() if "compiling" in line]
    assert lines == ["gpufleet: compiling the engine's kernels, once for this version (about 1 min 00 s)"]


def test_on_a_terminal_a_bar_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress() as told:
        told.say(ENGINE)
        compiles_one()
        said(stream, "1 of about ")
    shown = stream.getvalue()
    assert re.search(
        r"\[\.{20}\] gpufleet: compiling the engine's kernels, once for this version: 0 s", shown
    )
    assert "s left" in shown
    assert shown.endswith("\r\x1b[K")


def test_an_engine_whose_kernels_are_there_is_said_to_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress() as told:
        told.say(ENGINE)
        said(stream, "gpufleet: asking the engine ...\n")
    assert "compiling" not in stream.getvalue()


def test_where_most_kernels_are_in_the_cache_the_rest_is_said_to_take_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    (tmp_path / "kernels" / "module").mkdir(parents=True)
    for number in range(progress.KERNELS):
        (tmp_path / "kernels" / "module" / f"kernel-{number}.nbi").touch()
    with Progress() as told:
        told.say(ENGINE)
        compiles_one()
        said(stream, "once for this version (about 5 s)\n")
