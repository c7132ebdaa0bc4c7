"""What is said of all queues: by the engine over the cluster as it is, or by what was written of them."""

from typing import Any

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.explain.queue_answer import AnswerSource, PendingRow, QueueRow, QueuesAnswer
from gpufleet.explain.queue_inquiry import Wanted, ask_for_queues, only
from gpufleet.explain.queue_phrases import queue_words
from gpufleet.kube.client import Client
from gpufleet.kube.resources import PODS, Kind
from gpufleet.kube.status import Forbidden, Status
from gpufleet.model.model_errors import InputError
from tests.explain.causes.queues import spend
from tests.scheduler.world import World, in_world

QUEUE = "gpufleet.io/queue"
GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "3"}


NEVER = {"withinQueue": "Never", "reclaim": "Never"}
"""Takes nothing back: who waits goes on waiting."""


def add_queue(world: World, name: str, **spec: Any) -> None:
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": name}, "spec": spec})


def quota(nominal: int, **limits: int) -> list[dict[str, Any]]:
    return [{"resource": "gpu", "nominal": nominal, **limits}]


def waits_in(world: World, queue: str, name: str, gpus: int = 1, **more: Any) -> None:
    world.pod(name, gpus=gpus, labels={QUEUE: queue}, **more)


class WithoutPods(Client):
    """A client whose user may list anything but pods."""

    def list_pages(self, kind: Kind, **options: Any) -> Any:
        """Refused before the first page."""
        if kind == PODS:
            raise Forbidden(Status(403, "Forbidden", "no"))
        return super().list_pages(kind, **options)


async def seen(
    world: World, wanted: Wanted = Wanted.AUTO, client_type: type[Client] = Client
) -> QueuesAnswer:
    """Ask as an administrator does, or as somebody with fewer rights."""
    client = client_type(world.transport("system:masters"), world.clock, world.random)
    return await ask_for_queues(client, Settings(identity="explain"), wanted, lambda _: None)


def row(answer: QueuesAnswer, name: str) -> QueueRow:
    return next(one for one in answer.queues if one.name == name)


def test_a_queue_below_one_whose_budget_is_spent_says_which_budget() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "root")
        add_queue(world, "team", parent="root")
        spend(world, "root")
        waits_in(world, "team", "p")
        await world.settle(20)
        found = row(await seen(world, Wanted.ENGINE), "team")
        assert not found.active
        (problem,) = found.problems
        words = "the budget of root, above it, is spent (800.00 EUR until 2026-12-01)"
        assert (problem.reason, problem.message.startswith(words)) == ("BudgetSpent", True)
        assert queue_words(found).startswith("! BudgetSpent")

    in_world(story)


async def crowded(world: World, **of_c: Any) -> None:
    """Eight GPUs for three teams: a has borrowed 2, c has 1 of its 2, and nothing is free for more."""
    of_c = {"preemption": NEVER, **of_c}
    world.node("n", gpus=8)
    add_queue(world, "root", namespaceSelector={})
    add_queue(world, "a", parent="root", quotas=quota(4))
    add_queue(world, "b", parent="root", quotas=quota(2))
    add_queue(world, "c", parent="root", quotas=quota(2), **of_c)
    waits_in(world, "a", "a-runs", 6)
    waits_in(world, "b", "b-runs")
    await world.settle()
    waits_in(world, "c", "c-runs")
    await world.settle()
    waits_in(world, "c", "c-waits")
    await world.settle(30)


def test_every_queue_has_its_quota_its_use_and_what_is_borrowed_lent_and_owed() -> None:
    async def story(world: World) -> None:
        await crowded(world)
        answer = await seen(world)
        assert (answer.source, answer.schema, answer.notes) == (
            AnswerSource.ENGINE,
            "gpufleet.io/queues/v1",
            (),
        )
        found = {one.name: one.resource("gpu") for one in answer.queues}
        assert {
            name: (gpu.used, gpu.quota, gpu.nominal, gpu.borrowed, gpu.lent, gpu.fair_share)
            for name, gpu in found.items()
            if gpu is not None
        } == {
            "root": ("8", "8", "0", "0", "0", "8"),
            # b and c have one idle each. Of the 9 that are wanted b wants 1, c its 2, so 5 are left for a.
            "a": ("6", "4", "4", "2", "0", "5"),
            "b": ("1", "2", "2", "0", "1", "1"),
            "c": ("1", "2", "2", "0", "1", "2"),
        }
        # a borrows 2 of the 8 that its parent has to share.
        assert {one.name: one.share for one in answer.queues} == {
            "root": "0",
            "a": "250m",
            "b": "0",
            "c": "0",
        }

    in_world(story)


def test_who_waits_is_told_in_the_order_of_the_turns_with_its_reason() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        add_queue(world, "team", quotas=quota(3), preemption=NEVER)
        waits_in(world, "team", "runs", 3)
        await world.settle()
        waits_in(world, "team", "first")
        await world.settle(2)
        waits_in(world, "team", "second")
        waits_in(world, "team", "urgent", priority=5)
        waits_in(world, "team", "member", annotations=GANG)
        await world.settle()
        team = row(await seen(world), "team")
        assert team.pending == (PendingRow("quota", 3), PendingRow("incomplete-gang", 1))
        assert team.waiting is not None
        assert [(one.position, one.kind, one.name, one.reason) for one in team.waiting] == [
            (1, "pod", "urgent", "quota"),
            (2, "pod", "first", "quota"),
            (3, "pod", "second", "quota"),
            (None, "gang", "train", "incomplete-gang"),
        ]
        assert [one.created[-3:] for one in team.waiting] == ["22Z", "20Z", "22Z", "22Z"]

    in_world(story)


