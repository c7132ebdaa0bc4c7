"""Where a budget is spent new work waits, what runs goes on, and a ledger that falls silent holds nothing."""

import datetime as dt

from gpufleet.kube.codec.times import whole_time
from tests.explain.causes.queues import spend
from tests.scheduler.test_queues import add_queue, condition, queue
from tests.scheduler.world import World, in_world

QUEUE = {"gpufleet.io/queue": "team"}
STATUS = "/apis/gpufleet.io/v1alpha1/fleetqueues/team/status"


def scheduled(world: World, pod: str) -> str:
    conditions = world.get(pod)["status"].get("conditions", [])
    return next(f"{one['reason']}: {one['message']}" for one in conditions if one["type"] == "PodScheduled")


async def spent_for_a_minute(world: World) -> None:
    """A pod runs, the budget is spent for the next minute, and another pod comes."""
    world.node("n", gpus=2)
    add_queue(world, "team")
    world.pod("runs", labels=QUEUE)
    await world.settle(10)
    spend(world, "team", whole_time(world.clock.now() + dt.timedelta(seconds=60)))
    await world.settle(5)
    world.pod("new", labels=QUEUE)
    await world.settle(10)


def test_new_work_waits_with_a_reason_of_its_own_and_what_runs_goes_on() -> None:
    async def story(world: World) -> None:
        await spent_for_a_minute(world)
        assert (world.node_of("runs"), world.node_of("new")) == ("n", "")
        told = scheduled(world, "new")
        assert told.startswith("WaitingForBudget: ")
        assert "the budget of queue team is spent (800.00 EUR until 2026-12-01)" in told
        active, within = condition(world, "team"), condition(world, "team", "WithinBudget")
        assert (active["status"], active["reason"]) == ("False", "BudgetSpent")
        spent = "the budget of the queue is spent (800.00 EUR until 2026-12-01)"
        assert active["message"].startswith(spent)
        assert (within["status"], within["reason"]) == ("False", "BudgetSpent")
        # The scheduler's own writes leave what the ledger says.
        assert queue(world, "team")["status"]["budget"]["cost"] == "812.34 EUR"

    in_world(story)


def test_what_the_ledger_takes_back_holds_no_more() -> None:
    async def story(world: World) -> None:
        await spent_for_a_minute(world)
        assert world.request("PATCH", STATUS, {"status": {"budget": None}}) == 200
        await world.settle(10)
        assert world.node_of("new") == "n"
        assert condition(world, "team")["status"] == "True"
        assert condition(world, "team", "WithinBudget") == {}

    in_world(story)


def test_where_the_ledger_falls_silent_work_starts_and_the_queue_says_since_when() -> None:
    async def story(world: World) -> None:
        await spent_for_a_minute(world)
        # The minute is over, and a turn of statuses too.
        await world.settle(70)
        assert world.node_of("new") == "n"
        within = condition(world, "team", "WithinBudget")
        assert (within["status"], within["reason"]) == ("True", "HoldEnded")
        assert "the ledger has said nothing since 2026-11-28T10:00:00Z" in within["message"]

    in_world(story)


def test_the_next_leader_holds_it_too() -> None:
    async def story(world: World) -> None:
        await spent_for_a_minute(world)
        await world.stop()
        world.start()
        await world.settle(20)
        assert (world.node_of("runs"), world.node_of("new")) == ("n", "")
        await world.settle(60)
        assert world.node_of("new") == "n"

    in_world(story)
