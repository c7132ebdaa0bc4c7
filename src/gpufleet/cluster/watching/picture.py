"""A picture of a cluster at one moment: every kind that a decision depends on, listed once.

For questions (``questions``), which need no watch: the same reading and the same engine as the
scheduler's, over what is there now.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from gpufleet.cluster.watching.change_queue import Seen
from gpufleet.cluster.watching.mirrors import Watched
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.mirror_changes import Appeared, Unreadable
from gpufleet.kube.objects.metadata import PartialObject
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import Forbidden, Gone, NotFound

CONNECTIONS = 8
"""All kinds that decisions depend on are listed at once, each over a connection of its own."""

LISTS_MAX = 5
"""A list that expires between its pages is begun anew at most as often as this."""

INDISPENSABLE = (resources.PODS, resources.NODES)
"""Kinds without which there is no picture to decide on: the right to list them is required."""

_METADATA = msgspec.json.Decoder(PartialObject)


class Picture:
    """What was listed, to be looked up by kind and name."""

    def __init__(self) -> None:
        self.objects: dict[Kind, dict[tuple[str, str], Any]] = {}
        self.unreadable: list[Seen] = []
        self.forbidden: list[Kind] = []
        self.absent: list[Kind] = []

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """The object of a kind and a name; None if there is none."""
        return self.objects.get(kind, {}).get((namespace, name))

    def all(self, kind: Kind) -> Iterable[Any]:
        """All objects of a kind."""
        return self.objects.get(kind, {}).values()

    def copied(self) -> "Picture":
        """A picture of its own with these objects, to be changed: queues may be added to it."""
        copy = Picture()
        copy.objects = {kind: dict(found) for kind, found in self.objects.items()}
        copy.objects.setdefault(resources.FLEET_QUEUES, {})
        copy.unreadable = list(self.unreadable)
        copy.forbidden = list(self.forbidden)
        return copy

    def seen(self) -> list[Seen]:
        """Everything, as if it had just appeared."""
        found = [
            Seen(kind, Appeared(one)) for kind, all_of in self.objects.items() for one in all_of.values()
        ]
        return found + self.unreadable

    def read(self, watched: Watched, raws: Iterable[msgspec.Raw]) -> None:
        """Take in all objects of a kind, as the server sent them."""
        decoder = msgspec.json.Decoder(watched.type)
        found = self.objects.setdefault(watched.kind, {})
        for raw in raws:
            try:
                one = decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError) as problem:
                metadata = _METADATA.decode(raw).metadata
                bad = Unreadable(metadata.namespace, metadata.name, metadata.uid, str(problem), bytes(raw))
                self.unreadable.append(Seen(watched.kind, bad))
            else:
                found[one.metadata.namespace, one.metadata.name] = one


async def take_picture(client: Client, watched: Iterable[Watched]) -> Picture:
    """List every kind, all at once. A kind that the server does not serve, or not to us, is empty."""
    picture = Picture()
    async with asyncio.TaskGroup() as group:
        for one in watched:
            group.create_task(_list(client, one, picture))
    return picture


async def _list(client: Client, watched: Watched, picture: Picture) -> None:
    for _ in range(LISTS_MAX):
        raws: list[msgspec.Raw] = []
        try:
            async for page in client.list_pages(watched.kind):
                raws += page.items or ()
        # The version of the first page was compacted (410): later pages of it cannot be had any more.
        except Gone:
            continue
        except NotFound:
            if not watched.optional:
                raise
            picture.absent.append(watched.kind)
        except Forbidden:
            picture.forbidden.append(watched.kind)
        picture.read(watched, raws)
        return
