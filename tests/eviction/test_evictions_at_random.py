"""The actuator in random stories, held against what may be and what has to be.

A story has pods, budgets and plans. Requests and answers are lost, the server is busy or names a time to come
back, namesakes take the place of pods, a lease is lost, and a process dies and starts again. Every request on
the way is recorded. Then these sentences are held, by the record and by the server's objects:

- each pod of a plan is answered once for each time that it was asked for, and only those that ended are told;
- a pod ends only if a plan asked for it, and a namesake of another uid never;
- no budget lets more pods go than it allows, unless the pod was let in to be ended;
- a plan of which one pod stays for its budget ends none of the pods that no budget guards;
- a request that the server asked to come back with comes back no sooner;
- no request is sent after the right to write is lost, and never more than the limit at once.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.eviction.evictions import BEGINS_WITHIN_S, GIVE_UP_S, Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan, EvictionRefusal, Victim
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from gpufleet.model.identifiers import PodUid
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualLoop, run
from tests.engine.effort import seeds
from tests.eviction.test_evictions import ADMIN, Case
from tests.simulation.spoilt_way import refused, too_many

EPOCH = 7
AT_ONCE = 3
ANSWERED_WITHIN_S = 4 * GIVE_UP_S + BEGINS_WITHIN_S
"""A dry run, an eviction, a deletion in its place and a look afterwards may each be tried for so long."""


class Sent(msgspec.Struct):
    """A writing request: when it was sent, what it names, and when the server asked it to come back."""

    at_s: float
    method: str
    name: str
    uid: str
    dry_run: bool
    process: int
    again_at_s: float = 0.0


class Way:
    """The way to the server. It spoils answers at random, and records every request that writes."""

    def __init__(self, inner: Transport, case: Case, chance: Random) -> None:
        self.inner = inner
        self.case = case
        self.chance = chance
        self.sent: list[Sent] = []
        self.under_way = 0
        self.most_under_way = 0
        self.process = 0
        """The number of the process that sends; a new one knows nothing of what the last was told."""

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The server's answer, or what comes in its place."""
        if request.method == "GET":
            return await self.inner.call(request, timeout_s=timeout_s)
        sent = self._record(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.case.clock.sleep(self.chance.random())
            return await self._answer(request, sent, timeout_s)
        finally:
            self.under_way -= 1

    async def _answer(self, request: Request, sent: Sent, timeout_s: float) -> Response:
        luck = self.chance.random()
        if luck < 0.1:
            seconds = self.chance.choice([1, 4, 30])
            sent.again_at_s = self.case.clock.monotonic_s() + seconds
            return too_many(seconds)
        if luck < 0.15:
            return refused(503, "the server is starting")
        if luck < 0.18:
            # Two writes met; it says nothing of the pod's uid.
            return refused(409, "the object has been modified")
        if luck < 0.22:
            raise TransportError("connection reset by peer", reached=True)
        answer = await self.inner.call(request, timeout_s=timeout_s)
        if luck < 0.3:
            raise TransportError("connection reset by peer", reached=True)
        return answer

    def _record(self, request: Request) -> Sent:
        body = msgspec.json.decode(request.body or b"{}")
        options = body.get("deleteOptions", body)
        path = request.target.partition("?")[0].removesuffix("/eviction")
        is_dry = bool(options.get("dryRun")) or "dryRun" in request.target
        uid = (options.get("preconditions") or {}).get("uid", "")
        sent = Sent(
            self.case.clock.monotonic_s(), request.method, path.rpartition("/")[2], uid, is_dry, self.process
        )
        self.sent.append(sent)
        return sent

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()


class Plans:
    """An asker that counts what it hears of each pod."""

    def __init__(self) -> None:
        self.told_of: list[PodUid] = []
        self.stays: list[EvictionRefusal] = []

    def eviction_granted(self, victim: Victim) -> None:
        """Counted."""
        self.told_of.append(victim.pod.uid)

    def refused(self, refusal: EvictionRefusal) -> None:
        """Counted."""
        self.stays.append(refusal)


class Story:
    """Pods and budgets made by chance, and plans for them."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.chance = Random(seed)
        self.case = Case(loop)
        self.way = Way(
            SimulatedTransport(self.case.server, ADMIN, Random(f"{seed}/way")), self.case, self.chance
        )
        self.allowed = {f"budget-{number}": self.chance.randint(0, 2) for number in range(3)}
        for name, allowed in self.allowed.items():
            self.case.budget(name, allowed, **{name: "yes"})
        self.victims = [self._victim(f"p{number}") for number in range(8)]
        self.asker = Plans()
        self.evictions = self._actuator()

    def _actuator(self) -> Evictions:
        return Evictions(
            Client(self.way, self.case.clock, self.chance),
            self.case,
            epoch=EPOCH,
            at_once=AT_ONCE,
            may_write=lambda: self.case.leads,
            ends=lambda uid: not self.stays(uid),
        )

    def _victim(self, name: str) -> Victim:
        budgets = self.chance.sample(sorted(self.allowed), self.chance.choice([0, 1, 1, 1, 2]))
        made = self.case.pod(name, **dict.fromkeys(budgets, "yes"))
        return msgspec.structs.replace(
            made,
            guarded=bool(budgets),
            regardless=self.chance.random() < 0.2,
            deleted=not budgets and self.chance.random() < 0.2,
        )

    def budgets_of(self, victim: Victim) -> list[str]:
        """The budgets that match a pod."""
        labels = self.labels[victim.pod.uid]
        return [name for name in self.allowed if name in labels]

    def stays(self, uid: PodUid) -> bool:
        """Whether a pod is there and is not told to end."""
        pod = self.case.by_uid(uid)
        return bool(pod) and "deletionTimestamp" not in pod["metadata"]

    async def tell(self) -> None:
        """Plans of random pods, while the server is as it is."""
        self.labels = {
            one.pod.uid: self.case.by_uid(one.pod.uid)["metadata"]["labels"] for one in self.victims
        }
        chosen = list(self.victims)
        self.chance.shuffle(chosen)
        self.plans = []
        while chosen:
            size = self.chance.randint(1, 4)
            part, chosen = tuple(chosen[:size]), chosen[size:]
            self.plans.append(EvictionPlan(part, self.asker, together=self.chance.random() < 0.6))
        for plan in self.plans:
            self.evictions.submit(plan)
            await self.case.clock.sleep(self.chance.uniform(0.0, 3.0))

    async def rest(self) -> None:
        """Until everything must have been answered; what was told to end is looked after."""
        for _ in range(int(ANSWERED_WITHIN_S / 10)):
            await self.case.clock.sleep(10.0)
            self.evictions.after_round()

    def ended(self) -> list[Victim]:
        """The pods that do not stay."""
        return [one for one in self.victims if not self.stays(one.pod.uid)]


def in_story(seed: int, work: Any) -> Story:
    """Tell a story in virtual time; ``work`` is awaited while the actuator runs."""

    async def whole(loop: VirtualLoop) -> Story:
        story = Story(loop, seed)
        running = asyncio.ensure_future(story.evictions.run())
        await work(story, running)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return story

    return run(whole)


def early(sent: list[Sent]) -> Iterator[tuple[Sent, Sent]]:
    """Requests that were repeated before the server wanted them again."""
    last: dict[tuple[int, str, str, bool], Sent] = {}
    for one in sent:
        key = (one.process, one.method, one.name, one.dry_run)
        before = last.get(key)
        if before is not None and one.at_s < before.again_at_s:
            yield before, one
        last[key] = one


def hold_what_always_holds(story: Story) -> None:
    """What is true of every record, whatever came between."""
    assert not list(early(story.way.sent))
    assert story.way.most_under_way <= AT_ONCE
    by_name = {one.pod.name: one for one in story.victims}
    for one in story.way.sent:
        victim = by_name[one.name]
        assert one.uid == victim.pod.uid
        if one.method == "DELETE":
            assert victim.regardless or victim.deleted
    gone = Counter(
        name
        for one in story.ended()
        if not one.regardless and not one.deleted
        for name in story.budgets_of(one)
    )
    assert all(gone[name] <= allowed for name, allowed in story.allowed.items())


@pytest.mark.parametrize("seed", seeds(150))
def test_every_pod_of_every_plan_is_answered_once_and_as_it_is(seed: int) -> None:
    async def work(story: Story, _: Any) -> None:
        await story.tell()
        await story.rest()

    story = in_story(seed, work)
    hold_what_always_holds(story)
    assert not story.evictions.backlog
    heard = Counter([*story.asker.told_of, *(one.victim.pod.uid for one in story.asker.stays)])
    assert heard == {one.pod.uid: 1 for one in story.victims}
    # An answer that was lost for good leaves open what the server did.
    unsure = {one.victim.pod.uid for one in story.asker.stays if one.cause is Cause.NO_ANSWER}
    eviction_granted, gone = set(story.asker.told_of), {one.pod.uid for one in story.ended()}
    assert eviction_granted <= gone
    assert gone - eviction_granted <= unsure
    for plan in story.plans:
        hold_together(story, plan)
    for one in story.asker.stays:
        if one.cause is Cause.SEVERAL_BUDGETS:
            names = story.budgets_of(one.victim)
            assert len(names) == 2
            assert f"({', '.join(sorted(names))})" in one.words
        if one.cause is Cause.BUDGET:
            assert len(story.budgets_of(one.victim)) == 1


def hold_together(story: Story, plan: EvictionPlan) -> None:
    """Of a plan that ends in whole or not at all, no unguarded pod ends where a guarded one stays."""
    of_plan = {one.pod.uid for one in plan.victims}
    refused = {one.victim.pod.uid: one.cause for one in story.asker.stays if one.victim.pod.uid in of_plan}
    eviction_granted = of_plan & set(story.asker.told_of)
    guarded_stay = [one for one in plan.victims if one.guarded and one.pod.uid in refused]
    if plan.together and guarded_stay:
        assert all(one.guarded for one in plan.victims if one.pod.uid in eviction_granted)
        first = [uid for uid, cause in refused.items() if cause is not Cause.IN_VAIN]
        assert len(first) == 1
    if not plan.together:
        assert Cause.IN_VAIN not in refused.values()
    # A budget that lets no pod go is met in the dry run, before any pod has ended.
    stuck = [one for one in guarded_stay if not one.regardless and never(story, one)]
    if plan.together and stuck:
        assert not eviction_granted


def never(story: Story, victim: Victim) -> bool:
    """Whether the pod's budgets let it go at no time of the story."""
    names = story.budgets_of(victim)
    return len(names) > 1 or any(story.allowed[name] == 0 for name in names)


@pytest.mark.parametrize("seed", seeds(60))
def test_nothing_is_sent_once_the_right_to_write_is_lost(seed: int) -> None:
    lost_at_s = Random(f"{seed}/lost").uniform(0.0, 12.0)

    async def work(story: Story, running: "asyncio.Future[None]") -> None:
        telling = asyncio.ensure_future(story.tell())
        await story.case.clock.sleep(lost_at_s)
        story.case.leads = False
        # The process ends with its actuator, so nothing is asked for any more.
        await asyncio.wait([running, telling], return_when=asyncio.FIRST_COMPLETED)
        telling.cancel()
        await story.rest()

    story = in_story(seed, work)
    hold_what_always_holds(story)
    assert all(one.at_s <= lost_at_s for one in story.way.sent)


@pytest.mark.parametrize("seed", seeds(60))
def test_after_a_death_the_next_process_ends_what_is_left_and_no_pod_twice(seed: int) -> None:
    chance = Random(f"{seed}/death")

    async def work(story: Story, running: "asyncio.Future[None]") -> None:
        telling = asyncio.ensure_future(story.tell())
        await story.case.clock.sleep(chance.uniform(0.0, 12.0))
        for one in (telling, running):
            one.cancel()
        await asyncio.gather(telling, running, return_exceptions=True)
        story.asker = Plans()
        story.evictions = story._actuator()
        story.way.process += 1
        again = asyncio.ensure_future(story.evictions.run())
        await story.tell()
        await story.rest()
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)

    story = in_story(seed, work)
    hold_what_always_holds(story)
    eviction_granted = set(story.asker.told_of)
    assert eviction_granted <= {one.pod.uid for one in story.ended()}
    heard = Counter([*story.asker.told_of, *(one.victim.pod.uid for one in story.asker.stays)])
    assert heard == {one.pod.uid: 1 for one in story.victims}


@pytest.mark.parametrize("seed", seeds(60))
def test_a_namesake_never_ends(seed: int) -> None:
    """While plans are carried out, pods are deleted by others and made anew under their names."""
    chance = Random(f"{seed}/namesakes")

    async def work(story: Story, _: Any) -> None:
        telling = asyncio.ensure_future(story.tell())
        for _ in range(5):
            await story.case.clock.sleep(chance.uniform(0.0, 3.0))
            name = chance.choice(story.victims).pod.name
            path = f"/api/v1/namespaces/default/pods/{name}"
            body = msgspec.json.encode({"gracePeriodSeconds": 0})
            if story.case.server.answer(Request("DELETE", path, body), ADMIN).status == 200:
                story.case.pod(name)
        await telling
        await story.rest()

    story = in_story(seed, work)
    named = {one.pod.uid for one in story.victims}
    pods = [pod["metadata"] for pod in story.case.server.store.all(("", "pods")).values()]
    assert all("deletionTimestamp" not in one for one in pods if one["uid"] not in named)
    heard = Counter([*story.asker.told_of, *(one.victim.pod.uid for one in story.asker.stays)])
    assert heard == dict.fromkeys(named, 1)
