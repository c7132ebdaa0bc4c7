"""Objects are kept when their whole kind is taken away: what they limited stays limited.

A CustomResourceDefinition that is deleted takes its objects with it: they vanish one by one, and then the
server does not know the kind. That is not a decision to delete each of them. So an object that vanishes is
given up only when the server serves its kind and takes new ones of it; a kind that is going away is served
without ``create`` until it is gone. While the kind is away its objects count as they were last heard of, and
for ``RETURNS_WITHIN_S`` after its return, so that they can be made anew. A process that starts meanwhile
knows of none.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Vanished
from gpufleet.kube.resources import Kind

LOG = logging.getLogger(__name__)
POLL_AFTER_S = 1.0
"""A server tells of the end of a definition a moment after the first of its objects is gone."""

POLL_EVERY_S = 5.0
"""While the kind is away, its return is noticed after so long."""

RETURNS_WITHIN_S = 600.0
"""Time for a person or a controller to make the objects anew once their kind is served again."""

Key = tuple[str, str]


class RetainedKind:
    """Stands between a mirror and the readers of its objects; ``sink`` is told what remains to be told."""

    def __init__(self, client: Client, kind: Kind, sink: Callable[[Change[Any]], None]) -> None:
        self.kind = kind
        self._client = client
        self._sink = sink
        self._kept: dict[Key, Any] = {}
        self._vanished = asyncio.Event()
        self._away = False
        self._back_at_s: float | None = None

    @property
    def kept(self) -> Mapping[Key, Any]:
        """Objects that have vanished and still count, by namespace and name."""
        return self._kept

    @property
    def withdrawn(self) -> bool:
        """Whether the objects that are kept are so for the sake of their kind."""
        return bool(self._kept) and self._away

    def hear(self, change: Change[Any]) -> None:
        """What the mirror tells."""
        match change:
            case Vanished(found):
                self._kept[_key(found)] = found
                self._vanished.set()
            case Appeared(found) if _key(found) in self._kept:
                self._sink(Changed(self._kept.pop(_key(found)), found))
                self._settle()
            case _:
                self._sink(change)

    async def run(self) -> None:
        """Find out of what has vanished whether its kind has, until cancelled."""
        while True:
            await self._vanished.wait()
            self._vanished.clear()
            await self._client.clock.sleep(POLL_AFTER_S)
            while self._kept:
                await self._look()
                if self._kept:
                    await self._client.clock.sleep(POLL_EVERY_S if self._away else POLL_AFTER_S)

    async def _look(self) -> None:
        known = list(self._kept.values())
        try:
            there = await self._client.takes_new(self.kind)
        except KubeError as problem:
            LOG.warning(
                "whether a kind is still served cannot be found out",
                extra={"kind": self.kind.plural, "problem": str(problem)},
            )
            return
        now_s = self._client.clock.monotonic_s()
        if not there:
            if not self._away or self._back_at_s is not None:
                words = "a kind is served no more: its objects count as they were until it is served again"
                LOG.error(words, extra={"kind": self.kind.plural, "objects": len(self._kept)})
            self._away, self._back_at_s = True, None
            return
        if self._away and self._back_at_s is None:
            self._back_at_s = now_s
            words = (
                "a kind is served again: its former objects count until they are made anew, or for a while"
            )
            LOG.warning(words, extra={"kind": self.kind.plural, "for_s": RETURNS_WITHIN_S})
        if self._back_at_s is None or now_s - self._back_at_s >= RETURNS_WITHIN_S:
            self._give_up(known)

    def _give_up(self, known: list[Any]) -> None:
        """The objects count no more: they were deleted, or did not come back with their kind in time."""
        for found in known:
            if self._kept.get(_key(found)) is found:
                del self._kept[_key(found)]
                self._sink(Vanished(found))
        self._settle()

    def _settle(self) -> None:
        """With nothing kept, what vanishes next is judged by itself: the kind may have been back for long."""
        if not self._kept:
            self._away, self._back_at_s = False, None

    def all(self, present: Mapping[Key, Any]) -> Iterator[Any]:
        """What is present, and what is kept beside it."""
        yield from present.values()
        for key, found in self._kept.items():
            if key not in present:
                yield found


def _key(found: Any) -> Key:
    return found.metadata.namespace, found.metadata.name
