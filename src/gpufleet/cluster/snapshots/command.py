"""``gpufleet snapshot`` without its command line: finds the cluster, lists it once, asks the engine.

What is decided on is what was written and read again, not what was listed: so a snapshot that lacked
something would show it at once, in its own decisions.
"""

import asyncio
import datetime as dt
from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.cluster.progress import ENGINE, Progress, Say
from gpufleet.cluster.scheduler_lease import who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import first_decisions
from gpufleet.cluster.snapshots.document import as_written, written
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import CONNECTIONS, INDISPENSABLE, Picture, take_picture
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import InputError


class Taken(msgspec.Struct, frozen=True):
    """A snapshot on its way to a file. ``forbidden`` are kinds that could not be listed."""

    lines: list[bytes]
    pods: int
    nodes: int
    forbidden: tuple[str, ...]


RIGHTS = "the rights of the ClusterRole gpufleet-explain, bound to you by an administrator"


def snapshot_of(cluster: ClusterChoice, settings: Settings) -> Taken:
    """A snapshot of the chosen cluster."""
    with Progress() as progress:
        picture, settings, taken_at = asyncio.run(read_cluster(cluster, settings, progress.say))
        progress.say(ENGINE)
        return Taken(
            list(lines_of(picture, settings, taken_at)),
            len(picture.objects.get(resources.PODS, ())),
            len(picture.objects.get(resources.NODES, ())),
            tuple(kind.plural for kind in picture.forbidden),
        )


async def read_cluster(
    cluster: ClusterChoice, settings: Settings, say: Say
) -> tuple[Picture, Settings, dt.datetime]:
    """The picture of the chosen cluster, the settings of its scheduler, and the moment."""
    async with connect(cluster, connections=CONNECTIONS) as (client, _, _):
        return await picture_of(client, settings, say)


async def picture_of(client: Client, settings: Settings, say: Say) -> tuple[Picture, Settings, dt.datetime]:
    """Everything that decisions depend on, and the moment. Raises InputError without the rights for it.

    The settings are those given, but as the scheduler that leads says.
    """
    say("reading the cluster")
    # Before the lists, so that nothing in the picture is older than the moment that it names.
    taken_at = client.clock.now()
    async with asyncio.TaskGroup() as group:
        listing = group.create_task(take_picture(client, WATCHED))
        lease = group.create_task(who_leads(client, settings))
    picture = listing.result()
    for kind in picture.forbidden:
        if kind in INDISPENSABLE:
            raise InputError(f"you may not list {kind.plural} of the whole cluster", expected=RIGHTS)
    return picture, lease.result().settings(settings), taken_at


def lines_of(picture: Picture, settings: Settings, taken_at: dt.datetime) -> Iterator[bytes]:
    """The lines of the file."""
    kept = as_written(picture)
    return written(kept, settings, taken_at, first_decisions(kept, settings, taken_at))


def gaps(kinds: Iterable[str]) -> str:
    """A note for a user without the right to list some of these kinds; "" where nothing is missing."""
    missing = ", ".join(sorted(kinds))
    return f"you may not list {missing}: what they would have told is missing" if missing else ""
