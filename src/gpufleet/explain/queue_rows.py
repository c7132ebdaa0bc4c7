"""The rows of the answer about queues, from the engine's figures.

What was written into a FleetQueue and what is wrong with it come from the object (``queue_words``).
"""

import datetime as dt

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.queues.queue_conditions import BARS, bar_message
from gpufleet.cluster.verdict_words import GANG_MALFORMED
from gpufleet.engine.explanations.causes import ABOUT_TO_RUN
from gpufleet.engine.explanations.queue_report import QueueUse, ResourceUse
from gpufleet.engine.explanations.waiting_order import Queued
from gpufleet.explain.queue_answer import (
    MALFORMED,
    WORDS_MAX,
    Problem,
    QueueRow,
    ResourceRow,
    WaitingRow,
)
from gpufleet.explain.queue_figures import STARTS, QueueCounts
from gpufleet.explain.queue_reservations import row_of, why_kept_off
from gpufleet.explain.queue_words import pending_rows, policy_row, unread_row
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.quota_amounts import written_amount
from gpufleet.kube.codec.times import whole_time
from gpufleet.model.quantity import NANO_PER_MILLI, Quantity

NOT_DESCRIBED = "NotDescribed"
LISTED_TWICE = "ListedTwice"
"""A problem that leaves the queue in force; all others do not."""


def rows_by_engine(facts: Facts, counts: QueueCounts) -> list[QueueRow]:
    """What the engine says, and the queues that it was never told of because they cannot be read."""
    entries = facts.pods.entries
    reserved = {one.queue: row_of(one) for one in counts.engine.reservations()}
    found = []
    for name, use in counts.uses.items():
        share = counts.shares.get(name)
        owed = {} if share is None else {one.resource: one.owed for one in share.amounts}
        waiting = _all_waiting(facts, counts, counts.waiting.get(name, []))
        waiting += [_starting(entries[uid]) for uid in counts.starting.get(name, []) if uid in entries]
        problems = _problems(facts, use)
        found.append(
            QueueRow(
                name,
                use.parent,
                active=not any(one.reason != LISTED_TWICE for one in problems),
                problems=problems,
                policy=policy_row(facts.picture.find(resources.FLEET_QUEUES, name)),
                share=None if share is None else _milli(share.share_milli),
                dominant_resource=None if share is None else share.dominant,
                resources=tuple(_resource(one, owed.get(one.resource)) for one in use.resources),
                pending=pending_rows(counts.pending[name]),
                waiting=tuple(waiting),
                reservation=reserved.get(name),
            )
        )
    unread = facts.pods.reader.queues.problems
    for name in sorted(set(unread) - set(counts.uses)):
        queue = facts.picture.find(resources.FLEET_QUEUES, name)
        found.append(unread_row(name, unread[name], queue))
    return found


def _problems(facts: Facts, use: QueueUse) -> tuple[Problem, ...]:
    book = facts.pods.reader.queues
    malformed = book.problems.get(use.queue)
    if malformed is not None:
        return (Problem(MALFORMED, malformed),)
    if not use.is_described:
        said = f"queue {harmless(use.queue)} is not described: create it, or correct the pods' label"
        return (Problem(NOT_DESCRIBED, said),)
    found = []
    if use.bar is not None and use.bar.why in BARS:
        reason, message = BARS[use.bar.why]
        who = "the queue" if use.bar.queue == use.queue else f"{harmless(use.bar.queue)}, above it,"
        found.append(Problem(reason, bar_message(message, who, use.bar)))
    for namespace, other in book.shared_namespaces(use.queue).items():
        said = f"{harmless(namespace)} is listed by {harmless(other)} too, which has it"
        found.append(Problem(LISTED_TWICE, said))
    return tuple(found)


def _milli(share_milli: int | None) -> str | None:
    return None if share_milli is None else str(Quantity(share_milli * NANO_PER_MILLI))


def _resource(use: ResourceUse, owed: int | None) -> ResourceRow:
    def amount(units: int | None) -> str | None:
        return None if units is None else written_amount(use.resource, units)

    return ResourceRow(
        use.resource,
        written_amount(use.resource, use.used),
        "0",
        written_amount(use.resource, use.nominal),
        written_amount(use.resource, use.borrowed),
        written_amount(use.resource, use.lent),
        amount(owed),
        amount(use.available),
        amount(use.borrowing_limit),
        amount(use.lending_limit),
        amount(use.hard_limit),
        written_amount(use.resource, use.protected),
    )


def _all_waiting(facts: Facts, counts: QueueCounts, line: list[Queued]) -> list[WaitingRow]:
    """All that waits in a queue; for the first ``WORDS_MAX``, also which reservation keeps them off."""
    engine = counts.engine
    spoken = line[:WORDS_MAX] if engine.reservations() else []
    why = [why_kept_off(engine, one) for one in spoken] + [""] * (len(line) - len(spoken))
    return [
        _waiting(one, facts.pods.entries.get(one.uid), words, _cause(facts, counts, one))
        for one, words in zip(line, why, strict=True)
    ]


def _cause(facts: Facts, counts: QueueCounts, queued: Queued) -> str:
    """The cause by which a workload waits; the engine is not told of a gang whose members contradict."""
    if queued.gang is not None and facts.gangs.problem(queued.gang):
        return GANG_MALFORMED
    return counts.engine.cause(queued.uid)


def _waiting(queued: Queued, entry: Entry | None, why: str, cause: str) -> WaitingRow:
    namespace, name = ("", "") if entry is None else (entry.name.namespace, entry.name.name)
    if queued.gang is not None:
        namespace, name = queued.gang.split("/")[1], queued.gang.rpartition("/")[2]
    return WaitingRow(
        "pod" if queued.gang is None else "gang",
        namespace,
        name,
        queued.pods,
        queued.priority,
        queued.reason,
        queued.position,
        _created(entry),
        why,
        cause,
    )


def _starting(entry: Entry) -> WaitingRow:
    priority = 0 if entry.meaning is None else entry.meaning.priority
    namespace, name, created = entry.name.namespace, entry.name.name, _created(entry)
    return WaitingRow("pod", namespace, name, 1, priority, STARTS, created=created, cause=ABOUT_TO_RUN)


def _created(entry: Entry | None) -> str:
    if entry is None or entry.meaning is None:
        return ""
    created = dt.datetime.fromtimestamp(entry.meaning.created_at_us // 1_000_000, dt.UTC)
    return whole_time(created)
