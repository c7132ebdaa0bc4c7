"""Objects of a cluster as advice keeps them: what servers add for themselves is most of their text."""

from typing import Any

import msgspec

from gpufleet.kube.resources import Kind
from gpufleet.kube.write_bodies import LAST_APPLIED
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.text import SourceText
from gpufleet.lint.source.wire_fields import WireField

SOURCE = SourceText("cluster", "")


def manifest_of(kind: Kind, raw: bytes | msgspec.Raw) -> Manifest:
    """An object that came in a list of this kind; its items do not say themselves what they are."""
    body: dict[str, Any] = msgspec.json.decode(raw)
    _drop(body, "metadata", "managedFields")
    _drop(body, "metadata", "annotations", LAST_APPLIED)
    if kind.name == "Node":
        # Which images a node has is longer than all else it says.
        _drop(body, "status", "images")
    return Manifest(SOURCE, WireField({**body, "apiVersion": kind.api_version, "kind": kind.name}))


def _drop(body: object, *path: str) -> None:
    """Take a field away, if it is there."""
    *above, last = path
    for name in above:
        body = body.get(name) if isinstance(body, dict) else None
    if isinstance(body, dict):
        body.pop(last, None)