def test_a_place_that_is_kept_until_others_have_ended_is_not_in_use() -> None:
    async def story(world: World) -> None:
        await crowded(world, preemption={"reclaim": "Any"})
        answer = await seen(world)
        assert row(answer, "c").pending == (PendingRow("nominated", 1),)
        used = {one.name: one.resource("gpu") for one in answer.queues}
        assert {name: gpu.used for name, gpu in used.items() if gpu} == {
            "root": "8",
            "a": "6",
            "b": "1",
            "c": "1",
        }

    in_world(story)


def test_what_could_start_is_not_in_use_yet() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("n", gpus=4)
        add_queue(world, "team", quotas=quota(3))
        waits_in(world, "team", "soon", 2)
        answer = await seen(world)
        team = row(answer, "team")
        gpu = team.resource("gpu")
        assert gpu is not None
        assert (gpu.used, gpu.fair_share, team.pending) == ("0", "2", (PendingRow("starts", 1),))
        assert team.waiting is not None
        assert [(one.name, one.reason) for one in team.waiting] == [("soon", "starts")]
        assert "no gpufleet scheduler has ever led" in answer.notes[0]
        assert "nothing starts" in answer.notes[0]

    in_world(story)


def test_without_the_right_to_list_pods_the_statuses_are_shown_and_that_is_said() -> None:
    async def story(world: World) -> None:
        await crowded(world)
        by_engine = await seen(world)
        answer = await seen(world, client_type=WithoutPods)
        assert answer.source is AnswerSource.STATUS
        assert answer.notes[0] == "you may not list pods of the whole cluster"
        assert "what a scheduler wrote into the FleetQueues last" in answer.notes[1]
        for told, known in zip(answer.queues, by_engine.queues, strict=True):
            assert (told.name, told.share, told.pending, told.policy) == (
                known.name,
                known.share,
                known.pending,
                known.policy,
            )
            for one in told.resources:
                asked = known.resource(one.resource)
                assert asked is not None
                assert (one.used, one.quota, one.borrowed, one.fair_share) == (
                    asked.used,
                    asked.quota,
                    asked.borrowed,
                    asked.fair_share,
                )
            assert told.waiting is None
        with pytest.raises(InputError, match="which the engine needs"):
            await seen(world, Wanted.ENGINE, WithoutPods)

    in_world(story)


def test_what_is_wrong_with_a_queue_is_told_with_its_field() -> None:
    async def story(world: World) -> None:
        add_queue(world, "family", parent="held", quotas=[{"resource": "gpu/A100", "nominal": 2}])
        add_queue(world, "orphan", parent="nobody")
        add_queue(world, "held", state="Held")
        add_queue(world, "number", weight=[])
        for name in ("first", "second"):
            add_queue(world, name, namespaces=["shared"])
        waits_in(world, "lost", "p")
        await world.settle()
        for wanted in (Wanted.AUTO, Wanted.STATUS):
            answer = await seen(world, wanted)
            found = {one.name: (one.active, one.problems) for one in answer.queues if one.problems}
            assert "spec.quotas[0].resource" in found["family"][1][0].message
            assert (row(answer, "family").parent, row(answer, "held").parent) == ("held", None)
            assert (found["family"][0], found["family"][1][0].reason) == (False, "Malformed")
            assert "weight" in found["number"][1][0].message
            assert found["orphan"][1][0].reason == "ParentMissing"
            assert found["held"][1][0].reason == "Held"
        answer = await seen(world)
        assert row(answer, "second").active
        assert row(answer, "second").problems[0].message == "shared is listed by first too, which has it"
        assert row(answer, "lost").problems[0].reason == "NotDescribed"

    in_world(story)


def test_a_status_that_nobody_can_read_harms_no_other() -> None:
    async def story(world: World) -> None:
        await crowded(world)
        await world.stop()
        forged = {"status": {"resources": [{"resource": "gpu", "used": "lots"}]}}
        path = "/apis/gpufleet.io/v1alpha1/fleetqueues/a/status"
        assert world.request("PATCH", path, forged) == 200
        answer = await seen(world, Wanted.STATUS)
        assert row(answer, "a").problems[-1].reason == "StatusUnreadable"
        assert row(answer, "b").problems == ()

    in_world(story)


def test_one_queue_comes_with_all_below_it() -> None:
    async def story(world: World) -> None:
        for name, parent in (("root", None), ("team", "root"), ("sub", "team"), ("other", "root")):
            add_queue(world, name, parent=parent)
        answer = await seen(world)
        assert [one.name for one in only(answer, "team").queues] == ["team", "sub"]
        with pytest.raises(InputError, match="did you mean other"):
            only(answer, "othr")

    in_world(story)


def test_a_circle_is_shown_whole() -> None:
    async def story(world: World) -> None:
        for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("below", "c")):
            add_queue(world, name, parent=parent)
        answer = await seen(world)
        assert sorted(one.name for one in answer.queues) == ["a", "b", "below", "c"]
        assert {one.problems[0].reason for one in answer.queues} == {"ParentCycle"}

    in_world(story)


def test_without_queues_it_is_said_that_nothing_is_limited() -> None:
    async def story(world: World) -> None:
        answer = await seen(world)
        assert answer.queues == ()
        assert answer.notes[0].startswith("there is no FleetQueue")

    in_world(story)
