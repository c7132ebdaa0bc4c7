"""A process that looks at a cluster once and plans a drain: what becomes of work, and which nodes come next.

It reads one ``PlanningAsked`` from its standard input and prints one ``PlanningAnswer``. A daemon that asks
now and then so keeps neither the engine nor a picture of the cluster in its memory.
"""

import asyncio
import datetime as dt
import logging
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpufleet.cluster.scheduler_lease import who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import picture_of
from gpufleet.cluster.snapshots.document import as_written
from gpufleet.cluster.watching.picture import CONNECTIONS, Picture
from gpufleet.drain.facts import DrainRequest, asked_engine, question_of
from gpufleet.drain.plan import Way
from gpufleet.drain.planner import next_nodes, plan_drain
from gpufleet.drain.planning_process import PlanningAsked
from gpufleet.drain.planning_question import PlanningAnswer, PlanningQuestion
from gpufleet.drain.question import DrainRules
from gpufleet.files.regular import read_standard_input
from gpufleet.kube import resources
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import GpufleetError

NO_PLACES_KEPT = "no scheduler keeps places"
QUESTION_BYTES_MAX = 64 << 20
"""Names of ten thousand nodes are some megabytes."""


def answer_on(
    asked: PlanningQuestion, picture: Picture, settings: Settings, at: dt.datetime
) -> PlanningAnswer:
    """The answer on a picture of a cluster. Nodes that are gone are left out."""
    there = {name for _, name in picture.objects.get(resources.NODES, ())}
    facts, engine, now_us = asked_engine(picture, settings, at)

    def request(nodes: Iterable[str], rules: DrainRules) -> DrainRequest:
        return DrainRequest(tuple(one for one in nodes if one in there), rules, only_gpus=True)

    starts: dict[str, tuple[str, ...]] = {}
    for name, start in asked.starts.items():
        # A trial for each question: places that one answer took are free for the next.
        with engine.relocating() as places:
            rules = DrainRules(max(1, start.most), start.deadline_s, asked.away_s)
            question = question_of(request(start.nodes, rules), facts, engine, now_us)
            starts[name] = tuple(next_nodes(question, places)) if question.nodes else ()
    # The nodes are closed already, all of them: one wave, in which each has a deadline of its own.
    closed = msgspec.structs.replace(
        request(asked.closed, DrainRules(max(1, len(asked.closed)), away_s=asked.away_s)),
        later=tuple(one for one in asked.later if one in there),
        until_us=asked.closed,
    )
    if not closed.nodes:
        return PlanningAnswer(None, starts)
    with engine.relocating() as places:
        when = whole_time(at.astimezone(dt.UTC))
        plan = plan_drain(question_of(closed, facts, engine, now_us), places, when)
        return PlanningAnswer(plan, starts)


def main(question: bytes) -> bytes:
    """The answer to one question, both as JSON."""
    logging.getLogger("gpufleet").addHandler(logging.NullHandler())
    asked = msgspec.json.decode(question, type=PlanningAsked)
    return msgspec.json.encode(_answer(asked))


def _answer(asked: PlanningAsked) -> PlanningAnswer:
    try:
        return asyncio.run(_look(asked))
    except ExceptionGroup as group:
        known, others = group.split((GpufleetError, OSError))
        # A fault of ours must not be hidden by an error of the cluster that came with it.
        if known is None or others is not None:
            raise
        # Task groups wrap errors in groups; the innermost one has the words.
        first: BaseException = known
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return PlanningAnswer(problem=str(first))
    except (GpufleetError, OSError) as error:
        return PlanningAnswer(problem=str(error))


async def _look(asked: PlanningAsked) -> PlanningAnswer:
    choice = ClusterChoice(Path(asked.kubeconfig) if asked.kubeconfig else None, asked.context)
    async with connect(choice, connections=CONNECTIONS) as (client, _, _):
        leading = await who_leads(client, asked.settings)
        picture, settings, at = await picture_of(client, asked.settings, lambda _: None)
    answer = answer_on(asked.question, as_written(picture), settings, at)
    moves = answer.plan is not None and any(work.way is Way.MOVES for work in answer.plan.work)
    if leading.problem and moves:
        return msgspec.structs.replace(answer, problem=f"{NO_PLACES_KEPT}: {leading.problem}")
    return answer


if __name__ == "__main__":
    sys.stdout.buffer.write(main(read_standard_input(QUESTION_BYTES_MAX)))
