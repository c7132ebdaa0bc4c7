"""Where no pod is evicted for work that waits for room, the answer says which rule keeps it so."""

from typing import Any

import pytest

from gpufleet.cluster.settings import BY_PRIORITY, BY_QUEUES
from gpufleet.engine.preempt.by_name import SEARCHES
from tests.explain.test_explain import answer_in
from tests.scheduler.test_eviction_planner import add_queue
from tests.scheduler.world import World, in_world

SAKE = "no pod is evicted for its sake: "


def notes(running: list[dict[str, Any]], asking: dict[str, Any], **settings: Any) -> tuple[str, ...]:
    """What is noted of a pod that waits beside these, on a node with one GPU for each of these."""
    found: list[tuple[str, ...]] = []

    async def story(world: World) -> None:
        world.node("n", gpus=max(1, len(running)))
        for number, one in enumerate(running):
            world.pod(f"runs-{number}", **one)
        await world.settle()
        world.pod("waits", **asking)
        await world.settle()
        answer = await answer_in(world, "waits")
        found.append(answer.notes)

    in_world(story, **settings)
    return found[0]


@pytest.mark.parametrize(
    ("running", "asking", "expected"),
    [
        pytest.param(
            [{"priority": 5}],
            {"priority": 5},
            "none that runs has a lower priority than its 5",
            id="nobody is lower",
        ),
        pytest.param(
            [{"priority": 1}],
            {"priority": 5, "preemptionPolicy": "Never"},
            "its preemptionPolicy is Never",
            id="never",
        ),
        pytest.param(
            [{"priority": 1}, {"priority": 9}],
            {"priority": 5, "gpus": 2},
            "the end of the 1 pod of a lower priority than its 5 would not make room for it",
            id="too little would come free",
        ),
    ],
)
def test_the_rule_is_named(running: list[dict[str, Any]], asking: dict[str, Any], expected: str) -> None:
    assert f"{SAKE}{expected}" in notes(running, asking)


def test_what_the_administrator_turned_off_is_read_from_the_lease() -> None:
    told = notes([{"priority": 1}], {"priority": 5}, victims=BY_QUEUES)
    assert f"{SAKE}preemption by priority is turned off (preemptByPriority)" in told


def test_work_for_which_pods_are_evicted_hears_no_such_rule() -> None:
    assert not [note for note in notes([{"priority": 1}], {"priority": 5}) if note.startswith(SAKE)]


def test_a_queue_whose_policy_is_never_says_so() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        never = {"withinQueue": "Never", "reclaim": "Never", "borrowing": "Never"}
        add_queue(world, "a", 2, preemption=never)
        world.pod("runs", labels={"gpufleet.io/queue": "a"})
        await world.settle()
        world.pod("waits", labels={"gpufleet.io/queue": "a"}, priority=5)
        await world.settle()
        answer = await answer_in(world, "waits")
        assert f"{SAKE}the preemption of queue a says Never" in answer.notes

    in_world(story)


def test_the_engine_knows_the_searches_that_a_scheduler_may_be_set_to() -> None:
    assert {BY_QUEUES, BY_PRIORITY} <= SEARCHES.keys()
