"""Images are pulled before work starts: those of allowed registries, while they are wanted, one by one."""

import json

from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.image_puller import AGAIN_S, ImagePuller
from gpufleet.agent.data.node_contents import NodeContents
from gpufleet.agent.data.node_data_writer import NodeDataWriter
from gpufleet.agent.data.wishes import Wishes
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.model.model_errors import WorldError
from tests.agent.api_world import AgentWorld, in_agent_world
from tests.agent.node_values import NODE

PATH = f"/apis/gpufleet.io/v1alpha1/nodedata/{NODE}"
ALLOWED, OTHER = "registry.example/team/a:1", "registry.example/team-b/a:1"
GIB = 1 << 30


class Runtime:
    """A pull takes a minute, and brings 6 GiB; ``fails`` says what it is refused with."""

    def __init__(self, world: AgentWorld) -> None:
        self.world = world
        self.there: list[str] = []
        self.began: list[str] = []
        self.fails = ""

    async def list(self) -> list[DataEntry]:
        """What is there."""
        if self.fails:
            raise WorldError(self.fails)
        return [DataEntry("image", name, 6 * GIB, True, "") for name in self.there]

    async def pull(self, name: str) -> None:
        """One more."""
        self.began.append(name)
        await self.world.after(60.0)
        self.there.append(name)


class Pulling:
    """An agent that pulls from one registry."""

    def __init__(self, world: AgentWorld) -> None:
        self.world, self.runtime = world, Runtime(world)
        wishes, rate = Wishes(world.client, NODE), CopyRate()
        contents = NodeContents((), self.runtime)
        self.writer = NodeDataWriter(world.client, NODE, contents.read, pulls=True, pull_rate=rate)
        allowed = ("registry.example/team",)
        clock = world.client.clock
        self.puller = ImagePuller(wishes, self.runtime, allowed, clock, self.writer.report_now, rate)
        for part in (self.writer, wishes, self.puller):
            world.start(part.run())

    def wish(self, *images: str) -> None:
        """The scheduler wants these there."""
        body = {"metadata": {"annotations": {"gpufleet.io/data-wanted": json.dumps({"images": images})}}}
        assert self.world.request("PATCH", PATH, body) == 200


def test_images_of_allowed_registries_are_pulled_and_reported() -> None:
    async def story(world: AgentWorld) -> None:
        pulling = Pulling(world)
        await world.after(1.0)
        pulling.wish(OTHER, ALLOWED, "registry.example/team/b:1")
        await world.after(62.0)
        assert pulling.runtime.began == [ALLOWED, "registry.example/team/b:1"]
        found = world.report(PATH)
        assert found is not None
        spec = found["spec"]
        assert [one["name"] for one in spec["entries"]] == [ALLOWED]
        # 6 GiB in a minute are 107,374,182 bytes a second, of which two digits are told.
        assert (spec["pulls"], spec["pullBytesPerS"]) == (True, 110_000_000)
        await world.after(60.0 + 2 * AGAIN_S)
        assert pulling.runtime.began == [ALLOWED, "registry.example/team/b:1"]
        assert pulling.puller.problem == ""

    in_agent_world(story)


def test_a_pull_ends_when_its_place_has_changed() -> None:
    async def story(world: AgentWorld) -> None:
        pulling = Pulling(world)
        await world.after(1.0)
        pulling.wish(ALLOWED)
        await world.after(30.0)
        pulling.wish("registry.example/team/b:1")
        await world.after(62.0)
        assert pulling.runtime.there == ["registry.example/team/b:1"]

    in_agent_world(story)


def test_a_runtime_that_fails_is_named_and_asked_again() -> None:
    async def story(world: AgentWorld) -> None:
        pulling = Pulling(world)
        await world.after(1.0)
        pulling.runtime.fails = "the container runtime refuses ListImages: UNAVAILABLE"
        pulling.wish(ALLOWED)
        await world.after(2.0)
        assert pulling.puller.problem == f"the image {ALLOWED} is not pulled: {pulling.runtime.fails}"
        await world.after(75.0)
        found = world.report(PATH)
        assert found is not None
        assert found["spec"]["folders"] == [{"path": "images", "problem": pulling.runtime.fails}]
        pulling.runtime.fails = ""
        await world.after(AGAIN_S + 62.0)
        assert pulling.runtime.there == [ALLOWED]
        assert pulling.puller.problem == ""

    in_agent_world(story)
