"""The cluster as it was after each write, and how queues and namespaces were a moment before."""

from collections.abc import Iterable, Iterator

from gpufleet.auditor import pods
from gpufleet.auditor.reading import mapping
from gpufleet.auditor.record import (
    EVENTS,
    FLEET_QUEUES,
    NAMESPACES,
    NODE_DEVICES,
    NODES,
    PODS,
    Document,
    Write,
)


class World:
    """All objects by kind, as the writes go by."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.objects: dict[str, dict[str, Document]] = {}
        self.reports: dict[str, Document] = {}
        """The last report of each node, also of one that is gone."""

        self.capacity: dict[str, dict[str, str]] = {}
        """The most of each resource that a node was ever seen with."""

        self.living: dict[str, Document] = {}
        """Pods on nodes that have not ended, by UID."""

        self.ends: dict[str, float] = {}
        self._past: list[tuple[float, str, str, Document | None]] = []

    def all(self, kind: str) -> dict[str, Document]:
        """The objects of a kind by name."""
        return self.objects.get(kind, {})

    def follow(self, write: Write) -> None:
        """Take a write in."""
        self.at_s = write.at_s
        known = self.objects.setdefault(write.kind, {})
        key = pods.uid(write.latest) if write.kind == EVENTS else pods.name(write.latest)
        if write.kind in {FLEET_QUEUES, NAMESPACES}:
            self._past.append((write.at_s, write.kind, key, known.get(key)))
        if write.value is None:
            known.pop(key, None)
        else:
            known[key] = write.value
        if write.kind == PODS:
            self._follow_pod(write)
        elif write.kind == NODE_DEVICES and write.value is not None:
            self.reports[key] = write.value
        elif write.kind == NODES and write.value is not None:
            self._follow_node(key, write.value)

    def _follow_pod(self, write: Write) -> None:
        pod, uid = write.value, pods.uid(write.latest)
        if pod is not None and pods.holds(pod):
            self.living[uid] = pod
        elif self.living.pop(uid, None) is not None:
            self.ends[uid] = write.at_s

    def _follow_node(self, name: str, node: Document) -> None:
        most = self.capacity.setdefault(name, {})
        for resource, text in mapping(node, "status", "capacity").items():
            if text.isdecimal() and int(text) >= int(most.get(resource, "0")):
                most[resource] = text

    def versions(self, grace_s: float) -> Iterator[tuple[dict[str, Document], dict[str, Document]]]:
        """Queues and namespaces as they are, and as they were at any time within the last moments."""
        queues, spaces = dict(self.all(FLEET_QUEUES)), dict(self.all(NAMESPACES))
        yield queues, spaces
        for at_s, kind, key, before in reversed(self._past):
            if at_s < self.at_s - grace_s:
                return
            changed = queues if kind == FLEET_QUEUES else spaces
            if before is None:
                changed.pop(key, None)
            else:
                changed[key] = before
            yield dict(queues), dict(spaces)


def replay(writes: Iterable[Write]) -> World:
    """The cluster after all of these."""
    found = World()
    for write in writes:
        found.follow(write)
    return found
