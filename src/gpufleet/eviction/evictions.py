"""Evicting pods through the eviction API, with the right to write checked before each request.

A bound pod cannot be unbound. Evicting it gives it the condition DisruptionTarget, keeps to disruption
budgets and lets its controller make another. A pod without a controller is only deleted where its owner asked
for that.

The victims of one workload are a plan. Where disruption budgets may refuse some of them, these are asked
about first (a dry run), and evicted first. When one is refused, none of the others is evicted any more,
because they would end without benefit, and the asker is told of all of them. An answer that did not come is
asked for again, after the server's Retry-After where it names one: an eviction names the pod's uid, so it can
be repeated. What stays unanswered for ``GIVE_UP_S``, and what was granted and not begun after
``BEGINS_WITHIN_S``, counts as refused; the server itself is asked about the latter, because our view of it
may be old. A pod with two budgets can never be evicted: that is told with their names and not tried again.

Refusals grow longer for a pod that is refused again and again, so a budget that never lets go costs little.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from gpufleet.eviction.plan import Asker, Cause, EvictionPlan, EvictionRefusal, Victim
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.selectors import label_selector
from gpufleet.kube.fencing import EPOCH, FENCED
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.objects.disruption import PodDisruptionBudget
from gpufleet.kube.objects.metadata import Metadata, PartialObject
from gpufleet.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from gpufleet.kube.status import Conflict, NotFound, ServerFailure, StatusError, TooManyRequests
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import GpufleetError
from gpufleet.model.pod_name import PodName

LOG = logging.getLogger(__name__)
GIVE_UP_S = 60.0
"""An API server works on one request for at most so long: one that is not answered by then is lost."""

BEGINS_WITHIN_S = 60.0
"""A granted eviction marks the pod at once; a watch that is cut tells of it after its own limit."""

# Pauses after an answer that says nothing of the pod: the server is busy or out of reach.
PAUSE_FIRST_S = 0.2
PAUSE_MOST_S = 5.0
REFUSED_FIRST_S = 10.0
"""A budget's controller needs some seconds after a pod of its own became ready."""

REFUSED_MOST_S = 160.0
"""A budget that refuses for long is asked every few minutes."""

BUDGET = "DisruptionBudget"
"""The cause by which the server says that a budget refuses; a 429 without it is about the server's load."""

SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""Part of the server's words, with code 500, for a pod that two budgets match."""

_BUDGET = msgspec.json.Decoder(PodDisruptionBudget)
_POD = msgspec.json.Decoder(PartialObject)


