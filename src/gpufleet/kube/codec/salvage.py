"""What can be read of a pod that cannot be read as a whole.

A field that is not as it should be is left out, and all others are read: enough to know the pod's owner,
whether it has a node, and what it was granted there. It is never enough to place it.
"""

from typing import Any, TypeVar

import msgspec

from gpufleet.kube.objects.metadata import PodMetadata
from gpufleet.kube.objects.pod import Pod, PodSpec, PodStatus

Part = TypeVar("Part", bound=msgspec.Struct)


def salvage_pod(raw: bytes) -> Pod:
    """The readable fields of a pod; those of an empty one where nothing can be read."""
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    parts = found if isinstance(found, dict) else {}
    return Pod(
        _readable(PodMetadata, parts.get("metadata")),
        _readable(PodSpec, parts.get("spec"), containers=()),
        _readable(PodStatus, parts.get("status")),
    )


def _readable(part: type[Part], found: Any, **otherwise: Any) -> Part:
    fields = dict(otherwise)
    for field in msgspec.structs.fields(part):
        if isinstance(found, dict) and field.encode_name in found:
            try:
                fields[field.name] = msgspec.convert(found[field.encode_name], field.type)
            except (msgspec.ValidationError, RecursionError):
                continue
    return part(**fields)
