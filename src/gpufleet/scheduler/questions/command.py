"""A question as a command: finds the cluster, asks, and says what takes long.

The kernels of the engine are compiled once for each version of gpufleet, which takes a minute;
the scheduler and ``make setup`` leave them in the cache. Whoever asks first of all is told why it takes
so long.
"""

import asyncio
import contextlib
import logging
import random
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kubeconfig import Overrides
from gpufleet.kube.objects.metadata import PartialObject
from gpufleet.kube.resources import FLEET_QUEUES, PODS, Kind
from gpufleet.model.errors import GpufleetError
from gpufleet.scheduler.questions.answer import Answer
from gpufleet.scheduler.questions.inquiry import ENGINE, ask
from gpufleet.scheduler.questions.queue_answer import QueuesAnswer
from gpufleet.scheduler.questions.queue_inquiry import Wanted, ask_for_queues, only
from gpufleet.scheduler.settings import Settings

_METADATA = msgspec.json.Decoder(PartialObject)
CONNECTIONS = 8
PATIENCE_S = 1.0
"""So long nothing is said of what is being done."""

LONG_S = 8.0
COMPILING = "its kernels may have to be compiled, once for each version, which takes about a minute"


class Question(msgspec.Struct, frozen=True):
    """What is asked, and of which cluster; empty fields leave it to the kubeconfig."""

    name: str
    namespace: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    scheduler_name: str = "gpufleet"
    lease_namespace: str = "gpufleet-system"


class Progress:
    """Says on standard error what is being done once that takes longer than a second."""

    def __init__(self) -> None:
        self.doing = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def end(self) -> None:
        """There is nothing more to say."""
        self._ended.set()
        self._thread.join()

    def say(self, doing: str) -> None:
        """This is being done from now on."""
        self.doing = doing

    def _watch(self) -> None:
        said, since_s, warned = "", time.monotonic(), False
        while not self._ended.wait(PATIENCE_S):
            if self.doing != said:
                said, since_s = self.doing, time.monotonic()
                sys.stderr.write(f"gpufleet: {said} ...\n")
            elif said == ENGINE and not warned and time.monotonic() - since_s > LONG_S:
                warned = True
                sys.stderr.write(f"gpufleet: {COMPILING}\n")


def answer_of(question: Question) -> Answer:
    """Ask, and wait for the answer."""
    progress = Progress()
    progress.begin()
    try:
        return asyncio.run(_answer(question, progress))
    finally:
        progress.end()


def pod_names(question: Question) -> list[str]:
    """The names of pods that begin as the question's does, for completion in a shell; never raises."""
    try:
        return asyncio.run(_names(question, PODS))
    except (GpufleetError, OSError, ValueError):
        # A shell that completes has nowhere to show an error.
        return []


async def _names(question: Question, kind: Kind) -> list[str]:
    async with connected(question) as (client, namespace):
        found: list[str] = []
        where = namespace if kind.namespaced else ""
        async for page in client.list_pages(kind, namespace=where, patience=ONE_TRY):
            found += [_METADATA.decode(raw).metadata.name for raw in page.items or ()]
        return sorted(name for name in found if name.startswith(question.name))


def queues_of(question: Question, wanted: Wanted) -> QueuesAnswer:
    """How the queues stand: all of them, or with a name that queue and those below it."""
    progress = Progress()
    progress.begin()
    try:
        found = asyncio.run(_queues(question, wanted, progress))
    finally:
        progress.end()
    return only(found, question.name) if question.name else found


def queue_names(question: Question) -> list[str]:
    """The names of queues that begin as the question's does, for completion in a shell; never raises."""
    try:
        return asyncio.run(_names(question, FLEET_QUEUES))
    except (GpufleetError, OSError, ValueError):
        return []


async def _queues(question: Question, wanted: Wanted, progress: Progress) -> QueuesAnswer:
    async with connected(question) as (client, _):
        return await ask_for_queues(client, _settings(question), wanted, progress.say)


async def _answer(question: Question, progress: Progress) -> Answer:
    async with connected(question) as (client, namespace):
        return await ask(client, _settings(question), question.name, namespace, progress.say)


def _settings(question: Question) -> Settings:
    return Settings(
        identity="explain", scheduler_name=question.scheduler_name, lease_namespace=question.lease_namespace
    )


@contextlib.asynccontextmanager
async def connected(question: Question) -> AsyncIterator[tuple[Client, str]]:
    """The cluster of the question, and the namespace that is meant."""
    # What the books log as a scheduler is part of the answer.
    logging.getLogger("gpufleet").addHandler(logging.NullHandler())
    overrides = Overrides(context=question.context, namespace=question.namespace)
    access = find_access(kubeconfig=question.kubeconfig, overrides=overrides)
    transport = HttpTransport(access, connections=CONNECTIONS)
    try:
        namespace = question.namespace or access.namespace or "default"
        yield Client(transport, MachineClock(), random.Random()), namespace
    finally:
        await transport.close()
