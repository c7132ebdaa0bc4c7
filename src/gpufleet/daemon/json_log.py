"""Logs as one JSON object a line, for machines, or as plain lines, for a terminal.

Messages hold no secrets and no raw text of users: what comes from an object of the cluster goes
through ``model.model_errors.printable`` before it gets here.
"""

import datetime as dt
import json
import logging
import sys
from typing import TextIO

import msgspec

from gpufleet.model.visible import visible_json, visible_line, visible_text

_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The fields that every log record has; all others came from ``extra``."""


def _named(record: logging.LogRecord) -> dict[str, object]:
    """What ``extra`` named; what begins with an underline is another library's own note to itself."""
    return {key: value for key, value in vars(record).items() if key not in _PLAIN and key[0] != "_"}


class JsonFormatter(logging.Formatter):
    """A record as JSON: time, level, logger, message, and whatever ``extra`` named."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _named(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            text = msgspec.json.encode(line, enc_hook=str).decode()
        except UnicodeEncodeError:
            # Half of a pair has no bytes of its own.
            text = json.dumps(line, default=str)
        return visible_json(text)


class TerminalFormatter(logging.Formatter):
    """A record as a short line for people, with what ``extra`` named behind it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and the trace of an exception below it."""
        moment = dt.datetime.fromtimestamp(record.created).astimezone()
        named = "  ".join(f"{key}={value}" for key, value in _named(record).items())
        line = visible_line(f"{moment:%H:%M:%S} {record.levelname:7} {record.getMessage()}  {named}".rstrip())
        if not record.exc_info:
            return line
        return f"{line}\n{visible_text(self.formatException(record.exc_info))}"


def log_as_asked(level: str, log_format: str | None) -> None:
    """Send all logs to stderr, as "text" or "json"; unless told, as text on a terminal and JSON elsewhere."""
    chosen = log_format or ("text" if sys.stderr.isatty() else "json")
    set_up_logging(level, json=chosen == "json")


def set_up_logging(level: str, *, json: bool, stream: TextIO | None = None) -> None:
    """Send all logs of this process to ``stream`` (stderr), in one of the two forms."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json else TerminalFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
