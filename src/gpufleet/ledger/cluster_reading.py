"""All objects of a cluster that the ledger reads, listed once, as observations.

A list says what is there and what is gone, not what came and went between two lists. Objects of gpufleet's
own kinds are missing where gpufleet is not installed; then nothing is known of its GPUs.
"""

import asyncio
import datetime as dt
import email.utils
from collections.abc import AsyncIterator

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import Forbidden, Gone, NotFound
from gpufleet.ledger.object_versions import READERS, listed_of, version_of
from gpufleet.ledger.stamped_objects import StampedObject
from gpufleet.ledger.versions import Observation, PodVersion
from gpufleet.model.model_errors import InputError, WorldError

LISTS_MAX = 5
"""A list that expires between its pages is begun anew at most as often as this."""

OPTIONAL = (resources.NODE_DEVICES, resources.FLEET_QUEUES)
"""Kinds that a cluster without gpufleet does not have."""

RIGHTS = "the rights of the ClusterRole gpufleet-explain, bound to you by an administrator"
"""What lets a person list what is read."""

US_PER_S = 1_000_000
"""The clock counts seconds."""


SYSTEM_NAMESPACE = "kube-system"
"""Each cluster has it from its first moment, and its UID is of no other cluster."""


class Seen(msgspec.Struct, frozen=True):
    """What was observed, when, and what could not be.

    ``cluster`` is the UID of the namespace kube-system, None where this person may not get it.
    """

    observations: tuple[Observation, ...]
    at_us: int
    notes: tuple[str, ...] = ()
    cluster: str | None = None


class ListExpiredError(WorldError):
    """A list that the server forgot between its pages, each time."""


def seen_in(choice: ClusterChoice) -> Seen:
    """What the chosen cluster shows now."""
    return asyncio.run(_connected(choice))


def cluster_in(choice: ClusterChoice) -> str | None:
    """The UID of the namespace kube-system of a cluster; None where this person may not get it."""
    return asyncio.run(_asked(choice))


async def _asked(choice: ClusterChoice) -> str | None:
    async with connect(choice) as connection:
        return (await cluster_of(connection.client))[0]


async def _connected(choice: ClusterChoice) -> Seen:
    async with connect(choice) as (client, _, _):
        return await observe(client)


async def observe(client: Client) -> Seen:
    """Every kind, listed. Raises InputError for a user that may not list pods or nodes."""
    found: list[Observation] = []
    notes = []
    cluster, at_us = await cluster_of(client)
    for kind in READERS:
        try:
            found += await _listed(client, kind, at_us)
        except NotFound:
            if kind not in OPTIONAL:
                raise
            notes.append(f"the cluster has no {kind.plural}: gpufleet is not installed there")
        except Forbidden as error:
            if kind not in OPTIONAL:
                raise InputError(
                    f"you may not list {kind.plural} of the whole cluster", expected=RIGHTS
                ) from error
            notes.append(f"you may not list {kind.plural}: what they would have told is missing")
    return Seen(tuple(found), at_us, tuple(notes), cluster)


async def cluster_of(client: Client) -> tuple[str | None, int]:
    """What tells this cluster from others, and the moment by its server's clock.

    A person who may not get the namespace has the moment of their own clock.
    """
    try:
        answer = await client.answer(resources.NAMESPACES.item(SYSTEM_NAMESPACE))
    except Forbidden:
        return None, _microseconds(client.clock.now())
    told = _moment(answer.headers.get(DATE, ""))
    return decode(answer.body, _STAMPED).metadata.uid, _microseconds(told or client.clock.now())


def _moment(date: str) -> dt.datetime | None:
    """The moment that a header tells; None where there is none that can be read."""
    try:
        return email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None


def _microseconds(at: dt.datetime) -> int:
    return int(at.timestamp() * US_PER_S)


DATE = "date"
"""The header with the server's clock, in whole seconds."""

_STAMPED = msgspec.json.Decoder(StampedObject)


async def _listed(client: Client, kind: Kind, at_us: int) -> list[Observation]:
    for _ in range(LISTS_MAX):
        try:
            return [one async for one in _observations(client, kind, at_us)]
        except Gone:
            continue
    raise ListExpiredError(
        f"the list of {kind.plural} expired {LISTS_MAX} times between its pages; try again"
    )


async def _observations(client: Client, kind: Kind, at_us: int) -> AsyncIterator[Observation]:
    uids, number = [], 0
    async for page in client.list_pages(kind):
        number = int(page.metadata.resource_version)
        for raw in page.items or ():
            version = version_of(kind, raw)
            yield version
            # A pod that has ended says so itself: no list has to tell of its end.
            if not isinstance(version, PodVersion) or version.ended_us is None:
                uids.append(version.uid)
    yield listed_of(kind, number, at_us, uids)
