"""Evicting pods as the engine asks: through the eviction API, as leader only, and nobody in vain.

The victims of one workload are a *plan*. Where disruption budgets may refuse some of them, these are asked
about first (a dry run), and evicted first; when one is refused, none of the others is evicted any more, and
the engine hears of all of them, for they would end without benefit. An answer that did not come is asked for
again: an eviction names the pod's uid, so it can be repeated. What stays unanswered for ``GIVE_UP_S``, and
what was granted and not begun after ``BEGINS_WITHIN_S``, counts as refused; the server itself is asked about
the latter, because our view of it may be old.

Refusals grow longer for a pod that is refused again and again: a budget that never lets go costs little.
"""

import asyncio
import enum
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from gpufleet.engine.instruction import WhyEvicted
from gpufleet.kube.client import Client
from gpufleet.kube.errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.outcome import OutcomeUnknown
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import Conflict, NotFound, ServerFailure, StatusError, TooManyRequests
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.fence import EPOCH, FENCED
from gpufleet.scheduler.metrics import Metrics

LOG = logging.getLogger(__name__)
GIVE_UP_S = 60.0
BEGINS_WITHIN_S = 60.0
PAUSE_FIRST_S = 0.2
PAUSE_MOST_S = 5.0
REFUSED_FIRST_S = 10.0
REFUSED_MOST_S = 160.0
BUDGET = "DisruptionBudget"
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


class Cause(enum.StrEnum):
    """Why an eviction does not happen."""

    BUDGET = "disruption-budget"
    FORBIDDEN = "forbidden"
    FENCED = "fenced"
    NO_ANSWER = "no-answer"
    NOT_BEGUN = "not-begun"
    IN_VAIN = "in-vain"


class Victim(msgspec.Struct, frozen=True):
    """A pod that is to end. ``guarded``: some disruption budget may have a word in it.

    ``regardless``: it was let in because it may be ended, and no budget that came later takes that back.
    Where the server refuses its eviction for a budget's sake, it is deleted.
    """

    pod: PodName
    queue: QueueName
    why: WhyEvicted
    note: str
    guarded: bool
    regardless: bool = False


class Plan(msgspec.Struct, frozen=True):
    """Pods that end for one workload, or for nobody: then each for itself."""

    victims: tuple[Victim, ...]
    together: bool


class Refusal(msgspec.Struct, frozen=True):
    """An eviction that did not happen, the server's words, and for how long it is not asked for again."""

    victim: Victim
    cause: Cause
    words: str
    for_s: float


