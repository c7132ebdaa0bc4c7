"""The process that answers questions for the page: a question for each line on standard input.

An answer is the length of its JSON in eight bytes, then the JSON (``questions.Reply``). The process ends with
its input. So the engine, which computes for seconds on a large fleet, never keeps the page waiting.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.cluster.scheduler_lease import who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.document import as_written
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.command import facts_of
from gpufleet.doctor.diagnosis import diagnose
from gpufleet.doctor.live.gathering import gather
from gpufleet.doctor.report import report_of
from gpufleet.explain.inquiry import ask_of_picture
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.yaml_documents import EXPECTED, objects_of
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import GpufleetError, InputError
from gpufleet.overview.readings.engine_asking import engine_report_of
from gpufleet.overview.readings.engine_protocol import LENGTH
from gpufleet.overview.readings.followed_picture import FollowedPicture
from gpufleet.web.asking.questions import (
    Asked,
    HowQueuesStand,
    Problem,
    Question,
    Reply,
    WhatChangesBring,
    WhatIsWrong,
    WhyWorkWaits,
)
from gpufleet.whatif.command import answer_of, check
from gpufleet.whatif.request import Request, Submitted, read_add_nodes, read_set_quota

CONNECTIONS = len(WATCHED) + 6
"""A watch of each kind, and some for what is asked besides."""

LINE_BYTES_MAX = 8 << 20
"""A question has the changes of one query and a manifest, which the server bounds; as JSON a character has up
to six bytes.
"""
_DECODER: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)


class Answers:
    """Answers questions over what is followed."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self.picture = FollowedPicture(client)

    async def reply(self, question: Question) -> Reply:
        """The answer; what is wrong with the question or the cluster is one too."""
        try:
            return await self._reply(question)
        except InputError as error:
            value = "" if error.value is None else str(error.value)
            problem = Problem(
                error.problem, error.field, value, error.expected, is_input=True, where=error.where
            )
            return Reply(problem=problem)
        except (GpufleetError, OSError) as error:
            return Reply(problem=Problem(str(error)))
        except ExceptionGroup as group:
            known, others = group.split((GpufleetError, OSError))
            # A fault of ours must not be hidden by an error of the cluster that came with it.
            if known is None or others is not None:
                raise
            # Task groups wrap errors in groups; the innermost one has the words.
            first: BaseException = known
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            return Reply(problem=Problem(str(first)))

    async def _reply(self, question: Question) -> Reply:
        match question:
            case HowQueuesStand():
                picture, leading = await self.picture.now(), await who_leads(self._client, self._settings)
                return Reply(engine_report=engine_report_of(picture, leading, self._client, self._settings))
            case WhyWorkWaits(kind, namespace, name):
                seen = await self.picture.now(), await who_leads(self._client, self._settings)
                text = f"{kind}/{name}"
                found = await ask_of_picture(self._client, self._settings, text, namespace, seen, say=_silent)
                return Reply(explanation=found)
            case WhatChangesBring():
                return await self._plan(question)
            case WhatIsWrong():
                found_objects = await gather(self._client)
                facts = facts_of(found_objects, self._client.clock.now())
                return Reply(report=report_of(diagnose(facts, all_checks())))

    async def _plan(self, question: WhatChangesBring) -> Reply:
        request = Request(
            tuple(read_add_nodes(text) for text in question.add_nodes),
            question.remove_nodes,
            tuple(read_set_quota(text) for text in question.set_quotas),
            tuple(_submitted(question.manifest)),
            question.namespace,
        )
        check(request)
        if not is_subdomain(question.namespace):
            raise InputError("not a namespace", field="namespace", value=question.namespace)
        picture, leading = await self.picture.now(), await who_leads(self._client, self._settings)
        now = self._client.clock.now()
        settings = leading.settings(self._settings)
        return Reply(plan=answer_of(request, as_written(picture), settings, now, _silent))


def _submitted(manifest: str) -> Iterator[Submitted]:
    """The manifest, if it has objects. Raises InputError before the cluster is looked at."""
    if not manifest.strip():
        return
    file = Submitted("the manifest", manifest.encode())
    if not objects_of(file.content, file.name):
        raise InputError("holds no object", where=file.name, expected=EXPECTED)
    yield file


def _silent(_: str) -> None:
    """Shows no progress."""


def main(argument: str) -> None:
    """Answer until the input ends."""
    logging.getLogger("gpufleet").addHandler(logging.NullHandler())
    asyncio.run(_main(msgspec.json.decode(argument, type=Asked)))


async def _main(asked: Asked) -> None:
    path = Path(asked.kubeconfig) if asked.kubeconfig else None
    settings = Settings(
        identity="web", scheduler_name=asked.scheduler_name, lease_namespace=asked.lease_namespace
    )
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with connect(ClusterChoice(path, asked.context), connections=CONNECTIONS) as connection:
        answers = Answers(connection.client, settings)
        following = asyncio.create_task(answers.picture.run())
        try:
            while line := await reader.readline():
                body = msgspec.json.encode(await answers.reply(_DECODER.decode(line)))
                sys.stdout.buffer.write(LENGTH.pack(len(body)) + body)
                sys.stdout.buffer.flush()
                # Without its watches every further answer would be of an old cluster.
                if following.done():
                    following.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


if __name__ == "__main__":
    main(sys.argv[1])
