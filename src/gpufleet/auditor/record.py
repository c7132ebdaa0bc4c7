"""What is judged: the writes of a cluster in their order, or what a look at it found.

A write has the object as it was left (None: it vanished) and as it was before (None: it appeared). The user
of a write is known in a simulation and from an audit log, and empty elsewhere.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
"""An API object as plain JSON."""

PODS = "pods"
NODES = "nodes"
NAMESPACES = "namespaces"
EVENTS = "events"
LEASES = "leases"
NODE_DEVICES = "nodedevices"
FLEET_QUEUES = "fleetqueues"
PRIORITY_CLASSES = "priorityclasses"
KINDS = {
    "Pod": PODS,
    "Node": NODES,
    "Namespace": NAMESPACES,
    "Event": EVENTS,
    "Lease": LEASES,
    "NodeDevices": NODE_DEVICES,
    "FleetQueue": FLEET_QUEUES,
    "PriorityClass": PRIORITY_CLASSES,
}


class RecordError(ValueError):
    """A text that is no record."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write. ``kind`` is the plural, as in an address of the API."""

    kind: str
    value: Document | None
    before: Document | None = None
    at_s: float = 0.0
    user: str = ""

    @property
    def latest(self) -> Document:
        """The object as this write left it, or as it was when it vanished."""
        found = self.value if self.value is not None else self.before
        if found is None:
            raise RecordError("a write without any object")
        return found


def of_objects(objects: Iterable[Document], at_s: float = 0.0) -> tuple[Write, ...]:
    """What one look at a cluster found, as writes: what others refer to first, pods in the order of their
    making.
    """
    order = (NAMESPACES, NODES, PRIORITY_CLASSES, FLEET_QUEUES, NODE_DEVICES, LEASES, PODS, EVENTS)
    known = [(KINDS[one["kind"]], one) for one in objects if one.get("kind") in KINDS]
    known.sort(key=lambda pair: (order.index(pair[0]), made_at(pair[1])))
    return tuple(Write(kind, value, at_s=at_s) for kind, value in known)


def made_at(value: Document) -> str:
    """When an object was made, as the API writes times."""
    return str(value["metadata"].get("creationTimestamp") or "")


def of_lines(lines: Iterable[str]) -> Iterator[Write]:
    """A record of one JSON object a line, with the fields of a write. Raises RecordError, naming the line."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _of_value(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise RecordError(f"line {number} is no write: {error!r}") from error


def _of_value(value: Mapping[str, Any]) -> Write:
    found = Write(
        value["kind"],
        value.get("value"),
        value.get("before"),
        float(value.get("at_s", 0.0)),
        value.get("user", ""),
    )
    if not isinstance(found.latest["metadata"], dict):
        raise RecordError("an object without metadata")
    return found


def as_line(write: Write) -> str:
    """A write as ``of_lines`` reads it."""
    fields = ("kind", "value", "before", "at_s", "user")
    return json.dumps({field: getattr(write, field) for field in fields}, separators=(",", ":"))
