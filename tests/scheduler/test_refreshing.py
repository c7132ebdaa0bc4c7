"""What a waiting pod was told stays true, at a bounded price."""

from tests.scheduler.world import World, in_world


def conditions_written(world: World) -> int:
    asked = [one for one in world.server.answered if one.method == "PATCH" and "/status" in one.target]
    return len(asked)


def test_a_waiting_pod_is_told_of_nodes_that_came_since() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("large", gpus=4)
        await world.settle()
        assert "of 1 node" in world.why("large")
        world.node("b", gpus=2)
        await world.settle(60.0)
        assert "of 2 nodes" in world.why("large")
        assert "nearest is b" in world.why("large") or "fewer GPUs" in world.why("large")

    in_world(story)


def test_a_waiting_gang_is_told_of_members_and_room_that_came_since() -> None:
    annotations = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "3"}

    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("w0", annotations=annotations)
        await world.settle()
        assert "1 has arrived" in world.why("w0")
        world.pod("w1", annotations=annotations)
        await world.settle(60.0)
        assert "2 have arrived" in world.why("w0")
        world.pod("w2", annotations=annotations)
        await world.settle(60.0)
        assert "1 would fit" in world.why("w0")
        world.node("b", gpus=1)
        await world.settle(60.0)
        assert all("2 would fit" in world.why(name) for name in ("w0", "w1", "w2"))

    in_world(story)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        for number in range(20):
            world.pod(f"p{number}", gpus=2)
        await world.settle()
        before = conditions_written(world)
        await world.settle(600.0)
        assert conditions_written(world) == before == 20

    in_world(story)


def test_a_crowd_is_told_the_news_bit_by_bit() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        for number in range(300):
            world.pod(f"p{number}", gpus=2)
        await world.settle()
        assert conditions_written(world) == 300
        world.node("b", gpus=1)
        await world.settle(30.0)
        assert 300 < conditions_written(world) <= 300 + 4 * 50
        await world.settle(120.0)
        assert conditions_written(world) == 600
        assert all("of 2 nodes" in world.why(f"p{number}") for number in range(300))

    in_world(story)


def test_the_news_make_no_event_and_keep_the_time_since_when_the_pod_waits() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("large", gpus=4)
        await world.settle()
        first = world.get("large")["status"]["conditions"][0]["lastTransitionTime"]
        world.node("b", gpus=1)
        await world.settle(60.0)
        assert len(world.events("FailedScheduling")) == 1
        assert world.get("large")["status"]["conditions"][0]["lastTransitionTime"] == first

    in_world(story)


def test_what_the_server_did_not_take_is_said_again() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.loses("PATCH", "/pods/large/status", times=1)
        world.pod("large", gpus=4)
        await world.settle(60.0)
        assert "needs 4 whole GPUs" in world.why("large")

    in_world(story)


def test_a_new_leader_does_not_repeat_what_stands_there() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        for number in range(20):
            world.pod(f"p{number}", gpus=2)
        await world.settle()
        await world.stop()
        world.start()
        await world.settle(60.0)
        assert conditions_written(world) == 20

    in_world(story)
