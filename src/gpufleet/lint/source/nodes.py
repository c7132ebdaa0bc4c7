"""What a text holds, as a tree of nodes that know the span of characters they were read from.

The layout is kept to the character, so that a mend can touch one value and leave comments, quotes and
indentation alone. ``parse`` builds the tree, ``fields`` walks it.
"""

import enum

import msgspec

from gpufleet.lint.source.scalars import NULL, Plain, plain_value


class Style(enum.Enum):
    """How a scalar is written."""

    PLAIN = "plain"
    QUOTED = "quoted"
    BLOCK = "block"


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """A single value."""

    text: str
    style: Style
    start: int
    end: int

    @property
    def value(self) -> Plain:
        """The value as Kubernetes reads it."""
        return plain_value(self.text) if self.style is Style.PLAIN else self.text

    @property
    def is_null(self) -> bool:
        """Whether the value is none. Every field is asked, so this works out no value."""
        return self.style is Style.PLAIN and self.text in NULL


class Sequence(msgspec.Struct, frozen=True):
    """A list; ``flow`` if it is written with brackets."""

    items: "tuple[Node, ...]"
    flow: bool
    start: int
    end: int


class Mapping(msgspec.Struct, frozen=True):
    """Fields by name, those that ``<<`` merges last; ``flow`` if it is written with braces."""

    entries: "tuple[tuple[Scalar, Node], ...]"
    flow: bool
    start: int
    end: int
    merged: "tuple[tuple[Scalar, Node], ...]" = ()


Node = Scalar | Sequence | Mapping
Data = Plain | list["Data"] | dict[str, "Data"]


def content_end(node: Node) -> int:
    """The offset after the last character of the node's own content.

    The parser ends a block collection only where the next token begins, after comments that belong
    to what follows.
    """
    match node:
        case Mapping(flow=False, entries=entries) if entries:
            key, value = entries[-1]
            return max(key.end, content_end(value))
        case Sequence(flow=False, items=items) if items:
            return content_end(items[-1])
        case _:
            return node.end


def data_of(node: Node) -> Data:
    """The plain values, without places."""
    match node:
        case Scalar():
            return node.value
        case Sequence(items=items):
            return [data_of(item) for item in items]
        case Mapping(entries=entries, merged=merged):
            found = {key.text: data_of(value) for key, value in merged}
            return found | {key.text: data_of(value) for key, value in entries}
