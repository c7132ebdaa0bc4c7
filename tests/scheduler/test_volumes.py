"""Pods with claims: the place and the volume are decided together, and the pod is bound last."""

from random import Random

from gpufleet.simulation.volume_actors import VolumeActors, claim, local_volume, storage_class
from tests.scheduler.world import World, in_world


def volumes(world: World) -> VolumeActors:
    """A class, and who makes its volumes."""
    world.add(storage_class())
    actors = VolumeActors(world.server, Random(1))
    world.also(actors.run())
    return actors


def mount(name: str) -> list[dict[str, object]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def test_a_volume_is_made_where_the_pod_goes() -> None:
    async def story(world: World) -> None:
        volumes(world)
        world.node("a", gpus=1)
        world.add(claim("data", "default"))
        world.pod("p", volumes=mount("data"))
        await world.settle()
        assert world.node_of("p") == "a"
        made = world.objects("/api/v1/persistentvolumes")
        assert [one["spec"]["claimRef"]["name"] for one in made] == ["data"]

    in_world(story)


def test_a_volume_that_is_there_is_taken_and_decides_the_node() -> None:
    async def story(world: World) -> None:
        world.add(storage_class("static", "kubernetes.io/no-provisioner"))
        world.also(VolumeActors(world.server, Random(1)).run())
        for name in ("a", "b", "c"):
            world.node(name)
        world.add(local_volume("disk", "b", "static"))
        world.add(claim("data", "default", "static"))
        world.pod("p", volumes=mount("data"))
        await world.settle()
        assert world.node_of("p") == "b"

    in_world(story)


def test_a_pod_whose_claim_is_bound_in_steps_is_bound_once() -> None:
    """What a claim looks like halfway must not let go of the place that was decided with it."""

    async def story(world: World) -> None:
        volumes(world)
        world.node("a", gpus=1)
        world.node("b", gpus=1)
        for name in ("p", "q"):
            world.add(claim(f"data-{name}", "default"))
            world.pod(name, volumes=mount(f"data-{name}"))
        await world.settle()
        assert sorted(world.node_of(name) for name in ("p", "q")) == ["a", "b"]
        assert [code for _, code in world.bindings()] == [201, 201]

    in_world(story)


def test_a_provisioner_that_turns_a_node_down_is_asked_for_another() -> None:
    async def story(world: World) -> None:
        actors = volumes(world)
        actors.refuses = lambda _claim, node: node != "c"
        for name in ("a", "b", "c"):
            world.node(name)
        world.add(claim("data", "default"))
        world.pod("p", volumes=mount("data"))
        await world.settle(60.0)
        assert actors.refused
        assert world.node_of("p") == "c"

    in_world(story)


def test_a_claim_whose_node_was_never_written_is_chosen_again() -> None:
    async def story(world: World) -> None:
        volumes(world)
        world.node("a")
        world.loses("PATCH", "/persistentvolumeclaims/", times=1)
        world.add(claim("data", "default"))
        world.pod("p", volumes=mount("data"))
        await world.settle(60.0)
        assert world.node_of("p") == "a"

    in_world(story)


def test_other_pods_are_not_kept_waiting_by_claims() -> None:
    async def story(world: World) -> None:
        world.add(storage_class())  # and nobody makes volumes
        world.node("a", gpus=8)
        for number in range(40):
            world.add(claim(f"data-{number}", "default"))
            world.pod(f"stuck-{number}", gpus=0, volumes=mount(f"data-{number}"))
        await world.settle(10.0)
        world.pod("free")
        await world.settle(10.0)
        assert world.node_of("free") == "a"

    in_world(story)
