"""Prometheus' text format, version 0.0.4: families of series, each with labels and a value.

What stands in a label may come from anywhere (a GPU's name, a job's number), so it is escaped as the
format says: a backslash, a quotation mark and a line's end cannot leave their place. A value that is not a
finite number is no value, and a label without a value is no label.
"""

import math
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from gpufleet.model.visible import visible_text

# Prometheus' text format, which every scraper reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind = Literal["gauge", "counter"]
Value = int | float | None

# As the text format has them: a quotation mark ends a value, and not a help text.
_VALUE_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Family(msgspec.Struct, frozen=True):
    """Series of one name. ``help`` is what it means, with its unit."""

    name: str
    kind: Kind
    help: str

    @property
    def header(self) -> str:
        """The lines before its series."""
        return f"# HELP {self.name} {self.help.translate(_HELP_ESCAPES)}\n# TYPE {self.name} {self.kind}\n"


def is_label_name(name: str) -> bool:
    """Whether a label may have this name; two underscores in front are Prometheus' own."""
    return _LABEL_NAME.fullmatch(name) is not None and not name.startswith("__")


def labelled(pairs: Iterable[tuple[str, str]]) -> str:
    """Labels as they stand between braces; those without a value are left out."""
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in pairs if value])


def _escaped(value: str) -> str:
    # Nearly no value needs it, and to look costs a tenth of doing it.
    # Some characters that are printable to Python show nothing.
    if not (value.isascii() and value.isprintable()):
        value = visible_text(value)
    if '"' in value or "\\" in value or "\n" in value:
        return value.translate(_VALUE_ESCAPES)
    return value


def series(name: str, labels: str, value: Value) -> str:
    """The line of one series; empty where there is no value."""
    shown = number(value)
    return f"{name}{{{labels}}} {shown}\n" if shown else ""


def number(value: Value) -> str:
    """A value as it is written; empty for none."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(int(value))
    return repr(value) if math.isfinite(value) else ""


def encoded(text: str) -> bytes:
    """The text as bytes; what is no character (half of a pair) becomes a question mark."""
    return text.encode("utf-8", "replace")
