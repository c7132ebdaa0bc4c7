"""What is wrong with a queue is told soon, in its condition and an Event, however busy the scheduler is."""

from typing import Any

import pytest

from gpufleet.scheduler import service
from gpufleet.scheduler.queue_status_writer import QueueStatusWriter
from tests.scheduler.test_queues import QUEUES, add_queue, condition, queue, status_writes
from tests.scheduler.world import World, in_world

SOON_S = 5.0


class Busy(QueueStatusWriter):
    """A scheduler that always has binds under way, and whose figures take long to put together."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "busy": lambda: True})


@pytest.fixture(params=[False, True], ids=["idle", "busy"])
def load(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle, and busy."""
    if request.param:
        monkeypatch.setattr(service, "QueueStatusWriter", Busy)


TROUBLES: list[tuple[dict[str, dict[str, Any]], str, str]] = [
    ({"a": {"parent": "gone"}}, "ParentMissing", "the parent of the queue is not there"),
    ({"a": {"parent": "b"}, "b": {"parent": "a"}}, "ParentCycle", "the queue is its own ancestor"),
    ({"a": {"parent": "a"}}, "Malformed", "its own parent"),
    ({"a": {"quotas": [{"resource": "gpu", "nominal": "-1"}]}}, "Malformed", "spec.quotas[0].nominal"),
    ({"a": {"quotas": [7]}}, "Malformed", "quotas"),
]


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize(("specs", "reason", "words"), TROUBLES)
def test_what_is_wrong_with_a_new_queue_is_told_soon(
    specs: dict[str, dict[str, Any]], reason: str, words: str
) -> None:
    async def story(world: World) -> None:
        add_queue(world, "good")
        await world.settle(31.7)
        for name, spec in specs.items():
            add_queue(world, name, **spec)
        await world.settle(SOON_S)
        told = condition(world, "a")
        assert (told["status"], told["reason"]) == ("False", reason)
        assert words in told["message"]
        assert len([note for note in world.events(reason) if words in note]) == len(specs)
        await world.settle(60)
        assert len(world.events(reason)) == len(specs), "an Event is written once"

    in_world(story)


@pytest.mark.usefixtures("load")
def test_a_queue_that_breaks_or_is_mended_later_is_told_soon() -> None:
    async def story(world: World) -> None:
        add_queue(world, "root")
        add_queue(world, "a", parent="root")
        await world.settle(33.3)
        assert condition(world, "a")["status"] == "True"
        assert world.request("PATCH", f"{QUEUES}/root", {"spec": {"parent": "a"}}) == 200
        await world.settle(SOON_S)
        assert condition(world, "a")["reason"] == "ParentCycle"
        assert condition(world, "root")["reason"] == "ParentCycle"
        assert world.request("PATCH", f"{QUEUES}/root", {"spec": {"parent": None}}) == 200
        await world.settle(SOON_S)
        assert condition(world, "a")["status"] == "True"

    in_world(story)


def test_what_is_wrong_comes_before_all_that_is_new_of_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufleet.scheduler.queue_status_writer.WRITES_A_TURN", 5)

    async def story(world: World) -> None:
        await world.settle(10)
        for number in range(40):
            add_queue(world, f"q{number:02}")
        add_queue(world, "zz", parent="gone")
        await world.settle(SOON_S)
        assert condition(world, "zz")["reason"] == "ParentMissing"

    in_world(story)


def test_another_scheduler_that_stands_by_says_nothing_and_is_in_nobodys_way() -> None:
    async def story(world: World) -> None:
        await world.settle(20)
        leader = world.life
        world.start()
        add_queue(world, "a", parent="gone")
        await world.settle(SOON_S)
        assert condition(world, "a")["reason"] == "ParentMissing"
        assert len(world.events("ParentMissing")) == 1
        await world.stop()
        assert leader is not None
        leader.cancel()

    in_world(story)


def test_names_that_are_local_names_of_other_queues_are_told_to_their_queue() -> None:
    async def story(world: World) -> None:
        add_queue(world, "train")
        add_queue(world, "x", localQueues=[{"namespace": "lab", "name": "train"}])
        await world.settle()
        assert queue(world, "train")["status"]["localNameIn"] == ["lab"]
        assert "localNameIn" not in queue(world, "x")["status"]
        assert world.request("PATCH", f"{QUEUES}/x", {"spec": {"localQueues": None}}) == 200
        await world.settle()
        assert "localNameIn" not in queue(world, "train")["status"]
        assert status_writes(world).count("train") == 2

    in_world(story)
