"""Evictions on the simulated API server, in virtual time: what is asked, asked again, and told."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.eviction.evictions import BEGINS_WITHIN_S, GIVE_UP_S, Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan, EvictionRefusal, PodsWatchedByAsker, Victim
from gpufleet.kube.client import Client
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.transport import Request, Response
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work
from tests.simulation.spoilt_way import Lost, SpoiltWay, refused, too_many

ADMIN = "system:masters"
CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}


class Case:
    """Pods that run, an actuator, and what it tells."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        self.ended: list[PodName] = []
        self.refusals: list[EvictionRefusal] = []
        self.leads = True
        self.way = SpoiltWay(SimulatedTransport(self.server, ADMIN, Random(2)), self.clock, "/eviction")
        self.evictions = Evictions(
            Client(self.way, self.clock, Random(3)),
            self,
            epoch=None,
            at_once=4,
            may_write=lambda: self.leads,
            ends=lambda uid: "deletionTimestamp" in self.by_uid(uid).get("metadata", {}),
        )

    def eviction_granted(self, victim: Victim) -> None:
        """As an observer."""
        self.ended.append(victim.pod)

    def refused(self, refusal: EvictionRefusal) -> None:
        """As an observer."""
        self.refusals.append(refusal)

    def by_uid(self, uid: PodUid) -> dict[str, Any]:
        """A pod as the server has it; empty where it is gone."""
        pods = self.server.store.all(("", "pods")).values()
        return next((pod for pod in pods if pod["metadata"]["uid"] == uid), {})

    def pod(self, name: str, **labels: str) -> Victim:
        """A pod that runs and is ready, as a victim."""
        made = self.server.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels, "ownerReferences": [CONTROLLER]},
                "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "x"}]},
            }
        )
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.set_status(f"/api/v1/namespaces/default/pods/{name}", running)
        return Victim(PodName("default", name, PodUid(made["metadata"]["uid"])), "test")

    def budget(self, name: str, allowed: int, **labels: str) -> None:
        """A disruption budget that lets so many pods go."""
        status = {"disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1}
        self.server.add(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": labels}},
            }
        )
        path = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}"
        self.set_status(path, {**status, "observedGeneration": 1})

    def set_status(self, path: str, status: dict[str, Any]) -> None:
        """As a kubelet or a controller."""
        body = msgspec.json.encode({"status": status})
        request = Request("PATCH", f"{path}/status", body, "application/merge-patch+json")
        assert self.server.answer(request, ADMIN).status == 200

    def submit(self, *victims: Victim, together: bool = False) -> None:
        """Have them end."""
        self.evictions.submit(EvictionPlan(victims, PodsWatchedByAsker(), together))

    async def wait(self, duration_s: float = 5.0) -> None:
        """Let time go by, and have what was told to end looked after."""
        await self.clock.sleep(duration_s)
        self.evictions.after_round()
        await self.clock.sleep(1.0)

    def leaving(self, victim: Victim) -> bool:
        """Whether a pod is being deleted."""
        return "deletionTimestamp" in self.by_uid(victim.pod.uid)["metadata"]

    def names(self) -> list[tuple[str, Cause]]:
        """The pods that stay, and why."""
        return [(one.victim.pod.name, one.cause) for one in self.refusals]


class Listening(PodsWatchedByAsker):
    """An asker that keeps what it hears."""

    def __init__(self) -> None:
        self.refusals: list[EvictionRefusal] = []

    def refused(self, refusal: EvictionRefusal) -> None:
        """Kept."""
        self.refusals.append(refusal)


def in_case(story: Callable[[Case], Awaitable[None]]) -> None:
    """Run a story in virtual time."""

    async def work(loop: VirtualLoop) -> None:
        case = Case(loop)
        async with at_work(case.evictions.run()):
            await story(case)

    run(work)


def test_a_pod_is_evicted_once_however_often_that_is_asked_for() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p")
        for _ in range(3):
            case.submit(victim)
        await case.wait()
        case.submit(victim)
        await case.wait()
        assert case.leaving(victim)
        assert [str(pod) for pod in case.ended] == ["default/p"]
        assert len(case.way.asked) == 1

    in_case(story)


def test_evictions_count_as_under_way_until_each_is_answered() -> None:
    async def story(case: Case) -> None:
        case.budget("keeps", 0, app="x")
        case.submit(case.pod("kept", app="x"))
        case.submit(case.pod("p"), case.pod("q"))
        assert case.evictions.backlog == 3
        await case.wait()
        assert case.evictions.backlog == 0

    in_case(story)


def test_a_budget_that_refuses_is_told_in_the_words_of_the_server_and_for_longer_each_time() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p", app="x")
        case.budget("keeps", 0, app="x")
        for _ in range(3):
            case.submit(victim)
            await case.wait()
        assert case.names() == [("p", Cause.BUDGET)] * 3
        assert "The disruption budget keeps needs" in case.refusals[0].words
        waits_s = [one.for_s for one in case.refusals]
        assert waits_s == [10.0, 20.0, 40.0]
        assert not case.leaving(victim)

    in_case(story)


