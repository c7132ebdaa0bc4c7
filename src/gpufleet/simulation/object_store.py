"""What the simulated server remembers: objects, one revision for all of them, and their whole history.

As etcd under a kube-apiserver: each write takes the next revision, old states stay readable until
they are compacted. The history is kept for the judge even where clients may no longer read it.
Values are never changed in place.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from gpufleet.simulation.refusal import JsonObject

KindKey = tuple[str, str]
Name = tuple[str, str]
"""Namespace ("" for none) and name."""


class Written(msgspec.Struct, frozen=True):
    """One write: ``value`` is None where the object vanished, ``before`` where it appeared."""

    revision: int
    at_s: float
    kind: KindKey
    name: Name
    value: JsonObject | None
    before: JsonObject | None
    user: str

    @property
    def latest(self) -> JsonObject:
        """The object as this write left it, or as it was when it vanished."""
        value = self.value if self.value is not None else self.before
        if value is None:
            raise ValueError("a write without any object")
        return value


class ObjectStore:
    """All objects of a simulated cluster."""

    def __init__(self, first_revision: int = 1000) -> None:
        self.revision = first_revision
        self.compacted = first_revision
        self.history: list[Written] = []
        self._by_kind: dict[KindKey, list[Written]] = {}
        self._by_name: dict[KindKey, dict[Name, list[Written]]] = {}
        self._live: dict[KindKey, dict[Name, JsonObject]] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def get(self, kind: KindKey, name: Name) -> JsonObject | None:
        """The object as it is now."""
        return self._live.get(kind, {}).get(name)

    def all(self, kind: KindKey) -> dict[Name, JsonObject]:
        """All objects of a kind as they are now."""
        return self._live.get(kind, {})

    def put(
        self, kind: KindKey, name: Name, value: JsonObject | None, *, at_s: float, user: str
    ) -> JsonObject:
        """Store (None: remove) and wake what waits; returns the object with its new revision."""
        self.revision += 1
        before = self.get(kind, name)
        stored = value
        if stored is None and before is not None:
            # What a watch shows of a deleted object carries the revision of the deletion.
            before = _at_revision(before, self.revision)
        elif stored is not None:
            stored = _at_revision(stored, self.revision)
        written = Written(self.revision, at_s, kind, name, stored, before, user)
        self.history.append(written)
        self._by_kind.setdefault(kind, []).append(written)
        self._by_name.setdefault(kind, {}).setdefault(name, []).append(written)
        live = self._live.setdefault(kind, {})
        if stored is None:
            live.pop(name, None)
        else:
            live[name] = stored
        self.wake()
        return written.latest

    def at_revision(self, kind: KindKey, revision: int) -> Iterator[tuple[Name, JsonObject]]:
        """All objects of a kind as they were then, in the order of their names."""
        names = self._by_name.get(kind, {})
        for name in sorted(names):
            writes = names[name]
            position = bisect_right(writes, revision, key=lambda written: written.revision)
            if position and (value := writes[position - 1].value) is not None:
                yield name, value

    def one_at_revision(self, kind: KindKey, name: Name, revision: int) -> JsonObject | None:
        """One object as it was then."""
        writes = self._by_name.get(kind, {}).get(name, [])
        # Histories only grow at their end, so that they are sorted without any sorting.
        position = bisect_right(writes, revision, key=lambda written: written.revision)
        return writes[position - 1].value if position else None

    def since(self, kind: KindKey, revision: int, until: int) -> list[Written]:
        """The writes of a kind after one revision and not after another."""
        writes = self._by_kind.get(kind, [])
        first = bisect_right(writes, revision, key=lambda written: written.revision)
        last = bisect_right(writes, until, key=lambda written: written.revision)
        return writes[first:last]

    def compact(self, revision: int | None = None) -> None:
        """Forget, for clients, what was before this revision (default: before now)."""
        self.compacted = self.revision if revision is None else max(self.compacted, revision)

    def next_write(self) -> asyncio.Future[None]:
        """A future that is done with the next write, or the next ``wake``."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def wake(self) -> None:
        """Let every waiting watch look again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            # A watch that was cancelled leaves its future behind.
            if not future.done():
                future.set_result(None)


def _at_revision(value: JsonObject, revision: int) -> JsonObject:
    return {**value, "metadata": {**value["metadata"], "resourceVersion": str(revision)}}
