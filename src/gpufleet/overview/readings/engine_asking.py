"""Asks the engine over the cluster as it is, as ``gpufleet queues`` and ``explain`` do.

A person without the right to list all that decisions depend on gets what a scheduler wrote into the
FleetQueues, and is told so.
"""

import asyncio
import datetime as dt
import time

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.gang_tracker import GangRecord
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.scheduler_lease import Leading, who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import INDISPENSABLE, Picture, take_picture
from gpufleet.explain.queue_answer import SCHEMA, AnswerSource, QueueRow, QueuesAnswer
from gpufleet.explain.queue_inquiry import AS_WRITTEN
from gpufleet.explain.queue_statuses import rows_by_status
from gpufleet.explain.queue_tree import in_tree_order
from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import whole_time
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName
from gpufleet.model.phrases import listed
from gpufleet.overview.rows.engine_report import EngineReport, GangReport


async def ask_engine(client: Client, settings: Settings) -> EngineReport:
    """The answer. Raises KubeErrors; what may not be listed is said in the notes."""
    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        listing = group.create_task(take_picture(client, WATCHED))
        lease = group.create_task(who_leads(client, settings))
    found = engine_report_of(listing.result(), lease.result(), client, settings)
    return msgspec.structs.replace(found, took_s=time.monotonic() - began_s)


def engine_report_of(picture: Picture, leading: Leading, client: Client, settings: Settings) -> EngineReport:
    """The answer over a picture, which takes the engine some time; of the client only the clock is read."""
    at = whole_time(client.clock.now())
    missing = sorted(kind.plural for kind in picture.forbidden if kind in INDISPENSABLE)
    leader = f"{leading.problem}: nothing starts; {leading.way_out}" if leading.problem else ""
    if missing:
        rows = tuple(in_tree_order(rows_by_status(picture)))
        notes = (f"you may not list {listed(missing)} of the whole cluster", AS_WRITTEN)
        answer = QueuesAnswer(SCHEMA, AnswerSource.STATUS, at, rows)
        return EngineReport(answer, leader=leader, notes=notes, by_engine=False)
    facts = Facts(picture, leading.settings(settings), client.clock)
    described, causes = _rows(facts)
    answer = QueuesAnswer(SCHEMA, AnswerSource.ENGINE, at, tuple(in_tree_order(described)))
    held = {
        str(uid): entry.held.message for uid, entry in facts.pods.entries.items() if entry.held is not None
    }
    gangs = tuple(_gang(facts, name, record, causes) for name, record in sorted(facts.gangs.records.items()))
    present = tuple(one for one in gangs if one.pods)
    return EngineReport(answer, present, causes, held, leader, _gaps(picture))


def _rows(facts: Facts) -> tuple[list[QueueRow], dict[str, str]]:
    """The queues, and where none is described the causes of pods that wait. Loads the engine, which takes a
    second.
    """
    from gpufleet.explain.queue_figures import count_queues
    from gpufleet.explain.queue_rows import rows_by_engine

    counts = count_queues(facts)
    rows = rows_by_engine(facts, counts)
    if counts.waiting:
        return rows, {}
    waits = (uid for uid, entry in facts.pods.entries.items() if entry.place is PodStage.WAITING)
    return rows, {str(uid): cause for uid in waits if (cause := counts.engine.cause(uid))}


def _gang(facts: Facts, name: GangName, record: GangRecord, causes: dict[str, str]) -> GangReport:
    entries = [entry for entry in record.pods.values() if entry.object.metadata.deletion_timestamp is None]
    engine_gang = record.engine_gang
    _, _, path = name.partition("/")
    return GangReport(
        path.partition("/")[0],
        path.partition("/")[2],
        _queue(engine_gang, entries),
        0 if engine_gang is None else engine_gang.min_members,
        len(entries),
        sum(entry.place is PodStage.PLACED for entry in entries),
        sum(0 if entry.meaning is None else entry.meaning.shape.gpu.total_milli for entry in entries),
        _created(engine_gang, entries),
        facts.gangs.problem(name),
        next((causes[uid] for uid in map(str, record.pods) if uid in causes), ""),
        tuple(sorted(entry.name.name for entry in entries)),
    )


def _queue(engine_gang: Gang | None, entries: list[Entry]) -> str:
    if engine_gang is not None:
        return str(engine_gang.queue)
    return next((str(entry.meaning.queue) for entry in entries if entry.meaning is not None), "")


def _created(engine_gang: Gang | None, entries: list[Entry]) -> str:
    times = [entry.meaning.created_at_us for entry in entries if entry.meaning is not None]
    at_us = engine_gang.created_at_us if engine_gang is not None else min(times, default=0)
    return whole_time(dt.datetime.fromtimestamp(at_us / 1_000_000, dt.UTC)) if at_us else ""


def _gaps(picture: Picture) -> tuple[str, ...]:
    if not picture.forbidden:
        return ()
    kinds = listed(sorted({kind.plural for kind in picture.forbidden}))
    return (f"you may not list {kinds}: what they would have added is missing",)
