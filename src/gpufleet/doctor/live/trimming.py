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
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        if isinstance(annotations := metadata.get("annotations"), dict):
            annotations.pop(LAST_APPLIED, None)
    if kind.name == "Node" and isinstance(status := body.get("status"), dict):
        # Which images a node has is longer than all else it says.
        status.pop("images", None)
    body["apiVersion"], body["kind"] = kind.api_version, kind.name
    return Manifest(SOURCE, WireField(body))
