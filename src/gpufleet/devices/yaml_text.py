"""YAML from people, read strictly and in bounded time and memory.

PyYAML, which every other loader of this project stands on, takes the last of two equal keys, lets nine lines
of aliases grow to gigabytes, and reads ``no`` as false and ``010`` as eight. Such a file says something else
than its writer meant, and no error says so. So values are built here from the parser's events, and refused
are: a key written twice, what is larger or deeper than any person writes, tags, and every plain word that
YAML 1.1 and 1.2 read differently. ``documents`` makes typed values of it.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

import yaml

from gpufleet.model.model_errors import InputError, printable

SIZE_MAX_BYTES = 256 * 1024
"""A configuration by hand has a few kilobytes."""

VALUES_MAX = 20_000
"""Values of a document, those that aliases repeat counted each time."""

DEPTH_MAX = 32
"""Configurations are nested some ten levels deep; the bound keeps recursion small."""

# The one in C is some ten times as fast, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# YAML 1.2's core schema, by the tag that YAML 1.1 gives the same meaning.
_CORE = (
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")),
    ("float", re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")),
)
_ONE_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})|0x[0-9a-fA-F]{1,16}")


EXPECTED = "YAML in UTF-8"


def read_yaml(text: str | bytes, where: str, refusal: type[InputError]) -> object:
    """The values of one YAML document; None if it is empty. Raises ``refusal`` with place and reason."""
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise refusal("not text", where=where, expected="UTF-8") from error
    if len(data) > SIZE_MAX_BYTES:
        # The reader of the file may have stopped at the limit, so the whole length is not known.
        problem = f"longer than {SIZE_MAX_BYTES} bytes"
        raise refusal(problem, expected="a text of that length", where=where)
    try:
        return _Document(yaml.parse(data, Loader=_LOADER), where, refusal).read()
    except yaml.MarkedYAMLError as error:
        place = _line(error.problem_mark or error.context_mark)
        raise refusal(f"not YAML: {error.problem}{place}", where=where, expected=EXPECTED) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise refusal(f"not YAML: {' '.join(str(error).split())}", where=where, expected=EXPECTED) from error


class _Document:
    """What has been read of one document."""

    def __init__(self, events: Iterator[yaml.Event], where: str, refusal: type[InputError]) -> None:
        self.events = events
        self.where = where
        self.refusal = refusal
        self.path: list[str] = []
        self.values = 0
        self.anchors: dict[str, tuple[object, int]] = {}

    def read(self) -> object:
        """The one document's value."""
        found: object = None
        count = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                count += 1
                if count > 1:
                    self.refuse("several documents in one file", event, "one document")
            elif isinstance(event, yaml.NodeEvent):
                found = self.value(event)
        return found

    def value(self, event: yaml.NodeEvent) -> object:
        """The value that begins with this event."""
        before = self.values
        if isinstance(event, yaml.AliasEvent):
            return self.aliased(event)
        self.count(1, event)
        if event.tag not in (None, "!"):
            self.refuse(f"has the tag {printable(event.tag)}", event, "a plain value")
        if isinstance(event, yaml.ScalarEvent):
            found = self.scalar(event)
        elif len(self.path) >= DEPTH_MAX:
            self.refuse("nested too deep", event, f"at most {DEPTH_MAX} levels")
        elif isinstance(event, yaml.SequenceStartEvent):
            found = self.sequence()
        else:
            found = self.mapping()
        # The number of its values is kept too: each alias counts as all that it repeats.
        if event.anchor is not None:
            self.anchors[event.anchor] = (found, self.values - before)
        return found

    def aliased(self, event: yaml.AliasEvent) -> object:
        """What the anchor stands for, counted as if it were written out."""
        if event.anchor not in self.anchors:
            self.refuse(f"no value is called {printable(event.anchor)}", event, "an anchor above it")
        found, weight = self.anchors[event.anchor]
        self.count(weight, event)
        return found

    def sequence(self) -> list[object]:
        """A list, up to its end."""
        found: list[object] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            self.path.append(f"[{len(found)}]")
            found.append(self.value(event))
            self.path.pop()
        return found

    def mapping(self) -> dict[str, object]:
        """A mapping, up to its end."""
        found: dict[str, object] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self.value(event)
            if not isinstance(key, str):
                self.refuse(f"{printable(key)} is no name of a field", event, "text, in quotes if need be")
            self.path.append(f".{key}" if self.path else key)
            if key in found:
                self.refuse("is written twice", event, "each field once")
            found[key] = self.value(next(self.events))
            self.path.pop()
        return found

    def scalar(self, event: yaml.ScalarEvent) -> object:
        """Text, a number, a truth value or nothing, where both versions of YAML agree on which."""
        text: str = event.value
        if not event.implicit[0]:
            return text
        old, new = _tag_of_old_yaml(text), _tag(text)
        # Both versions read 010 as a number, the old one as eight and the new one as ten.
        if old != new or (new == "int" and not _ONE_INT.fullmatch(text)):
            self.refuse(
                f"{printable(text)} means different things to different readers of YAML",
                event,
                "true or false, a plain decimal number, or text in quotes",
            )
        return _plain_value(text, new)

    def count(self, values: int, event: yaml.Event) -> None:
        """Count values towards the limit."""
        self.values += values
        if self.values > VALUES_MAX:
            self.refuse("too many values", event, f"at most {VALUES_MAX}, those behind aliases included")

    def refuse(self, problem: str, event: yaml.Event, expected: str) -> NoReturn:
        """Raises the refusal, with the field and the line."""
        field = "".join(self.path)
        raise self.refusal(
            problem + _line(event.start_mark), field=field, expected=expected, where=self.where
        )


def _tag(text: str) -> str:
    return next((tag for tag, pattern in _CORE if pattern.fullmatch(text)), "str")


def _tag_of_old_yaml(text: str) -> str:
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers
    for tag, pattern in (*resolvers.get(text[:1], ()), *resolvers.get(None, ())):
        if pattern.match(text):
            return str(tag).rpartition(":")[2]
    return "str"


def _plain_value(text: str, tag: str) -> object:
    match tag:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 16 if text.startswith("0x") else 10)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            return text


def _line(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f" (line {mark.line + 1})"
