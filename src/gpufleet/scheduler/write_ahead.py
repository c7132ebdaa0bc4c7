"""Evictions for work with a nomination wait until the status of its queue, or of its pods, names it.

The next leader reads there for which work pods end (``cluster.queues.nomination_records``). So a leader that
dies between its decision and the write has evicted no pod, and one that dies later leaves a record of
whatever it evicted: the next leader goes on with the same work and the same pods.

All nominations of a queue that are decided together are one write, and queues are written beside each other.
A status has room for so many nominations; those beyond wait, with their evictions, until others have ended.
Each write of a status holds all its nominations, so a status is written again only after a pause that grows
with the duration of its last write: what got room meanwhile is written together.
While a status cannot be written, that is tried again; evictions that have waited for ``RECORD_WITHIN_S`` are
then refused, so that their work looks for another way, and are asked for again later.

Work of a queue that is not described, or of none, has no such status. Its evictions wait until the conditions
of its own pods name the nomination (``pod_nominations``).

A nomination may end before its evictions are asked for, for example because other room came free. Its pods
then stay, unless another nomination waits for them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gpufleet.cluster.queues import nomination_records
from gpufleet.engine.event import KeptPlaces
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan, EvictionRefusal, Victim
from gpufleet.kube.client import Client
from gpufleet.kube.codec.queue_status import nominations_patch
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.fleet_queues import NominationStatus
from gpufleet.kube.status import Conflict
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.identifiers import GangName, PodUid, QueueName
from gpufleet.scheduler.pod_nominations import Failing, PodNominations
from gpufleet.scheduler.queue_statuses import QueueStatuses

LOG = logging.getLogger(__name__)
RECORD_WITHIN_S = 60.0
"""As long as an eviction waits for an answer: the API server works on no request for longer."""

# Pauses between two tries: the server is busy or out of reach.
PAUSE_FIRST_S = 0.2
PAUSE_MOST_S = 5.0
WRITE_PAUSES = 3.0
"""The pause after a write, in durations of that write: an API server works on a large status for long, and
has most of its time for the evictions and Bindings that make room in it.
"""

POLL_EVERY_S = 1.0
"""How often it is asked whether nominations that a status has no room for have room by now."""

WRITES_AT_ONCE = 4
"""As many as statuses are written beside Bindings."""

Holder = PodUid | GangName


class Held(msgspec.Struct, frozen=True):
    """Evictions that wait, for which work, and since when."""

    plan: EvictionPlan
    holder: Holder
    since_s: float


class Write(msgspec.Struct, frozen=True):
    """Nominations that are to be written into the status of a queue, on this version of it."""

    queue: QueueName
    nominations: tuple[NominationStatus, ...]
    version: str


class WriteAhead:
    """Holds evictions back and releases them. ``kept`` are the engine's nominations at this moment."""

    def __init__(
        self,
        client: Client,
        statuses: QueueStatuses,
        pods: PodNominations,
        evictions: Evictions,
        kept: Callable[[], Sequence[KeptPlaces]],
        *,
        may_write: Callable[[], bool],
    ) -> None:
        self.client = client
        self.statuses = statuses
        self.pods = pods
        self.pods.written = self._wake_writer
        self.evictions = evictions
        self.kept = kept
        self.may_write = may_write
        self._held: list[Held] = []
        self.changes = 0
        """How often nominations came, or ended while their pods wait on: something new is to be written."""
        self._resting: set[QueueName] = set()
        self._failing: dict[QueueName, Failing] = {}
        self._at_once = asyncio.Semaphore(WRITES_AT_ONCE)
        self._wake = asyncio.Event()
        self._have_changed = True

    def hold(self, plan: EvictionPlan, holder: Holder) -> None:
        """Have a plan carried out as soon as the nomination of its work is written down."""
        self._held.append(Held(plan, holder, self.client.clock.monotonic_s()))
        self._wake.set()

    def changed(self) -> None:
        """A nomination came, or one ended of which the pods wait on."""
        self.changes += 1
        self._have_changed = True

    def after_round(self) -> None:
        """A round is over."""
        if self._have_changed or self.pods.is_rechecking:
            self._have_changed = False
            self.write_pods()

    def write_pods(self) -> None:
        """Have the nominations written of which no queue has a status."""
        kept = self.kept()
        # Asked after each round with a nomination: a status with thousands of them takes long to decode.
        described = {queue: self.statuses.has(queue) for queue in {one.queue for one in kept}}
        self.pods.update(one for one in kept if not described[one.queue])

    def _wake_writer(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Write and release until cancelled."""
        async with asyncio.TaskGroup() as group:
            recheck: asyncio.Task[None] | None = None
            while True:
                await self._wake.wait()
                self._wake.clear()
                for write in self.look():
                    # One write a status at a time: a second one would rest on a version that the first makes
                    # old.
                    self._resting.add(write.queue)
                    group.create_task(self._write(write))
                if self._held and (recheck is None or recheck.done()):
                    recheck = group.create_task(self._wake_later())

    async def _wake_later(self) -> None:
        await self.client.clock.sleep(POLL_EVERY_S)
        self._wake.set()

    def look(self) -> list[Write]:
        """Release the evictions that are written down; what is to be written for the others."""
        if not self._held:
            return []
        kept = self.kept()
        waiting = self._still_needed(kept)
        written = nomination_records.written(kept)
        # What still has to wait is put back below.
        self._held = []
        self._failing = {queue: one for queue, one in self._failing.items() if queue in waiting}
        writes = [self._look_at(queue, held, written.get(queue, ())) for queue, held in waiting.items()]
        return [one for one in writes if one is not None]

    def _still_needed(self, kept: Iterable[KeptPlaces]) -> dict[QueueName, list[tuple[Held, KeptPlaces]]]:
        """What is held, by queue, each with the nomination that needs it; the pods that none needs stay."""
        by_holder = {one.holder: one for one in kept}
        by_pod: dict[PodUid, KeptPlaces] = {}
        for one in kept:
            for uid in one.waits_for:
                # The first in order: the pod's end is owed to that nomination before all others.
                by_pod.setdefault(uid, one)
        found: dict[QueueName, list[tuple[Held, KeptPlaces]]] = {}
        for held in self._held:
            own = by_holder.get(held.holder)
            awaited = set() if own is None else set(own.waits_for)
            victims: dict[Holder | None, list[Victim]] = {}
            for victim in held.plan.victims:
                needs = own if victim.pod.uid in awaited else by_pod.get(victim.pod.uid)
                victims.setdefault(None if needs is None else needs.holder, []).append(victim)
            for victim in victims.pop(None, ()):
                words = "no work waits for its place any more"
                held.plan.asker.refused(EvictionRefusal(victim, Cause.NOT_NEEDED, words, 0.0))
            for holder, some in victims.items():
                if holder is not None:
                    plan = msgspec.structs.replace(held.plan, victims=tuple(some))
                    needs = by_holder[holder]
                    found.setdefault(needs.queue, []).append((Held(plan, holder, held.since_s), needs))
        return found

    def _look_at(
        self,
        queue: QueueName,
        waiting: Iterable[tuple[Held, KeptPlaces]],
        written: tuple[NominationStatus, ...],
    ) -> Write | None:
        """Release or refuse what waits for the status of a queue, and hold the rest."""
        version = self.statuses.version_of(queue)
        recorded = {} if version is None else {one.holder: one for one in version.status.nominations}
        has_room = {one.holder for one in written}
        is_due = False
        for held, needs in waiting:
            status = recorded.get(str(held.holder))
            is_recorded = status is not None and nomination_records.says(status, needs)
            if version is None:
                is_recorded = self.pods.stands(needs)
            problem = self._problem(held, needs) if version is None else self._problem_of(queue, held, needs)
            if is_recorded:
                self.evictions.submit(held.plan)
            elif problem:
                self.evictions.refuse(held.plan, Cause.NOT_RECORDED, problem)
            else:
                self._held.append(held)
                if version is None:
                    self.pods.write_again(needs)
                # What the status has no room for causes no write: only the end of another nomination makes
                # room.
                is_due |= str(held.holder) in has_room
        if version is None or not is_due or queue in self._resting:
            return None
        return Write(queue, written, version.version)

    def _is_late(self, held: Held) -> bool:
        return self.client.clock.monotonic_s() - held.since_s >= RECORD_WITHIN_S

    def _problem(self, held: Held, needs: KeptPlaces) -> str:
        """Why evictions for work of no queue wait no longer; "" if they wait on."""
        return self.pods.problem(needs, is_late=self._is_late(held))

    def _problem_of(self, queue: QueueName, held: Held, needs: KeptPlaces) -> str:
        """Why evictions for work of a queue wait no longer; "" if they wait on."""
        status = f"the status of FleetQueue {queue}, which is to say for which work it would end,"
        failing = self._failing.get(queue)
        if not nomination_records.has_room_for(needs):
            return f"{status} has no room for so many places"
        if failing is not None and self._is_late(held):
            return f"{status} cannot be written: {failing.words}"
        return ""

    async def _write(self, write: Write) -> None:
        try:
            pause_s = await self._paced(write)
            self._wake.set()  # What the write names is released before the pause.
            await self.client.clock.sleep(pause_s)
        finally:
            self._resting.discard(write.queue)
            self._wake.set()

    async def _paced(self, write: Write) -> float:
        """Write once; how long this status is then left as it is."""
        clock = self.client.clock
        async with self._at_once:
            began_s = clock.monotonic_s()
            words = await self._try(write)
            took_s = clock.monotonic_s() - began_s
        if not words:
            self._failing.pop(write.queue, None)
            return min(PAUSE_MOST_S, WRITE_PAUSES * took_s)
        before = self._failing.get(write.queue, Failing(0, ""))
        self._failing[write.queue] = Failing(before.times + 1, words)
        LOG.warning("a nomination was not written", extra={"queue": write.queue, "problem": words})
        pause_s: float = min(PAUSE_MOST_S, PAUSE_FIRST_S * 2**before.times)
        # Spread out, so that queues that failed together are not all written again at one moment.
        return pause_s * (0.5 + self.client.jitter.random())

    async def _try(self, write: Write) -> str:
        """Write once; what went wrong, or nothing."""
        if not self.may_write():
            return "leadership is not certain"
        try:
            body = nominations_patch(write.nominations, write.version)
            status = await self.statuses.write(write.queue, body, write.version)
        except KubeError as problem:
            if isinstance(problem, Conflict | OutcomeUnknown):
                with contextlib.suppress(KubeError):
                    # The watch may be behind; the next write must rest on the version that the server has.
                    await self.statuses.read_again(write.queue)
            return str(problem)
        # An older definition of the kind drops fields that it does not know, and answers with success.
        if status.nominations != write.nominations:
            return "the server keeps no such field: the definition of FleetQueue is that of another version"
        return ""