def test_two_budgets_on_one_pod_are_named_and_asked_about_once() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p", app="x", tier="gold")
        case.budget("by-tier", 1, tier="gold")
        case.budget("by-app", 1, app="x")
        case.budget("of-others", 1, app="y")
        case.submit(victim)
        await case.wait(GIVE_UP_S + 5)
        assert case.names() == [("p", Cause.SEVERAL_BUDGETS)]
        assert "(by-app, by-tier)" in case.refusals[0].words
        assert len(case.way.asked) == 1

    in_case(story)


def test_what_was_let_in_to_be_ended_is_deleted_where_a_budget_refuses() -> None:
    async def story(case: Case) -> None:
        guest = msgspec.structs.replace(case.pod("p", app="x"), regardless=True)
        other = msgspec.structs.replace(case.pod("q", app="x", tier="gold"), regardless=True)
        case.budget("keeps", 0, app="x")
        case.budget("second", 0, tier="gold")
        case.submit(guest)
        case.submit(other)
        await case.wait()
        assert case.leaving(guest)
        assert case.leaving(other)
        assert not case.refusals

    in_case(story)


@pytest.mark.parametrize("retry_after_s", [3, 20])
def test_a_server_under_load_is_asked_again_after_the_time_that_it_names(retry_after_s: int) -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p")
        case.way.spoilt = [too_many(retry_after_s)]
        case.submit(victim)
        await case.wait(retry_after_s + 5)
        assert case.leaving(victim)
        first_s, second_s = (at_s for at_s, _ in case.way.asked)
        assert second_s - first_s >= retry_after_s

    in_case(story)


def test_an_answer_that_is_lost_is_asked_for_again_and_the_end_told_once() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p")
        case.way.spoilt = [Lost.REQUEST, Lost.ANSWER]
        case.submit(victim)
        await case.wait()
        assert case.leaving(victim)
        assert len(case.ended) == 1
        assert len(case.way.asked) == 3

    in_case(story)


def test_a_server_that_never_answers_is_given_up_and_may_be_asked_anew() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p")
        case.way.spoilt = [Lost.REQUEST] * 1000
        case.submit(victim)
        await case.wait(GIVE_UP_S + 5)
        assert case.names() == [("p", Cause.NO_ANSWER)]
        case.way.spoilt = []
        case.submit(victim)
        await case.wait()
        assert case.leaving(victim)

    in_case(story)


def test_of_a_plan_in_which_one_stays_no_pod_ends_and_each_is_told() -> None:
    async def story(case: Case) -> None:
        free = msgspec.structs.replace(case.pod("free"), guarded=False)
        first, kept = case.pod("first"), case.pod("kept", app="x")
        case.budget("keeps", 0, app="x")
        asker = Listening()
        case.evictions.submit(EvictionPlan((free, first, kept), asker, together=True))
        await case.wait()
        assert not any(case.leaving(one) for one in (free, first, kept))
        causes = {one.victim.pod.name: one.cause for one in asker.refusals}
        assert causes == {"kept": Cause.BUDGET, "free": Cause.IN_VAIN, "first": Cause.IN_VAIN}
        # One that stays for another's sake was refused by no server.
        assert case.names() == [("kept", Cause.BUDGET)]

    in_case(story)


def test_pods_that_end_each_for_itself_do_not_stay_for_one_another() -> None:
    async def story(case: Case) -> None:
        free, kept = case.pod("free"), case.pod("kept", app="x")
        case.budget("keeps", 0, app="x")
        case.submit(free, kept)
        await case.wait()
        assert case.leaving(free)
        assert case.names() == [("kept", Cause.BUDGET)]

    in_case(story)


def test_a_pod_that_another_took_the_name_of_counts_as_ended() -> None:
    async def story(case: Case) -> None:
        victim = msgspec.structs.replace(case.pod("p"), pod=PodName("default", "p", PodUid("former")))
        case.submit(victim, Victim(PodName("default", "never", PodUid("never")), "test"))
        await case.wait()
        assert not case.refusals
        namesake = case.server.store.get(("", "pods"), ("default", "p"))
        assert namesake is not None
        assert "deletionTimestamp" not in namesake["metadata"]

    in_case(story)


def test_a_pod_whose_owner_asked_for_its_deletion_is_deleted() -> None:
    async def story(case: Case) -> None:
        victim = msgspec.structs.replace(case.pod("p"), deleted=True)
        case.submit(victim)
        await case.wait()
        assert case.leaving(victim)
        assert not case.way.asked

    in_case(story)


def test_a_granted_eviction_after_which_the_pod_stays_is_refused_in_the_end() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p")
        case.way.spoilt = [Response(201, {}, b"{}")]
        case.submit(victim)
        await case.wait(BEGINS_WITHIN_S + 1)
        assert case.names() == [("p", Cause.NOT_BEGUN)]

    in_case(story)


