"""A plan on its way to Nodes: others' wishes stay, a conflict is read anew, the agent's words are told."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import msgspec
import pytest

from gpufleet.cluster.mig_layouts.node_writer import write_layouts
from gpufleet.kube.backoff import RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.resources import NODES, Kind
from gpufleet.mig.wanted import (
    LAYOUTS_ANNOTATION,
    STATES_ANNOTATION,
    CardLayoutState,
    LayoutState,
    write_wanted,
)
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import WorldError
from gpufleet.repartition.answer import SCHEMA, PlannedCard, PlannedStep, RepartitionPlan
from gpufleet.repartition.applying import LayoutsNotReachedError, Waiting
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.mig.mig_cards import at

CARD, OTHER = DeviceId("GPU-a"), DeviceId("GPU-b")
THERE = write_wanted({OTHER: None})
MAKE = PlannedStep("make", "2g.20gb", 2)
PLAN = RepartitionPlan(
    SCHEMA, "", (PlannedCard("gpu-1", CARD, (), (), ("2g.20gb@2",), (MAKE,)),), (), (), (), ()
)


class MeddledClient(Client):
    """Another writer comes between each read and what follows."""

    meddle: Callable[[], Awaitable[None]] | None = None

    async def get(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
        retry_limits: RetryLimits | None = None,
    ) -> bytes:
        """As Client."""
        found = await super().get(
            kind, name, namespace=namespace, subresource=subresource, retry_limits=retry_limits
        )
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            await meddle()
        return found


class World:
    """One Node in an API server, and a client."""

    def __init__(self, loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        self.server = ApiServer(clock, Random(1))
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}}
        self.server.add({**node, "metadata": {"name": "gpu-1", "annotations": {LAYOUTS_ANNOTATION: THERE}}})
        self.client = MeddledClient(
            SimulatedTransport(self.server, "system:masters", Random(2)), clock, Random(3)
        )
        self.told: list[str] = []

    async def annotate(self, key: str, text: str) -> None:
        """Another writer's annotation."""
        await self.client.patch(NODES, "gpu-1", {"metadata": {"annotations": {key: text}}})

    async def says(self, *states: CardLayoutState) -> None:
        """The agent says these one after another."""
        for state in states:
            await asyncio.sleep(3)
            await self.annotate(STATES_ANNOTATION, msgspec.json.encode({CARD: state}).decode())

    async def wishes(self) -> object:
        """What the Node says its cards shall be."""
        found = msgspec.json.decode(await self.client.get(NODES, "gpu-1"))
        return msgspec.json.decode(found["metadata"]["annotations"][LAYOUTS_ANNOTATION])


def in_world(story: Callable[[World], Awaitable[None]]) -> None:
    async def tell(loop: VirtualLoop) -> None:
        await story(World(loop))

    run(tell)


def test_a_conflict_is_read_anew_and_wishes_for_other_cards_stay() -> None:
    async def story(world: World) -> None:
        third = write_wanted({OTHER: None, DeviceId("GPU-c"): ()})
        world.client.meddle = lambda: world.annotate(LAYOUTS_ANNOTATION, third)
        await write_layouts(world.client, "gpu-1", {CARD: at("2g.20gb@2")}, THERE)
        assert await world.wishes() == {"GPU-a": ["2g.20gb@2"], "GPU-b": None, "GPU-c": []}

    in_world(story)


def test_a_wish_that_another_wrote_since_the_plan_is_not_overwritten() -> None:
    async def story(world: World) -> None:
        theirs = write_wanted({CARD: None})
        world.client.meddle = lambda: world.annotate(LAYOUTS_ANNOTATION, theirs)
        with pytest.raises(WorldError, match="another layout of GPU-a was written on node gpu-1 meanwhile"):
            await write_layouts(world.client, "gpu-1", {CARD: at("2g.20gb@2")}, THERE)
        assert await world.wishes() == {"GPU-a": None}

    in_world(story)


def said(state: LayoutState, problem: str = "", *layout: str) -> CardLayoutState:
    return CardLayoutState(state, problem, layout or ("2g.20gb@2",))


@pytest.mark.parametrize(
    ("states", "told", "problem"),
    [
        (
            # What the agent says of the layout before is no answer.
            [
                said(LayoutState.SUCCESS, "", "1g.10gb@0"),
                said(LayoutState.PENDING),
                said(LayoutState.SUCCESS),
            ],
            ["gpu-1 GPU-a: pending", "gpu-1 GPU-a: success", "1 card as planned"],
            "",
        ),
        (
            [said(LayoutState.FAILED, "the card is shared")],
            ["gpu-1 GPU-a: failed, the card is shared"],
            "GPU-a: failed, the card is shared",
        ),
        (
            [said(LayoutState.WAITING, "3g.40gb@0 is in use")],
            ["gpu-1 GPU-a: waiting, 3g.40gb@0 is in use"],
            "GPU-a: waiting, 3g.40gb@0 is in use",
        ),
        (
            [],
            ["gpu-1: no word of its agent yet (it changes layouts where it runs with --mig-layouts)"],
            "GPU-a: no word of its agent after 60 s (it changes layouts where it runs with --mig-layouts)",
        ),
    ],
    ids=["done", "refused", "in use", "silent"],
)
def test_the_words_of_the_agent_are_told(
    states: list[CardLayoutState], told: list[str], problem: str
) -> None:
    async def story(world: World) -> None:
        await write_layouts(world.client, "gpu-1", {CARD: at("2g.20gb@2")}, THERE)
        agent = asyncio.ensure_future(world.says(*states))
        waiting = Waiting(world.client, PLAN, world.told.append)
        if problem:
            with pytest.raises(LayoutsNotReachedError) as raised:
                await waiting.run(60)
            assert str(raised.value) == problem
        else:
            await waiting.run(60)
        assert world.told == told
        await agent

    in_world(story)


def test_a_wait_ends_where_another_layout_is_written() -> None:
    async def story(world: World) -> None:
        await write_layouts(world.client, "gpu-1", {CARD: at("2g.20gb@2")}, THERE)
        waiting = asyncio.ensure_future(Waiting(world.client, PLAN, world.told.append).run(60))
        await asyncio.sleep(5)
        await world.annotate(LAYOUTS_ANNOTATION, THERE)
        with pytest.raises(LayoutsNotReachedError, match="another layout of GPU-a was written meanwhile"):
            await waiting

    in_world(story)