class Evictions:
    """Carries plans out, several at a time.

    ``observer`` is told of every pod, beside the asker of its plan; ``ends`` says whether a pod is seen to
    end, or is gone; ``may_write`` is false once the right to write may be another's. ``epoch`` is that of a
    leader, None for a person.
    """

    def __init__(
        self,
        client: Client,
        observer: Asker,
        *,
        epoch: int | None,
        at_once: int,
        may_write: Callable[[], bool],
        ends: Callable[[PodUid], bool],
    ) -> None:
        self.client = client
        self.observer = observer
        self.annotations = {} if epoch is None else {EPOCH: str(epoch)}
        self.may_write = may_write
        self.ends = ends
        self._work: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue()
        self._at_once = asyncio.Semaphore(at_once)
        self._asked: set[PodUid] = set()
        self._begins_by_s: OrderedDict[PodUid, tuple[float, Victim, Asker]] = OrderedDict()
        self._times_refused: dict[PodUid, int] = {}

    @property
    def backlog(self) -> int:
        """Evictions that were asked for and not answered yet."""
        return len(self._asked)

    def submit(self, plan: EvictionPlan) -> None:
        """Have a plan carried out. A pod that was asked for and not answered is not asked for twice."""
        new = tuple(one for one in plan.victims if not self._is_under_way(one.pod.uid))
        if plan.together or new:
            victims = plan.victims if plan.together else new
            self._asked.update(one.pod.uid for one in victims)
            self._work.put_nowait(self._carry_out(msgspec.structs.replace(plan, victims=victims)))

    def _is_under_way(self, uid: PodUid) -> bool:
        return uid in self._asked or uid in self._begins_by_s

    def refuse(self, plan: EvictionPlan, cause: Cause, words: str) -> None:
        """The pods of a plan stay, without a question to the server."""
        for victim in plan.victims:
            self._refuse(victim, plan.asker, cause, words)

    async def run(self) -> None:
        """Carry plans out until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(await self._work.get())
        finally:
            while not self._work.empty():
                # A coroutine that never began must be closed, else Python warns of it.
                self._work.get_nowait().close()

    def after_round(self) -> None:
        """Look whether pods that were told to end do."""
        now_s = self.client.clock.monotonic_s()
        while self._begins_by_s:
            uid, (due_s, victim, asker) = next(iter(self._begins_by_s.items()))
            # All have the same limit, so the first that was told is due first.
            if due_s > now_s:
                return
            del self._begins_by_s[uid]
            if self.ends(uid):
                self._times_refused.pop(uid, None)
            else:
                self._work.put_nowait(self._look_after(victim, asker))

    def next_due_s(self) -> float | None:
        """When to look again."""
        return next((due_s for due_s, _, _ in self._begins_by_s.values()), None)

    async def _look_after(self, victim: Victim, asker: Asker) -> None:
        """A pod is not seen to end: the server is asked, because a watch may be late."""
        try:
            found = await self._read(victim.pod)
        except KubeError:
            self._expect_end(victim, asker)
            return
        if found is not None and found.deletion_timestamp is None:
            words = "the eviction was granted, and the pod does not end"
            self._refuse(victim, asker, Cause.NOT_BEGUN, words)

    async def _carry_out(self, plan: EvictionPlan) -> None:
        try:
            if plan.together:
                await self._all_or_none(plan)
            else:
                await self._each(plan.victims, plan.asker)
        finally:
            self._asked.difference_update(one.pod.uid for one in plan.victims)

    async def _all_or_none(self, plan: EvictionPlan) -> None:
        guarded = [victim for victim in plan.victims if victim.guarded]
        unguarded = [victim for victim in plan.victims if not victim.guarded]
        # Asked without effect first: a refusal of one must come before any other has ended.
        if len(plan.victims) > 1:
            for victim in guarded:
                if not await self._end(victim, plan.asker, plan.victims, dry_run=True):
                    return
        # Those that a budget may refuse come first: once these have ended, nothing keeps the others.
        for number, victim in enumerate(guarded):
            if not await self._end(victim, plan.asker, [*guarded[number:], *unguarded]):
                return
        await self._each(unguarded, plan.asker)

    async def _each(self, victims: Iterable[Victim], asker: Asker) -> None:
        """End the victims at once, each by itself: one that is refused now holds up no other."""
        async with asyncio.TaskGroup() as group:
            for victim in victims:
                group.create_task(self._end(victim, asker, [victim]))

    async def evict(self, victim: Victim) -> EvictionRefusal | None:
        """Evict one pod and wait for the answer; None where it was told to end, or is gone."""
        refusal = await self._ask(victim, dry_run=False)
        return None if refusal is None else EvictionRefusal(victim, *refusal, for_s=0.0)

    async def _end(
        self, victim: Victim, asker: Asker, in_vain: Iterable[Victim], *, dry_run: bool = False
    ) -> bool:
        """Evict a pod; if that is refused, the others ``in_vain`` are not to be evicted either."""
        refusal = await self._ask(victim, dry_run=dry_run)
        if refusal is None:
            if not dry_run:
                self._was_granted(victim, asker)
            return True
        self._refuse(victim, asker, *refusal)
        for other in in_vain:
            if other != victim:
                words = f"{victim.pod} stays, and without its room this one would end in vain"
                asker.refused(EvictionRefusal(other, Cause.IN_VAIN, words, 0.0))
        return False

    def _was_granted(self, victim: Victim, asker: Asker) -> None:
        self._expect_end(victim, asker)
        LOG.info("a pod is told to end", extra={"pod": str(victim.pod), "cause": victim.reason})
        self.observer.eviction_granted(victim)
        asker.eviction_granted(victim)

    def _expect_end(self, victim: Victim, asker: Asker) -> None:
        due_s = self.client.clock.monotonic_s() + BEGINS_WITHIN_S
        self._begins_by_s[victim.pod.uid] = (due_s, victim, asker)

    def _refuse(self, victim: Victim, asker: Asker, cause: Cause, words: str) -> None:
        times = self._times_refused.get(victim.pod.uid, 0)
        self._times_refused[victim.pod.uid] = times + 1
        for_s = min(REFUSED_MOST_S, REFUSED_FIRST_S * 2**times)
        said = {"pod": str(victim.pod), "cause": cause.value, "answer": words}
        LOG.warning("an eviction does not happen", extra=said)
        self._forget_ended()
        refusal = EvictionRefusal(victim, cause, words, for_s)
        self.observer.refused(refusal)
        asker.refused(refusal)

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
                # Held for the request and not for the pause: a pod that is refused for long keeps no other
                # waiting.
                async with self._at_once:
                    return await self._try(victim, dry_run=dry_run)
            except LeadershipLost:
                raise
            except KubeError as problem:
                words = str(problem)
                known = problem if isinstance(problem, StatusError | OutcomeUnknown) else None
                asked_s = None if known is None else known.retry_after_s
            # Drawn from half to one and a half of the pause, so that requests refused together do not come
            # back together.
            wait_s = max(asked_s or 0.0, pause_s * (0.5 + self.client.jitter.random()))
            if clock.monotonic_s() + wait_s > give_up_at_s:
                return Cause.NO_ANSWER, words
            await clock.sleep(wait_s)
            pause_s = min(PAUSE_MOST_S, 2 * pause_s)

    async def _try(self, victim: Victim, *, dry_run: bool) -> tuple[Cause, str] | None:
        """Ask once. Raises KubeError where it is worth asking again."""
        if not self.may_write():
            raise LeadershipLost("leadership is no longer certain, so no pod is evicted any more")
        pod = victim.pod
        if victim.deleted:
            return await self._delete(pod, dry_run=dry_run)
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
            # A server under load answers 429 too, and then the same question is worth asking again.
            if not any(cause.reason == BUDGET for cause in answer.details.causes):
                raise
            if not victim.regardless:
                return Cause.BUDGET, _words(answer)
            return await self._delete(pod, dry_run=dry_run)
        # The UID is a precondition: either the pod's name is another's by now, or two writes met.
        except Conflict:
            if await self._read(pod) is not None:
                raise
            return None
        # Several budgets are answered with 500, which elsewhere leaves open whether something was written.
        except OutcomeUnknown as unknown:
            if SEVERAL_BUDGETS not in str(unknown):
                raise
            if victim.regardless:
                return await self._delete(pod, dry_run=dry_run)
            return Cause.SEVERAL_BUDGETS, await self._several_budgets(pod)
        # A StatusError as well, but one that is worth asking again.
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
        except NotFound:
            return None
        # As of an eviction: the name may be another's by now, or two writes met.
        except Conflict:
            if await self._read(pod) is not None:
                raise
            return None
        except (TooManyRequests, ServerFailure):
            raise
        except StatusError as answer:
            return Cause.FORBIDDEN, str(answer)
        return None

    async def _read(self, pod: PodName) -> Metadata | None:
        """The pod as the server has it, None where it, or its name, is another's by now."""
        try:
            body = await self.client.get(PODS, pod.name, namespace=pod.namespace)
        except NotFound:
            return None
        found = decode(body, _POD).metadata
        return found if found.uid == pod.uid else None

    async def _several_budgets(self, pod: PodName) -> str:
        """Which budgets match a pod, as far as they can be read."""
        names: list[str] = []
        try:
            found = await self._read(pod)
            async for page in self.client.list_pages(POD_DISRUPTION_BUDGETS, namespace=pod.namespace):
                for raw in page.items or ():
                    budget = decode(bytes(raw), _BUDGET)
                    selector = label_selector(budget.spec.selector, "selector")
                    if found is not None and selector is not None and selector.accepts(found.labels):
                        names.append(harmless(budget.metadata.name))
        except GpufleetError as problem:
            LOG.warning("budgets cannot be read", extra={"pod": str(pod), "problem": str(problem)})
        which = f" ({', '.join(sorted(names))})" if names else ""
        return (
            f"more than one PodDisruptionBudget matches it{which}, and the eviction API then evicts no pod: "
            "leave one of them"
        )


def _words(answer: StatusError) -> str:
    """What the budget says, for people."""
    causes = [cause.message for cause in answer.details.causes if cause.message]
    return "; ".join(causes) or answer.message
