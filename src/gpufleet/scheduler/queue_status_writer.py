"""Telling people how their queues stand: the status of each FleetQueue, beside the decisions and never in
their way.

Every few seconds the engine's report is held against the statuses that the API server has, and what differs
is written: so a queue is written at most once a turn, a queue without any work is never written, and what
another writer put into a status does not stay. A write names the version that it rests on; one that comes too
late is refused and said anew in the next turn. What is wrong with a queue does not wait for its turn: it is
written as soon as it is known, however busy the scheduler is, with an Event. Nor do the places that are kept
for work until other pods have left, because the next leader needs them; those for which pods are to end are
written before that (``write_ahead``). Such a record also names the queues at whose cost the places are, and
for which the pods that get them are not evicted. It is taken out only when the statuses of these queues have
the pods, so that the next leader finds that in one of the two places at every moment.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from gpufleet.cluster.queues import nomination_records
from gpufleet.cluster.queues.budget_holds import read_hold
from gpufleet.cluster.queues.queue_conditions import BARS, IN_FORCE, MALFORMED, TROUBLES, bar_message
from gpufleet.cluster.queues.queue_figures import QueueFigures
from gpufleet.cluster.queues.queue_tracker import QueueTracker
from gpufleet.engine.instruction import QueueBar
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.queue_status import (
    QueueCondition,
    conditions_alone,
    queue_status,
    status_patch,
)
from gpufleet.kube.codec.times import micro_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.fleet_queues import (
    ACTIVE,
    NAMESPACES_CLEAR,
    Condition,
    FleetQueue,
    FleetQueueSpec,
    FleetQueueStatus,
    status_of,
)
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.replica import Identity
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.identifiers import QueueName
from gpufleet.scheduler.conditions_and_events import EventText, queue_event
from gpufleet.scheduler.queue_statuses import QueueStatuses

LOG = logging.getLogger(__name__)
# A person who looks at a queue sees figures that are seconds old.
TURN_EVERY_S = 5.0
START_OF_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
POLL_EVERY_S = 1.0
"""How often it is asked whether something else is wrong than before."""
URGENT_EVERY_S = 2.0
"""The least time between two turns, also for what is wrong."""
PART_OF_THE_LOOP = 0.02
"""A turn that takes long is followed by a pause so long that all of them take no more than this."""

WRITES_A_TURN = 200
WRITES_AT_ONCE = 4
"""Writes are spread over turns, few at once, beside the Bindings that use this API server."""

SKIPPED_MAX = 5
"""While binds are under way, so many turns in a row are left out."""

EVENTS_OF_QUEUES = "default"
"""Events of what has no namespace stand here."""


class Write(msgspec.Struct, frozen=True):
    """A status that is to be written over what was ``previous``."""

    queue: FleetQueue
    previous: FleetQueueStatus
    status: FleetQueueStatus


class QueueStatusWriter:
    """Holds reports against statuses.

    ``report`` is the engine's, and ``troubles`` what is wrong with the queues, and what else has to be
    written soon, as something that can be compared; ``unreadable`` are the FleetQueues of which a version
    cannot be decoded, by namespace and name; ``may_write`` is false once we do not lead.
    """

    def __init__(
        self,
        client: Client,
        cluster: Lookup,
        queues: QueueTracker,
        report: Callable[[], Iterable[QueueFigures]],
        unreadable: Callable[[], Mapping[tuple[str, str], Identity]],
        *,
        statuses: QueueStatuses,
        busy: Callable[[], bool],
        may_write: Callable[[], bool],
        troubles: Callable[[], object] = lambda: (),
        instance: str = "gpufleet",
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.queues = queues
        self.report = report
        self.unreadable = unreadable
        self.statuses = statuses
        self.busy = busy
        self.may_write = may_write
        self._next = 0
        self._skipped = 0
        self._unreadable_reported: dict[str, str] = {}
        self.troubles = troubles
        self.instance = instance
        self._known_troubles: object = None
        self._numbers = 0

    async def run(self) -> None:
        """Take turns until cancelled."""
        clock, pause_s = self.client.clock, TURN_EVERY_S
        last_s, self._known_troubles = clock.monotonic_s(), self._troubles_now()
        while True:
            await clock.sleep(POLL_EVERY_S)
            began_s, troubles = clock.monotonic_s(), self._troubles_now()
            if troubles == self._known_troubles or began_s - last_s < URGENT_EVERY_S:
                if began_s - last_s < pause_s:
                    continue
                if self.busy() and self._skipped < SKIPPED_MAX:
                    # Bindings go first, but not for ever: after some turns the statuses are written all the
                    # same.
                    self._skipped += 1
                    last_s = began_s
                    # Autoscalers act on what is reported, so only the writes are left out.
                    self.report()
                    pause_s = self._pause_after(began_s)
                    continue
            self._skipped, self._known_troubles, last_s = 0, troubles, began_s
            # The report is made once a turn for all queues; it costs a look at every waiting pod.
            writes = self.differences()
            pause_s = self._pause_after(began_s)
            await self._take_turn(writes)

    def _pause_after(self, began_s: float) -> float:
        return max(TURN_EVERY_S, (self.client.clock.monotonic_s() - began_s) / PART_OF_THE_LOOP)

    def _troubles_now(self) -> object:
        return self.troubles(), tuple(sorted(self.queues.problems.items()))

    def differences(self) -> list[Write]:
        """Every queue of which something else is to be told than its status says."""
        if not self.queues.known and not self.queues.problems:
            return []
        figures = {one.queue: one for one in self.report()}
        unreadable = self.unreadable()
        found = list(self._of_unreadable(unreadable))
        for seen in self.cluster.all(resources.FLEET_QUEUES):
            if ("", seen.metadata.name) in unreadable:
                continue
            # Our own last write may be newer than the watch; compared with that, it would be written twice.
            queue = self.statuses.newest(seen)
            previous = status_of(queue)
            status = self._status(queue, previous, figures.get(QueueName(queue.metadata.name)))
            if status is not None and status != previous:
                found.append(Write(queue, previous, status))
        return found

    def _of_unreadable(self, unreadable: Mapping[tuple[str, str], Identity]) -> Iterator[Write]:
        """What to tell of queues with a newest version that we cannot even decode: each problem once."""
        # What is readable again is forgotten, so that a problem that comes back is told again.
        uids = {identity.uid for identity in unreadable.values()}
        self._unreadable_reported = {
            uid: said for uid, said in self._unreadable_reported.items() if uid in uids
        }
        for (_, name), identity in unreadable.items():
            problem = self.queues.problems.get(QueueName(name))
            if problem is not None and self._unreadable_reported.get(identity.uid) != problem:
                metadata = Metadata(name=name, uid=identity.uid, resource_version=identity.resource_version)
                bad = QueueCondition(ACTIVE, holds=False, reason=MALFORMED, message=problem)
                now = self.client.clock.now()
                previous = FleetQueueStatus()
                status = conditions_alone(previous, [bad], None, now)
                yield Write(FleetQueue(metadata, FleetQueueSpec()), previous, status)

    def _status(
        self, queue: FleetQueue, previous: FleetQueueStatus, figures: QueueFigures | None
    ) -> FleetQueueStatus | None:
        """What is to be told of a queue; None where the engine has not heard of it yet."""
        name, generation = QueueName(queue.metadata.name), queue.metadata.generation
        now, problem = self.client.clock.now(), self.queues.problems.get(name)
        if problem is not None:
            bad = QueueCondition(ACTIVE, holds=False, reason=MALFORMED, message=problem)
            return conditions_alone(previous, [bad], generation, now)
        if figures is None:
            return None
        hold = read_hold(queue)
        conditions_now = [_active(name, figures.bar), *self._namespaces(name)]
        if hold is not None:
            conditions_now.append(hold.condition(self.queues.now_us()))
        status = queue_status(
            previous, conditions_now, figures, generation, now, self.queues.local_name_in(name)
        )
        return msgspec.structs.replace(status, draining_since=self._draining_since(name))

    def _draining_since(self, name: QueueName) -> str | None:
        """Since when a queue drains, for the next leader; None where it does not."""
        terms = self.queues.known.get(name)
        since_us = None if terms is None else terms.queue.draining_since_us
        return None if since_us is None else micro_time(START_OF_1970 + dt.timedelta(microseconds=since_us))

    def _namespaces(self, name: QueueName) -> Iterator[QueueCondition]:
        terms = self.queues.known.get(name)
        if terms is None or not terms.namespaces:
            return
        shared = self.queues.shared_namespaces(name)
        if not shared:
            yield QueueCondition(
                NAMESPACES_CLEAR, holds=True, reason="Clear", message="they are this queue's alone"
            )
            return
        first = list(shared.items())[:8]
        words = ", ".join(f"{namespace} is listed by {other} too" for namespace, other in first)
        message = f"{words}; of several queues the first by name has the namespace"
        yield QueueCondition(NAMESPACES_CLEAR, holds=False, reason="ListedTwice", message=message)

    def _some(self, writes: list[Write]) -> list[Write]:
        """The writes of one turn, at most ``WRITES_A_TURN``: troubles first, then on from the last turn's
        end.
        """
        if len(writes) <= WRITES_A_TURN:
            return writes
        start = self._next % len(writes)
        # So that each turn begins where the last one ended, and every queue has its turn.
        self._next = start + WRITES_A_TURN
        in_turn = writes[start:] + writes[:start]
        return sorted(in_turn, key=lambda one: trouble(one) is None)[:WRITES_A_TURN]

    async def _take_turn(self, writes: list[Write]) -> None:
        """Write pods that are not evicted for a queue before the records that say so, too, are taken out."""
        chosen = self._some(writes)
        gaining = [one for one in chosen if gains_immune_pods(one)]
        written = await self._write_all([with_records_kept(one) for one in gaining])
        # Not while a queue that gains pods waits for a later turn: the record would be gone before the pods
        # are named.
        is_safe = written and len(gaining) == sum(map(gains_immune_pods, writes))
        others = (one for one in chosen if not gains_immune_pods(one))
        await self._write_all([one if is_safe else with_records_kept(one) for one in others])

    async def _write_all(self, writes: list[Write]) -> bool:
        """Whether all of them were written."""
        # One iterator for all workers, so that each write is made once.
        queued, written = iter(writes), list[bool]()

        async def work() -> None:
            for one in queued:
                written.append(await self._write(one))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(WRITES_AT_ONCE, len(writes))):
                group.create_task(work())
        return all(written)

    async def _write(self, write: Write) -> bool:
        """Whether it was written; what was not is seen again in the next turn."""
        if not self.may_write():
            return False
        metadata = write.queue.metadata
        body = status_patch(write.status, metadata.resource_version)
        try:
            await self.statuses.write(QueueName(metadata.name), body, metadata.resource_version)
            problem = self.queues.problems.get(QueueName(metadata.name))
            if problem is not None:
                self._unreadable_reported[metadata.uid] = problem
            await self._write_event(write)
        except (Conflict, NotFound):
            # The queue is newer than we know, or gone: the next turn sees it as it is.
            self._known_troubles = None
            return False
        except KubeError as failed:
            extra = {"queue": metadata.name, "problem": str(failed)}
            LOG.warning("a queue's status was not written", extra=extra)
            return False
        return True

    async def _write_event(self, write: Write) -> None:
        """What is wrong with a queue, where that is news."""
        wrong = trouble(write)
        if wrong is None:
            return
        self._numbers += 1
        metadata, moment = write.queue.metadata, self.client.clock.now()
        # A name has 253 characters at most, and the moment and the number need some.
        name = f"{metadata.name[:200]}.{int(moment.timestamp() * 1e6):x}.q{self._numbers:x}"
        said = EventText("Warning", wrong.reason, "Reading", wrong.message)
        body = queue_event(metadata.name, metadata.uid, said, self.instance, name, moment)
        await self.client.create(resources.EVENTS, body, name=name, namespace=EVENTS_OF_QUEUES)


def gains_immune_pods(write: Write) -> bool:
    """Whether a write names pods that are not evicted for the queue and that its status does not name yet."""
    return not set(write.status.immune_pods) <= set(write.previous.immune_pods)


def with_records_kept(write: Write) -> Write:
    """The write without taking out what the status says of places that are at other queues' cost."""
    now = {one.holder for one in write.status.nominations}
    kept = [one for one in write.previous.nominations if one.immune_to and one.holder not in now]
    nominations = nomination_records.joined(kept, write.status.nominations)
    status = msgspec.structs.replace(write.status, nominations=nominations)
    return msgspec.structs.replace(write, status=status)


def trouble(write: Write) -> Condition | None:
    """What a write says anew of why a queue is not in force; None where it says no such thing."""
    found = {one.type: one for one in write.status.conditions}.get(ACTIVE)
    if found is None or found.status != "False" or found.reason not in TROUBLES:
        return None
    before = {one.type: one for one in write.previous.conditions}.get(ACTIVE)
    previous = None if before is None else (before.status, before.reason, before.message)
    return None if previous == (found.status, found.reason, found.message) else found


def _active(name: QueueName, bar: QueueBar | None) -> QueueCondition:
    words = None if bar is None else BARS.get(bar.why)
    if bar is None or words is None:
        return QueueCondition(ACTIVE, holds=True, reason=IN_FORCE, message="its quotas are in force")
    reason, message = words
    who = "the queue" if bar.queue == name else f"{bar.queue}, above it,"
    return QueueCondition(ACTIVE, holds=False, reason=reason, message=bar_message(message, who, bar))