def test_no_pod_is_evicted_once_the_right_to_write_is_lost() -> None:
    async def story(case: Case) -> None:
        victim = case.pod("p")
        case.leads = False
        with pytest.raises(LeadershipLost):
            await case.evictions.evict(victim)
        assert not case.way.asked

    in_case(story)


def test_a_pod_that_is_evicted_for_a_person_is_answered_with_the_refusal_itself() -> None:
    async def story(case: Case) -> None:
        free, kept = case.pod("free"), case.pod("kept", app="x")
        case.budget("keeps", 0, app="x")
        assert await case.evictions.evict(free) is None
        refusal = await case.evictions.evict(kept)
        assert refusal is not None
        assert (refusal.victim, refusal.cause, refusal.for_s) == (kept, Cause.BUDGET, 0.0)
        assert case.leaving(free)
        assert not case.leaving(kept)

    in_case(story)


def test_a_plan_that_a_shell_refuses_is_told_and_no_server_asked() -> None:
    async def story(case: Case) -> None:
        asker = Listening()
        plan = EvictionPlan((case.pod("p"), case.pod("q")), asker)
        case.evictions.refuse(plan, Cause.NOT_NEEDED, "no work waits for it")
        await case.wait()
        assert [one.cause for one in asker.refusals] == [Cause.NOT_NEEDED] * 2
        assert case.names() == [("p", Cause.NOT_NEEDED), ("q", Cause.NOT_NEEDED)]
        assert not case.way.asked

    in_case(story)


def test_a_pod_that_is_refused_for_ever_is_asked_for_every_160_seconds() -> None:
    async def story(case: Case) -> None:
        plan = EvictionPlan((case.pod("p"),), PodsWatchedByAsker())
        for _ in range(7):
            case.evictions.refuse(plan, Cause.NOT_NEEDED, "no work waits for it")
        assert [one.for_s for one in case.refusals] == [10.0, 20.0, 40.0, 80.0, 160.0, 160.0, 160.0]

    in_case(story)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("pods may not be evicted here", Cause.FORBIDDEN),
        ("another scheduler has taken over: epoch 3", Cause.FENCED),
    ],
)
def test_what_the_server_forbids_is_told_with_its_words_and_not_tried_again(words: str, cause: Cause) -> None:
    async def story(case: Case) -> None:
        case.way.spoilt = [refused(403, words)]
        case.submit(case.pod("p"))
        await case.wait(GIVE_UP_S + 5)
        assert case.names() == [("p", cause)]
        assert words in case.refusals[0].words
        assert len(case.way.asked) == 1

    in_case(story)


def test_a_pod_is_looked_after_when_it_is_due_and_again_if_the_server_does_not_say() -> None:
    async def story(case: Case) -> None:
        assert case.evictions.next_due_s() is None
        began_s = case.clock.monotonic_s()
        case.way.spoilt = [Response(201, {}, b"{}")]
        case.submit(case.pod("p"))
        await case.wait()
        due_s = case.evictions.next_due_s()
        assert due_s is not None
        assert began_s + BEGINS_WITHIN_S <= due_s <= began_s + BEGINS_WITHIN_S + 5.0
        # The first look at the pod finds no server, so its end is expected once more.
        pods = SpoiltWay(case.way.inner, case.clock, "/pods/p")
        pods.spoilt = [Lost.REQUEST] * 1000
        case.way.inner = pods
        await case.wait(BEGINS_WITHIN_S)
        assert not case.refusals
        await case.wait(2 * GIVE_UP_S)
        pods.spoilt = []
        await case.wait(BEGINS_WITHIN_S)
        assert case.names() == [("p", Cause.NOT_BEGUN)]

    in_case(story)


def test_a_pod_that_is_seen_to_end_is_not_asked_about() -> None:
    async def story(case: Case) -> None:
        pods = SpoiltWay(case.way.inner, case.clock, "/pods/p")
        case.way.inner = pods
        case.submit(case.pod("p"))
        await case.wait(BEGINS_WITHIN_S + 1)
        assert case.evictions.next_due_s() is None
        assert not pods.asked

    in_case(story)


def test_a_single_guarded_pod_is_evicted_without_a_question_before() -> None:
    async def story(case: Case) -> None:
        case.budget("lets-go", 1, app="x")
        case.submit(case.pod("p", app="x"), together=True)
        await case.wait()
        assert len(case.way.asked) == 1

    in_case(story)


def test_of_several_guarded_pods_each_is_asked_about_before_the_first_ends() -> None:
    """Of two pods that one budget lets go one at a time, the second is refused once the first has ended."""

    async def story(case: Case) -> None:
        case.budget("lets-one-go", 1, app="x")
        free = msgspec.structs.replace(case.pod("free"), guarded=False)
        case.submit(case.pod("p", app="x"), free, case.pod("q", app="x"), together=True)
        await case.wait()
        assert [str(pod) for pod in case.ended] == ["default/p"]
        assert not case.leaving(free)
        assert case.names() == [("q", Cause.BUDGET)]
        assert len(case.way.asked) == 4

    in_case(story)
