"""``gpufleet snapshot`` without its command line: finds the cluster, lists it once, asks the engine.

What is decided on is what was written and read again, not what was listed: so a snapshot that lacked
something would show it at once, in its own decisions.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.model.errors import InputError
from gpufleet.scheduler.cluster import WATCHED
from gpufleet.scheduler.picture import Picture, take_picture
from gpufleet.scheduler.questions.command import Progress, Question, connected
from gpufleet.scheduler.questions.inquiry import ENGINE, INDISPENSABLE
from gpufleet.scheduler.settings import Settings
from gpufleet.scheduler.snapshots.decisions import first_decisions
from gpufleet.scheduler.snapshots.document import as_written, written


class Taken(msgspec.Struct, frozen=True):
    """A snapshot on its way to a file. ``forbidden`` are kinds that could not be listed."""

    lines: list[bytes]
    pods: int
    nodes: int
    forbidden: tuple[str, ...]


Say = Callable[[str], None]
RIGHTS = "the rights of the ClusterRole gpufleet-explain, bound to you by an administrator"


def snapshot_of(question: Question, settings: Settings) -> Taken:
    """A snapshot of the cluster that the question names."""
    progress = Progress()
    progress.begin()
    try:
        picture, taken_at = asyncio.run(read_cluster(question, progress.say))
        progress.say(ENGINE)
        return Taken(
            list(lines_of(picture, settings, taken_at)),
            len(picture.objects.get(resources.PODS, ())),
            len(picture.objects.get(resources.NODES, ())),
            tuple(kind.plural for kind in picture.forbidden),
        )
    finally:
        progress.end()


async def read_cluster(question: Question, say: Say) -> tuple[Picture, dt.datetime]:
    """The picture of the cluster that the question names, and its moment."""
    async with connected(question) as (client, _):
        return await picture_of(client, say)


async def picture_of(client: Client, say: Say) -> tuple[Picture, dt.datetime]:
    """Everything that decisions depend on, and the moment. Raises InputError without the rights for it."""
    say("reading the cluster")
    taken_at = client.clock.now()
    picture = await take_picture(client, WATCHED)
    for kind in picture.forbidden:
        if kind in INDISPENSABLE:
            raise InputError(f"you may not list {kind.plural} of the whole cluster", expected=RIGHTS)
    return picture, taken_at


def lines_of(picture: Picture, settings: Settings, taken_at: dt.datetime) -> Iterator[bytes]:
    """The lines of the file."""
    kept = as_written(picture)
    return written(kept, settings, taken_at, first_decisions(kept, settings, taken_at))


def gaps(kinds: Iterable[str]) -> str:
    """What to tell somebody who may not list everything; "" where nothing is missing."""
    missing = ", ".join(sorted(kinds))
    return f"you may not list {missing}: what they would have told is missing" if missing else ""