class Evictions:
    """Carries plans out, several at a time.

    ``refused`` hears of each refusal, ``told`` of each pod that was told to end; ``ends`` says whether a pod
    is seen to end, or is gone.
    """

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        *,
        epoch: int,
        at_once: int,
        may_write: Callable[[], bool],
        ends: Callable[[PodUid], bool],
    ) -> None:
        self.client = client
        self.metrics = metrics
        self.annotations = {EPOCH: str(epoch)}
        self.may_write = may_write
        self.ends = ends
        self.refused: Callable[[Refusal], None] = lambda _refusal: None
        self.told: Callable[[Victim], None] = lambda _victim: None
        self._work: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue()
        self._at_once = asyncio.Semaphore(at_once)
        self._begins_by_s: OrderedDict[PodUid, tuple[float, Victim]] = OrderedDict()
        self._times_refused: dict[PodUid, int] = {}

    def submit(self, plan: Plan) -> None:
        """Have a plan carried out."""
        self._work.put_nowait(self._carry_out(plan))

    async def run(self) -> None:
        """Carry plans out until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(await self._work.get())
        finally:
            while not self._work.empty():
                self._work.get_nowait().close()

    def regard(self) -> None:
        """Look whether those who were told to end do."""
        now_s = self.client.clock.monotonic_s()
        while self._begins_by_s:
            uid, (due_s, victim) = next(iter(self._begins_by_s.items()))
            if due_s > now_s:
                return
            del self._begins_by_s[uid]
            if self.ends(uid):
                self._times_refused.pop(uid, None)
            else:
                self._work.put_nowait(self._look_after(victim))

    def next_due_s(self) -> float | None:
        """When to look again."""
        return next((due_s for due_s, _ in self._begins_by_s.values()), None)

    async def _look_after(self, victim: Victim) -> None:
        """A pod is not seen to end: it may be that nobody told us of it."""
        try:
            found = await self._read(victim.pod)
        except KubeError:
            self._begins_by_s[victim.pod.uid] = (self.client.clock.monotonic_s() + BEGINS_WITHIN_S, victim)
            return
        if found is not None and found.deletion_timestamp is None:
            self._refuse(victim, Cause.NOT_BEGUN, "the eviction was granted, and the pod does not end")

    async def _carry_out(self, plan: Plan) -> None:
        guarded = [victim for victim in plan.victims if victim.guarded]
        if not plan.together:
            await self._all_of(plan.victims, plan)
            return
        if len(plan.victims) > 1:
            for victim in guarded:
                if not await self._end(victim, plan.victims, dry_run=True):
                    return
        for number, victim in enumerate(guarded):
            if not await self._end(victim, [*guarded[number:], *_unguarded(plan)]):
                return
        await self._all_of(_unguarded(plan), plan)

    async def _all_of(self, victims: Iterable[Victim], plan: Plan) -> None:
        """These, at once. Of a plan in which one is refused now, the others have been told already."""
        async with asyncio.TaskGroup() as group:
            for victim in victims:
                group.create_task(self._end(victim, [victim]))
        LOG.info("pods are told to end", extra={"pods": len(plan.victims)})

    async def _end(self, victim: Victim, in_vain: Iterable[Victim], *, dry_run: bool = False) -> bool:
        """Evict a pod; if that is refused, the others ``in_vain`` are not to be evicted either."""
        refusal = await self._ask(victim, dry_run=dry_run)
        if refusal is None:
            if not dry_run:
                self._was_told(victim)
            return True
        self._refuse(victim, *refusal)
        for other in in_vain:
            if other != victim:
                words = f"{victim.pod} stays, and without its room this one would end in vain"
                self.refused(Refusal(other, Cause.IN_VAIN, words, 0.0))
        return False

    def _was_told(self, victim: Victim) -> None:
        due_s = self.client.clock.monotonic_s() + BEGINS_WITHIN_S
        self._begins_by_s[victim.pod.uid] = (due_s, victim)
        self.metrics.evictions.labels(victim.why.value, "evicted").inc()
        queue = self.metrics.queues_evicted.of(str(victim.queue))
        self.metrics.queue_evictions.labels(victim.why.value, queue).inc()
        self.told(victim)

    def _refuse(self, victim: Victim, cause: Cause, words: str) -> None:
        times = self._times_refused.get(victim.pod.uid, 0)
        self._times_refused[victim.pod.uid] = times + 1
        for_s = min(REFUSED_MOST_S, REFUSED_FIRST_S * 2**times)
        self.metrics.evictions.labels(victim.why.value, "refused").inc()
        self.metrics.evictions_refused.labels(cause.value).inc()
        said = {"pod": str(victim.pod), "cause": cause.value, "answer": words}
        LOG.warning("an eviction does not happen", extra=said)
        self._forget_ended()
        self.refused(Refusal(victim, cause, words, for_s))

    def _forget_ended(self) -> None:
        """Now and then; so the memory of refusals is bounded by the pods that there are."""
        if len(self._times_refused) % 1024 == 0:
            self._times_refused = {
                uid: times for uid, times in self._times_refused.items() if not self.ends(uid)
            }

    async def _ask(self, victim: Victim, *, dry_run: bool) -> tuple[Cause, str] | None:
        """Evict until there is an answer; None if the pod ends, or is gone."""
        clock = self.client.clock
        give_up_at_s = clock.monotonic_s() + GIVE_UP_S
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                async with self._at_once:
                    return await self._try(victim, dry_run=dry_run)
            except LeadershipLost:
                raise
            except KubeError as problem:
                words = str(problem)
                asked_s = problem.retry_after_s if isinstance(problem, StatusError) else None
            wait_s = max(asked_s or 0.0, pause_s * (0.5 + self.client.jitter.random()))
            if clock.monotonic_s() + wait_s > give_up_at_s:
                return Cause.NO_ANSWER, words
            await clock.sleep(wait_s)
            pause_s = min(PAUSE_MOST_S, 2 * pause_s)

    async def _try(self, victim: Victim, *, dry_run: bool) -> tuple[Cause, str] | None:
        """Ask once. Raises KubeError where it is worth asking again."""
        if not self.may_write():
            raise LeadershipLost("leadership is no longer certain, so nobody is evicted any more")
        pod = victim.pod
        try:
            await self.client.evict(
                pod.name,
                namespace=pod.namespace,
                uid=pod.uid,
                annotations=self.annotations,
                dry_run=dry_run,
            )
        except NotFound:
            return None
        except TooManyRequests as answer:
            if not any(cause.reason == BUDGET for cause in answer.details.causes):
                raise
            if not victim.regardless:
                return Cause.BUDGET, _words(answer)
            return await self._delete(pod, dry_run=dry_run)
        except Conflict:
            if await self._read(pod) is not None:
                raise
            return None
        except OutcomeUnknown as unknown:
            if victim.regardless and SEVERAL_BUDGETS in str(unknown):
                return await self._delete(pod, dry_run=dry_run)
            raise
        except ServerFailure:
            raise
        except StatusError as answer:
            cause = Cause.FENCED if FENCED in answer.message else Cause.FORBIDDEN
            return cause, str(answer)
        return None

    async def _delete(self, pod: PodName, *, dry_run: bool) -> tuple[Cause, str] | None:
        """End a pod that no budget may keep; it has its time to end all the same."""
        try:
            await self.client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid, dry_run=dry_run)
        except (NotFound, Conflict):
            return None
        except (TooManyRequests, ServerFailure):
            raise
        except StatusError as answer:
            return Cause.FORBIDDEN, str(answer)
        return None

    async def _read(self, pod: PodName) -> "_Seen.Meta | None":
        """The pod as the server has it, None where it, or its name, is another's by now."""
        try:
            body = await self.client.get(PODS, pod.name, namespace=pod.namespace)
        except NotFound:
            return None
        found = msgspec.json.decode(body, type=_Seen).metadata
        return found if found.uid == pod.uid else None


class _Seen(msgspec.Struct):
    class Meta(msgspec.Struct, rename="camel"):
        uid: str = ""
        deletion_timestamp: str | None = None

    metadata: Meta


def _unguarded(plan: Plan) -> list[Victim]:
    return [victim for victim in plan.victims if not victim.guarded]


def _words(answer: StatusError) -> str:
    """What the budget says, for people."""
    causes = [cause.message for cause in answer.details.causes if cause.message]
    return "; ".join(causes) or answer.message
