"""A pod is kept off nodes whose driver surely cannot run its image, and off no others."""

from tests.scheduler.world import Object, World, in_world

OLD = {"nvidia.com/cuda.driver-version.full": "470.82.01"}
NEW = {"nvidia.com/cuda.driver-version.full": "580.65.06"}


def containers(image: str) -> list[Object]:
    """One container with a GPU and this image."""
    return [{"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}]


def test_a_pod_goes_where_the_driver_runs_its_image() -> None:
    async def story(world: World) -> None:
        world.node("old", labels=OLD)
        world.node("new", gpus=2, labels=NEW)
        for number in range(3):
            world.pod(f"p{number}", containers=containers("nvidia/cuda:13.0.1-base"))
        await world.settle()
        assert sorted(world.node_of(f"p{number}") for number in range(3)) == ["", "new", "new"]

    in_world(story)


def test_a_node_whose_driver_nobody_knows_is_not_refused() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("p", containers=containers("nvidia/cuda:13.0.1-base"))
        await world.settle()
        assert world.node_of("p") == "a"

    in_world(story)


def test_where_only_a_package_in_the_image_could_help_nobody_is_refused() -> None:
    async def story(world: World) -> None:
        world.node("old", labels=OLD)
        world.pod("p", containers=containers("nvidia/cuda:12.4.1-base"))
        await world.settle()
        assert world.node_of("p") == "old"

    in_world(story)


def test_who_waits_is_told_for_which_cuda_and_is_placed_when_the_driver_is_updated() -> None:
    async def story(world: World) -> None:
        world.node("a", labels=OLD)
        world.pod("p", containers=containers("nvidia/cuda:13.0.1-base"))
        await world.settle()
        assert "features needed: driver for CUDA 13" in world.why("p")
        world.request("PATCH", "/api/v1/nodes/a", {"metadata": {"labels": NEW}})
        await world.settle()
        assert world.node_of("p") == "a"

    in_world(story)
