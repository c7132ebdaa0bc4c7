"""A long step in a daemon's log: its beginning, how far it is, its end, and what a reader makes of them."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.daemon.json_log import JsonFormatter
from gpufleet.progress import logged
from gpufleet.progress.durations import Step, expected_s
from gpufleet.progress.logged import ToLog, UnderWay, under_way

STEP = Step("a step", 35.0)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger as a daemon has it, and what it wrote."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("tests.progress.logged")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def test_a_step_is_under_way_from_its_beginning_to_its_end(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    assert under_way(stream.getvalue()) is None
    with ToLog(logger).during("compiling", lambda: "7 of 9", STEP):
        assert under_way(stream.getvalue()) == UnderWay("compiling", "", 35.0)
        logger.info("something else")
        assert under_way(stream.getvalue()) == UnderWay("compiling", "", 35.0)
    assert under_way(stream.getvalue()) is None


def test_how_far_it_is_stands_in_the_log_too(
    log: tuple[logging.Logger, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, stream = log
    monkeypatch.setattr(logged, "IN_LOG_S", 0.001)
    with ToLog(logger).during("compiling", lambda: "7 of 9"):
        while (now := under_way(stream.getvalue())) is None or not now.so_far:
            pass
    assert now == UnderWay("compiling", "7 of 9", None)
    first, *_, last = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["step"]) == ("compiling", "begins")
    assert (last["message"], last["step"]) == ("compiling", "ends")


def test_a_step_that_fails_ends_too(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    with pytest.raises(OSError, match="no room"), ToLog(logger).during("compiling", str, STEP):
        raise OSError("no room")
    assert under_way(stream.getvalue()) is None


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "[" * 100_000, '{"step": 7}', '{"step": "begins'])
def test_lines_of_other_kinds_say_nothing(text: str) -> None:
    assert under_way(text) is None


def test_a_step_that_found_most_of_its_work_done_says_nothing_of_the_next_time(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    step = Step("kernels", 35.0, least_s=10)
    with ToLog(log[0]).during("compiling", str, step):
        pass
    assert expected_s(step) == 35
