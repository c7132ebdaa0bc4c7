"""Logs: one JSON object a line for machines, a short line for people."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gpufleet.daemon.json_log import set_up_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_record_is_one_line_of_json_with_what_extra_named() -> None:
    stream = io.StringIO()
    set_up_logging("info", json=True, stream=stream)
    logging.getLogger("gpufleet.test").warning("a bind did not happen", extra={"pod": "team-a/x", "tries": 2})
    line = json.loads(stream.getvalue())
    assert line["time"].endswith("Z")
    assert {key: line[key] for key in ("level", "logger", "message", "pod", "tries")} == {
        "level": "warning",
        "logger": "gpufleet.test",
        "message": "a bind did not happen",
        "pod": "team-a/x",
        "tries": 2,
    }


def test_a_newline_in_a_message_forges_no_line() -> None:
    stream = io.StringIO()
    set_up_logging("info", json=True, stream=stream)
    logging.getLogger("x").error("first\n{}", extra={"pod": 'a"\nb'})
    assert len(stream.getvalue().splitlines()) == 1


def test_an_exception_travels_with_its_record() -> None:
    stream = io.StringIO()
    set_up_logging("info", json=True, stream=stream)
    try:
        int("boom")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["exception"]


def test_on_a_terminal_a_record_is_short() -> None:
    stream = io.StringIO()
    set_up_logging("info", json=False, stream=stream)
    logging.getLogger("x").info("leading", extra={"epoch": 3})
    assert stream.getvalue()[8:] == " INFO    leading  epoch=3\n"


def test_what_is_below_the_level_is_not_written() -> None:
    stream = io.StringIO()
    set_up_logging("warning", json=True, stream=stream)
    logging.getLogger("x").info("quiet")
    assert stream.getvalue() == ""


def test_what_another_library_notes_in_every_record_is_left_out() -> None:
    class Noted(logging.LogRecord):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[arg-type]
            self._somebodys_time = 1

    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(Noted)
    try:
        stream = io.StringIO()
        set_up_logging("info", json=True, stream=stream)
        logging.getLogger("x").info("leading", extra={"epoch": 3})
    finally:
        logging.setLogRecordFactory(before)
    assert set(json.loads(stream.getvalue())) == {"time", "level", "logger", "message", "epoch"}
