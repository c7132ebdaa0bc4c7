"""Members of gangs are kept where they run by what autoscalers of nodes read, from the first moment on."""

import pytest

from gpufleet.kube import keys
from tests.scheduler.world import Object, World, in_world

BOTH = {keys.SAFE_TO_EVICT: "false", keys.DO_NOT_DISRUPT: "true"}


def a_gang(world: World, **said: str) -> None:
    world.node("n", gpus=3)
    words = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "2"}
    world.pod("g1", annotations=words)
    world.pod("g2", annotations={**words, **said})
    world.pod("alone")


def protection(world: World, name: str) -> Object:
    said = world.get(name)["metadata"].get("annotations", {})
    return {key: said[key] for key in BOTH if key in said}


def test_a_member_is_protected_and_a_pod_that_stands_alone_is_not() -> None:
    async def story(world: World) -> None:
        a_gang(world)
        await world.settle(10)
        assert {world.node_of(name) for name in ("g1", "g2", "alone")} == {"n"}
        assert [protection(world, name) for name in ("g1", "g2", "alone")] == [BOTH, BOTH, {}]

    in_world(story)


@pytest.mark.parametrize(("key", "value"), [(keys.SAFE_TO_EVICT, "true"), (keys.DO_NOT_DISRUPT, "30m")])
def test_what_a_pod_says_itself_stays(key: str, value: str) -> None:
    async def story(world: World) -> None:
        a_gang(world, **{key: value})
        await world.settle(10)
        assert protection(world, "g2") == {**BOTH, key: value}

    in_world(story)


def test_the_protection_comes_with_the_place_in_one_write() -> None:
    """No moment has one without the other, whenever the scheduler ends."""

    async def story(world: World) -> None:
        a_gang(world)
        for _ in range(100):
            await world.settle(0.1)
            for name in ("g1", "g2"):
                assert bool(world.node_of(name)) == bool(protection(world, name))
        assert world.node_of("g1") == "n"

    in_world(story)
