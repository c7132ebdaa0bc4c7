"""How the queues stand, with read-only calls: by the engine, or by what a scheduler wrote last.

The engine is asked over everything that decisions depend on, as for a pod (``inquiry``). A user who may not
list that still gets the statuses of the FleetQueues, and is told so.
"""

import asyncio
import enum

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.progress import ENGINE, Say
from gpufleet.cluster.scheduler_lease import Leading, who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import INDISPENSABLE, Picture, take_picture
from gpufleet.explain.queue_answer import SCHEMA, AnswerSource, QueueRow, QueuesAnswer
from gpufleet.explain.queue_statuses import rows_by_status
from gpufleet.explain.queue_tree import children_of, in_tree_order
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.times import whole_time
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.phrases import listed

ONLY_QUEUES = tuple(one for one in WATCHED if one.kind == resources.FLEET_QUEUES)
"""What is listed where the written statuses are asked for: no pods and no nodes."""

AS_WRITTEN = "these figures are what a scheduler wrote into the FleetQueues last; they tell no positions"
NONE_YET = "there is no FleetQueue, so nothing is limited: `kubectl explain fq.spec` says how to write one"
RIGHTS = "the rights of the ClusterRole gpufleet-explain, bound to you by an administrator"


class Wanted(enum.Enum):
    """The source of an answer: the engine if possible (AUTO), only the engine, or written statuses."""

    AUTO = "auto"
    ENGINE = "engine"
    STATUS = "status"


async def ask_for_queues(client: Client, settings: Settings, wanted: Wanted, say: Say) -> QueuesAnswer:
    """All queues. Raises InputError where FleetQueues may not be listed."""
    say("reading the cluster")
    watched = ONLY_QUEUES if wanted is Wanted.STATUS else WATCHED
    async with asyncio.TaskGroup() as group:
        listing = group.create_task(take_picture(client, watched))
        lease = group.create_task(who_leads(client, settings))
    picture, leading = listing.result(), lease.result()
    if resources.FLEET_QUEUES in picture.forbidden:
        raise InputError("you may not list fleetqueues, which this answer needs", expected=RIGHTS)
    missing = sorted(kind.plural for kind in picture.forbidden if kind in INDISPENSABLE)
    if missing and wanted is Wanted.ENGINE:
        problem = f"you may not list {listed(missing)} of the whole cluster, which the engine needs"
        raise InputError(problem, expected=f"{RIGHTS}; or --from status")
    at = whole_time(client.clock.now())
    if not _any_queue(picture):
        return QueuesAnswer(SCHEMA, AnswerSource.STATUS, at, notes=(NONE_YET,))
    if missing or wanted is Wanted.STATUS:
        why = [f"you may not list {listed(missing)} of the whole cluster"] if missing else []
        rows = in_tree_order(rows_by_status(picture))
        return QueuesAnswer(
            SCHEMA, AnswerSource.STATUS, at, tuple(rows), (*why, AS_WRITTEN, *_leader(leading))
        )
    say(ENGINE)
    rows = in_tree_order(_by_engine(Facts(picture, leading.settings(settings), client.clock)))
    return QueuesAnswer(SCHEMA, AnswerSource.ENGINE, at, tuple(rows), (*_leader(leading), *_gaps(picture)))


def _any_queue(picture: Picture) -> bool:
    unreadable = any(seen.kind == resources.FLEET_QUEUES for seen in picture.unreadable)
    return unreadable or bool(picture.objects.get(resources.FLEET_QUEUES))


def _by_engine(facts: Facts) -> list[QueueRow]:
    """Loads the engine, which takes a second."""
    from gpufleet.explain.queue_figures import count_queues
    from gpufleet.explain.queue_rows import rows_by_engine

    return rows_by_engine(facts, count_queues(facts))


def only(answer: QueuesAnswer, name: str) -> QueuesAnswer:
    """The queue of that name and all below it. Raises InputError for a name that no queue has."""
    rows = list(answer.queues)
    by_name = {row.name: row for row in rows}
    if name not in by_name:
        near = nearest(name, by_name)
        meant = f"did you mean {harmless(near)}?" if near is not None else f"there are {listed(by_name)}"
        expected = meant if by_name else "there is none; see `gpufleet queues`"
        raise InputError(f"no queue of that name: {printable(name)}", expected=expected)
    children = children_of(rows)
    kept, level = {name}, [name]
    while level:
        below = [row.name for row in children.get(level.pop(), []) if row.name not in kept]
        kept.update(below)
        level += below
    return QueuesAnswer(
        answer.schema, answer.source, answer.at, tuple(row for row in rows if row.name in kept), answer.notes
    )


def _leader(leading: Leading) -> list[str]:
    if leading.problem:
        return [f"{leading.problem}: nothing starts; {leading.way_out}"]
    return [leading.note] if leading.note else []


def _gaps(picture: Picture) -> list[str]:
    if not picture.forbidden:
        return []
    kinds = ", ".join(sorted({kind.plural for kind in picture.forbidden}))
    return [f"you may not list {kinds}: what they would have added is missing here"]
