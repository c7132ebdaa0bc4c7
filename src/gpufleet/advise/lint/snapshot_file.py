"""What rules ask of a cluster, from a file of ``gpufleet snapshot``.

Such a file has a line for its header, one for each object, and behind these the decisions, which are none of
our business. It may be packed. What it cannot tell (RuntimeClasses, a kind that could not be listed) stays
unknown.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gpufleet.files.unpacking import MAGIC, UnpackingLimits, unpacked
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.run import read
from gpufleet.lint.source.text import SourceText
from gpufleet.model.model_errors import InputError

BEGINNING = b'{"snapshot":'
FORMAT = "gpufleet.io/snapshot/v1"
# All of it is held in memory.
UNPACKED_MAX_BYTES = 2**30
PACKED_MAX_BYTES = UNPACKED_MAX_BYTES
"""The size of a file that may be a snapshot; snapshots need not be packed."""
PLURALS = {"Node": "nodes", "Pod": "pods"}
"""The kinds that rules ask for, as the header calls those that could not be listed."""
_EXPECTED = "a file of `gpufleet snapshot`"


class _Header(msgspec.Struct, frozen=True):
    """The fields of a snapshot's first line that lint reads."""

    snapshot: str
    objects: dict[str, int]
    forbidden: tuple[str, ...] = ()


def is_snapshot(data: bytes) -> bool:
    """Whether the file is one, or packed, as no file of kubectl is."""
    return data.startswith((MAGIC, BEGINNING))


def snapshot_cluster(data: bytes, name: str) -> Cluster:
    """What the snapshot has of the cluster. Raises InputError for what is malformed or cut off."""
    objects, forbidden = snapshot_objects(data, name)
    return _cluster(objects, forbidden, name)


def snapshot_objects(data: bytes, name: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The objects of the cluster as they came, and the kinds that could not be listed. Raises InputError."""
    lines = _unpacked(data, name).splitlines()
    try:
        header = msgspec.json.decode(lines[0] if lines else b"", type=_Header)
        objects = [one for line in lines[1:] if "kind" in (one := msgspec.json.decode(line))]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise InputError(str(error), where=name, expected=_EXPECTED) from error
    if header.snapshot != FORMAT:
        raise InputError("another format", where=name, value=header.snapshot, expected=FORMAT)
    readable = [one for one in objects if "unreadable" not in one]
    # The header counts what was written, so that a file without its end is not taken for a smaller cluster.
    if len(readable) < sum(header.objects.values()):
        raise InputError("the file was cut off", where=name, expected=_EXPECTED)
    return readable, header.forbidden


def _unpacked(data: bytes, name: str) -> bytes:
    return unpacked(data, name, UnpackingLimits(UNPACKED_MAX_BYTES))


def _cluster(objects: Iterable[dict[str, Any]], forbidden: tuple[str, ...], name: str) -> Cluster:
    items = [_needed(one) for one in objects if one["kind"] in PLURALS]
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}).decode()
    found = read(SourceText(name, text))
    if found.problems:
        raise InputError(found.problems[0].reason, where=found.problems[0].place, expected=_EXPECTED)
    listed = frozenset(kind for kind, plural in PLURALS.items() if plural not in forbidden)
    return Cluster(found.manifests, listed)


def _needed(body: dict[str, Any]) -> dict[str, Any]:
    """The parts that rules read: of a large cluster the rest would be most of the text."""
    metadata, spec, status = (body.get(part, {}) for part in ("metadata", "spec", "status"))
    needed: dict[str, Any] = {
        "apiVersion": body.get("apiVersion", "v1"),
        "kind": body["kind"],
        "metadata": {part: metadata[part] for part in ("name", "namespace", "labels") if part in metadata},
    }
    if body["kind"] == "Node":
        needed["spec"] = {"taints": spec.get("taints", [])}
        needed["status"] = {"allocatable": status.get("allocatable", {})}
        return needed
    containers = [
        {"name": one.get("name", ""), "resources": one.get("resources", {})}
        for one in spec.get("containers", [])
    ]
    needed["spec"] = {"nodeName": spec.get("nodeName", ""), "containers": containers}
    needed["status"] = {"phase": status.get("phase", "")}
    return needed
