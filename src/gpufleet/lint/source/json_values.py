"""Nodes of values from the wire: the same views and rules read them as read a text.

A value of JSON has no place in a text, so a finding in it is named by its path alone. ``parse`` makes nodes
of texts.
"""

from gpufleet.lint.source.nodes import Mapping, Node, Scalar, Sequence, Style


def node_of(value: object) -> Node:
    """A value of JSON as a tree, without places."""
    match value:
        case dict():
            entries = tuple(
                (Scalar(str(name), Style.QUOTED, 0, 0), node_of(one)) for name, one in value.items()
            )
            return Mapping(entries, flow=True, start=0, end=0)
        case list():
            return Sequence(tuple(map(node_of, value)), flow=True, start=0, end=0)
        case str():
            return Scalar(value, Style.QUOTED, 0, 0)
        case _:
            return Scalar(text_of(value) or "null", Style.PLAIN, 0, 0)


def text_of(value: object) -> str | None:
    """A single value of JSON as it is written; None of null, a list and a mapping."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None | dict() | list():
            return None
        case _:
            return str(value)
