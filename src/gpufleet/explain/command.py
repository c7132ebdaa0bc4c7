"""A question about pods or queues as a command: the cluster is found, asked, and the answer returned."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import msgspec

from gpufleet.cluster.progress import Progress
from gpufleet.cluster.settings import LEASE_NAMESPACE, SCHEDULER_NAME, Settings
from gpufleet.cluster.watching.picture import CONNECTIONS
from gpufleet.explain.answer import Answer
from gpufleet.explain.inquiry import ask
from gpufleet.explain.queue_answer import QueuesAnswer
from gpufleet.explain.queue_inquiry import Wanted, ask_for_queues, only
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.connection import ClusterChoice, Connection, connect
from gpufleet.kube.objects.metadata import PartialObject
from gpufleet.kube.resources import FLEET_QUEUES, PODS, Kind
from gpufleet.model.model_errors import GpufleetError

_METADATA = msgspec.json.Decoder(PartialObject)


class Question(msgspec.Struct, frozen=True):
    """What is asked, of which cluster, and about which scheduler."""

    name: str
    cluster: ClusterChoice = ClusterChoice()
    scheduler_name: str = SCHEDULER_NAME
    lease_namespace: str = LEASE_NAMESPACE


def answer_of(question: Question) -> Answer:
    """Ask, and wait for the answer."""
    with Progress() as progress:
        return asyncio.run(_answer(question, progress))


def pod_names(question: Question) -> list[str]:
    """The names of pods that begin as the question's does, for completion in a shell; never raises."""
    try:
        return asyncio.run(_names(question, PODS))
    except (GpufleetError, OSError, ValueError):
        # A shell that completes has nowhere to show an error.
        return []


async def _names(question: Question, kind: Kind) -> list[str]:
    async with connected(question) as (client, _, namespace):
        found: list[str] = []
        where = namespace if kind.namespaced else ""
        async for page in client.list_pages(kind, namespace=where, retry_limits=ONE_TRY):
            found += [_METADATA.decode(raw).metadata.name for raw in page.items or ()]
        return sorted(name for name in found if name.startswith(question.name))


def queues_of(question: Question, wanted: Wanted) -> QueuesAnswer:
    """How the queues stand: all of them, or with a name that queue and those below it."""
    with Progress() as progress:
        found = asyncio.run(_queues(question, wanted, progress))
    return only(found, question.name) if question.name else found


def queue_names(question: Question) -> list[str]:
    """The names of queues that begin as the question's does, for completion in a shell; never raises."""
    try:
        return asyncio.run(_names(question, FLEET_QUEUES))
    except (GpufleetError, OSError, ValueError):
        return []


async def _queues(question: Question, wanted: Wanted, progress: Progress) -> QueuesAnswer:
    async with connected(question) as (client, _, _):
        return await ask_for_queues(client, _settings(question), wanted, progress.say)


async def _answer(question: Question, progress: Progress) -> Answer:
    async with connected(question) as (client, _, namespace):
        return await ask(client, _settings(question), question.name, namespace, progress.say)


def _settings(question: Question) -> Settings:
    return Settings(
        identity="explain", scheduler_name=question.scheduler_name, lease_namespace=question.lease_namespace
    )


@contextlib.asynccontextmanager
async def connected(question: Question) -> AsyncIterator[Connection]:
    """The cluster of the question."""
    # Warnings about objects that cannot be read are part of the answer, so the log is silent.
    logging.getLogger("gpufleet").addHandler(logging.NullHandler())
    async with connect(question.cluster, connections=CONNECTIONS) as connection:
        yield connection
