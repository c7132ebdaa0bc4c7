"""Objects of a cluster as advice keeps them: what servers add for themselves is most of their text.

``node_of`` makes of a value from the wire what a parser makes of a text, so that the same views and rules
read both.
"""

from typing import Any

import msgspec

from gpufleet.kube.resources import Kind
from gpufleet.kube.write_bodies import LAST_APPLIED
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Mapping, Node, Scalar, Sequence, Style
from gpufleet.lint.source.text import SourceText

SOURCE = SourceText("cluster", "")


def manifest_of(kind: Kind, raw: bytes | msgspec.Raw) -> Manifest:
    """An object that came in a list of this kind; its items do not say themselves what they are."""
    body: dict[str, Any] = msgspec.json.decode(raw)
    _drop(body, "metadata", "managedFields")
    _drop(body, "metadata", "annotations", LAST_APPLIED)
    if kind.name == "Node":
        # Which images a node has is longer than all else it says.
        _drop(body, "status", "images")
    return Manifest(SOURCE, Field(node_of({**body, "apiVersion": kind.api_version, "kind": kind.name})))


def _drop(body: object, *path: str) -> None:
    """Take a field away, if it is there."""
    *above, last = path
    for name in above:
        body = body.get(name) if isinstance(body, dict) else None
    if isinstance(body, dict):
        body.pop(last, None)


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
        case bool():
            return Scalar("true" if value else "false", Style.PLAIN, 0, 0)
        case None:
            return Scalar("null", Style.PLAIN, 0, 0)
        case _:
            return Scalar(str(value), Style.PLAIN, 0, 0)
