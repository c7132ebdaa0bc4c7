"""Plans of the drain for rollouts: asked for while nodes are emptied or may begin, and kept for a while.

A ``Planner`` makes a plan, which takes seconds; rounds go on meanwhile. Nothing here
has to be remembered: a new leader asks anew, and what was asked of pods stands on the pods.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec

from gpufleet.drain.plan import WorkPlan
from gpufleet.drain.planning_question import Planner, PlanningAnswer, PlanningQuestion
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.times import microseconds
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
POLL_EVERY_S = 15.0
"""How old a plan may become while nodes are emptied: ends come and places become free meanwhile."""

POLL_SHARE = 10
"""A plan that took long is kept for so many times as long, to spare the machine and the API server."""

CHANGED_AFTER_S = 2.0
"""The least time between two plans, also where nodes or pods have changed: pods end one after the other."""

ORDER_AGE_S = 60.0
"""An order of nodes that is older is planned anew before a node begins by it."""


class KnownRollouts(msgspec.Struct, frozen=True):
    """What a plan says.

    It was made at ``at_us`` for the ``closed`` nodes, on which the pods ``seen`` held GPUs. ``work`` is what
    becomes of each pod, ``starts`` which nodes of each policy are best emptied next. ``problem`` says why no
    place can be kept, or "".
    """

    at_us: int
    closed: frozenset[NodeName]
    seen: frozenset[PodUid]
    work: Mapping[PodUid, WorkPlan]
    starts: Mapping[str, tuple[NodeName, ...]]
    problem: str = ""

    def order(self, policy: str) -> tuple[NodeName, ...] | None:
        """The nodes of a policy in the order in which they are best emptied; None where none was planned."""
        return self.starts.get(policy)


def known_of(question: PlanningQuestion, seen: frozenset[PodUid], answer: PlanningAnswer) -> KnownRollouts:
    """The answer to a question, by pod and policy."""
    plan = answer.plan
    return KnownRollouts(
        at_us=0 if plan is None else microseconds(plan.at),
        closed=frozenset() if plan is None else frozenset(NodeName(name) for name in question.closed),
        seen=seen,
        work={} if plan is None else {PodUid(uid): work for work in plan.work for uid in work.pods},
        starts={policy: tuple(NodeName(name) for name in names) for policy, names in answer.starts.items()},
        problem=answer.problem,
    )


class Planning:
    """Asks one question at a time, and keeps the last answer. ``wake`` is called when one has come."""

    def __init__(self, planner: Planner, clock: Clock, wake: Callable[[], None]) -> None:
        self._planner = planner
        self._clock = clock
        self._wake = wake
        self._wanted = asyncio.Event()
        self._question = PlanningQuestion()
        self._seen: frozenset[PodUid] = frozenset()
        self._is_asking = False
        self._ended_s = -POLL_EVERY_S
        self._took_s = 0.0
        self.known: KnownRollouts | None = None
        self.problem = ""

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            question, seen, began_s = self._question, self._seen, self._clock.monotonic_s()
            try:
                answer = await self._planner.ask(question)
                failed = answer.problem if question.closed and answer.plan is None else ""
            except WorldError as error:
                answer, failed = PlanningAnswer(), str(error)
            self._ended_s = self._clock.monotonic_s()
            self._took_s = self._ended_s - began_s
            self.problem = f"drains cannot be planned: {failed}" if failed else ""
            self.known = None if failed else known_of(question, seen, answer)
            if failed:
                LOG.warning("a drain is not planned", extra={"problem": failed})
            self._is_asking = False
            self._wake()

    def began(self, policy: str) -> None:
        """Nodes of a policy began: which come next is another question now."""
        if self.known is not None:
            starts = {name: found for name, found in self.known.starts.items() if name != policy}
            self.known = msgspec.structs.replace(self.known, starts=starts)

    def look(self, question: PlanningQuestion, seen: frozenset[PodUid]) -> float | None:
        """Ask where it is time to; the seconds after which it will be, None where nothing is to be asked."""
        if not question.closed and not question.starts:
            self.known, self.problem = None, ""
            return None
        if self._is_asking:
            return POLL_EVERY_S
        age_s = self._clock.monotonic_s() - self._ended_s
        due_s = self._pause_s(question, seen) - age_s
        if due_s > 0:
            return due_s
        self._question, self._seen, self._is_asking = question, seen, True
        self._wanted.set()
        return POLL_EVERY_S

    def _pause_s(self, question: PlanningQuestion, seen: frozenset[PodUid]) -> float:
        """How old the last answer may become."""
        known = self.known
        if known is None:
            return CHANGED_AFTER_S if not self.problem else POLL_EVERY_S
        is_changed = known.closed != frozenset(question.closed) or known.seen != seen
        if is_changed or question.starts.keys() - known.starts.keys():
            return max(CHANGED_AFTER_S, self._took_s)
        if not question.closed:
            return ORDER_AGE_S
        return max(POLL_EVERY_S, POLL_SHARE * self._took_s)
