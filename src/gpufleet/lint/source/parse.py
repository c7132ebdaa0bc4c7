"""Nodes out of YAML or JSON, read from the parser's events in bounded time, memory and depth.

The composer of PyYAML would lose duplicate keys, recurse as deep as a hostile text asks, and let
aliases grow without end; so nodes are built here. ``fields`` walks what comes out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import yaml

from gpufleet.lint.source.nodes import Mapping, Node, Scalar, Sequence, Style
from gpufleet.lint.source.text import Position, Problem, SourceText
from gpufleet.model.model_errors import printable

DEPTH_MAX = 150
"""The parser calls itself for each level, and Python's stack is limited."""

VALUES_MAX = 1_000_000
"""Values of a text, those that aliases repeat counted each time."""

RENDER_FIRST = "; a template is read once it is rendered: helm template CHART | gpufleet lint -"
"""What to do with a malformed text that has the braces of templates."""

# The one in C is some ten times as fast, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STYLES = {None: Style.PLAIN, "": Style.PLAIN, "'": Style.QUOTED, '"': Style.QUOTED}
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")


@dataclass(frozen=True)
class Parsed:
    """The documents of a text, what was malformed, and the spans that aliases repeat elsewhere."""

    documents: tuple[Node, ...]
    problems: tuple[Problem, ...]
    repeated: tuple[tuple[int, int], ...] = ()

    def is_repeated(self, offset: int) -> bool:
        """Whether what stands at this offset also stands elsewhere, by an alias."""
        return any(start <= offset < end for start, end in self.repeated)


class _MalformedError(Exception):
    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


def parse(source: SourceText) -> Parsed:
    """All documents of the text up to the first place where it is malformed."""
    reader = _Reader(source)
    documents: list[Node] = []
    try:
        for document in reader.documents():
            documents.append(document)  # noqa: PERF402  those before a malformed one are kept
    except _MalformedError as found:
        place, reason = source.position(found.offset), found.reason
    except yaml.MarkedYAMLError as found:
        mark = found.problem_mark or found.context_mark
        # The parser points behind the end where something was not closed.
        place = source.position(min(mark.index, len(source.text)) if mark else 0)
        reason = "not YAML: " + ", ".join(part for part in (found.context, found.problem) if part)
    except yaml.reader.ReaderError as found:
        place, reason = _unprintable(source, found)
    else:
        return Parsed(tuple(documents), (), tuple(reader.repeated))
    if "{{" in source.text:
        reason += RENDER_FIRST
    return Parsed(tuple(documents), (Problem(source.name, place, reason),), tuple(reader.repeated))


def _unprintable(source: SourceText, found: yaml.reader.ReaderError) -> tuple[Position, str]:
    # Its position counts bytes, so the character is looked up.
    character = found.character if isinstance(found.character, int) else ord(found.character[:1] or "\0")
    offset = max(source.text.find(chr(character)), 0)
    return source.position(offset), f"not YAML: the control character {character:#04x} is not allowed"


class _Reader:
    """What has been read so far."""

    def __init__(self, source: SourceText) -> None:
        self.events: Iterator[yaml.Event] = yaml.parse(source.text, Loader=_LOADER)
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.repeated: list[tuple[int, int]] = []
        self.values = 0
        self.depth = 0

    def documents(self) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors.clear()
            elif isinstance(event, yaml.NodeEvent):
                yield self.node(event)

    def node(self, event: yaml.NodeEvent) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            self.count(1, event)
            made: Node = _scalar(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = (made, 1)
            return made
        if isinstance(event, yaml.AliasEvent):
            return self.aliased(event)
        return self.collection(event)

    def collection(self, event: yaml.NodeEvent) -> Node:
        before = self.values
        self.count(1, event)
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.refuse(f"nested deeper than {DEPTH_MAX} levels", event)
        made = self.sequence(event) if isinstance(event, yaml.SequenceStartEvent) else self.mapping(event)
        self.depth -= 1
        if event.anchor is not None:
            self.anchors[event.anchor] = (made, self.values - before)
        return made

    def aliased(self, event: yaml.AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            # One that contains itself is not finished where its alias stands, so it is not there either.
            self.refuse(f"no value above is called {printable(event.anchor)}", event)
        found, weight = self.anchors[event.anchor]
        self.count(weight, event)
        if (found.start, found.end) not in self.repeated:
            self.repeated.append((found.start, found.end))
        span = (event.start_mark.index, event.end_mark.index)
        if isinstance(found, Scalar):
            return Scalar(found.text, found.style, *span)
        # Written in one piece, as what stands in braces or brackets is.
        if isinstance(found, Sequence):
            return Sequence(found.items, True, *span)
        return Mapping(found.entries, True, *span, found.merged)

    def sequence(self, start: yaml.SequenceStartEvent) -> Sequence:
        items: list[Node] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                return Sequence(
                    tuple(items), bool(start.flow_style), start.start_mark.index, event.end_mark.index
                )
            items.append(self.node(event))
        raise _MalformedError("the list does not end", start.start_mark.index)

    def mapping(self, start: yaml.MappingStartEvent) -> Mapping:
        entries: list[tuple[Scalar, Node]] = []
        merged: list[tuple[Scalar, Node]] = []
        known: set[str] = set()
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                kept = tuple((key, value) for key, value in merged if key.text not in known)
                span = (start.start_mark.index, event.end_mark.index)
                return Mapping(tuple(entries), bool(start.flow_style), *span, kept)
            key = self.node(event)
            if not isinstance(key, Scalar):
                self.refuse("a list or mapping stands where the name of a field was expected", event)
            value = self.node(next(self.events))
            if key.text == "<<" and key.style is Style.PLAIN:
                merged.extend(self.merged(value, event))
                continue
            if key.text in known:
                self.refuse(f"the field {printable(key.text)} is written twice", event)
            known.add(key.text)
            entries.append((key, value))
        raise _MalformedError("the mapping does not end", start.start_mark.index)

    def merged(self, value: Node, event: yaml.Event) -> list[tuple[Scalar, Node]]:
        found: dict[str, tuple[Scalar, Node]] = {}
        for one in value.items if isinstance(value, Sequence) else (value,):
            if not isinstance(one, Mapping):
                self.refuse("<< merges mappings only", event)
            for entry in (*one.entries, *one.merged):
                found.setdefault(entry[0].text, entry)
        return list(found.values())

    def count(self, values: int, event: yaml.Event) -> None:
        self.values += values
        if self.values > VALUES_MAX:
            self.refuse(f"more than {VALUES_MAX} values, those behind aliases included", event)

    def refuse(self, reason: str, event: yaml.Event) -> NoReturn:
        raise _MalformedError(reason, event.start_mark.index)


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    style = _STYLES.get(event.style, Style.BLOCK)
    if style is Style.PLAIN and event.tag in _STRING_TAGS:
        # "!!str 5" is text, as if it were quoted.
        style = Style.QUOTED
    return Scalar(event.value, style, event.start_mark.index, event.end_mark.index)
