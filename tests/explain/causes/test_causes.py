"""For each labelled cause the right one is said first, with a way out; the scheduler agrees that it waits."""

import pytest

from gpufleet.cli.explain_output import lines
from gpufleet.cluster.settings import Settings
from gpufleet.engine.explanations.causes import all_causes
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.explain.answer import WITHOUT_ENGINE, Answer, State
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from tests.explain.causes import (
    data,
    device_claims,
    eviction,
    gangs,
    held,
    neighbours,
    nodes,
    queues,
    reservations,
    room,
)
from tests.explain.causes.book import CAUSES, Cause
from tests.scheduler.world import World, in_world

MODULES = (data, device_claims, gangs, held, neighbours, nodes, queues, reservations, room, eviction)
SETTINGS = Settings(identity="explain")


async def answer_in(world: World, name: str) -> Answer:
    """Ask as an administrator does."""
    client = Client(world.transport("system:masters"), world.clock, world.random)
    return await ask(client, SETTINGS, name, "default", lambda _: None)


@pytest.mark.parametrize("one", CAUSES, ids=lambda one: one.name)
def test_the_right_cause_comes_first_and_the_way_out_names_what_to_change(one: Cause) -> None:
    async def story(world: World) -> None:
        if not one.scheduler:
            await world.stop()
        one.build(world)
        if one.scheduler:
            await world.settle()
        answer = await answer_in(world, one.asks)
        assert answer.state not in {State.RUNS, State.PLACED}
        assert (answer.cause, answer.why) == (one.cause, Containing(one.why))
        assert any(one.way in way for way in answer.way_out), answer.way_out
        assert sum(row.first for row in answer.reasons) <= answer.nodes
        for row in answer.reasons:
            assert row.first <= row.all == len(row.nodes)

    in_world(story)


@pytest.mark.parametrize("one", CAUSES, ids=lambda one: one.name)
def test_every_pod_of_every_case_has_an_answer_that_agrees_with_where_it_is(one: Cause) -> None:
    async def story(world: World) -> None:
        one.build(world)
        await world.settle()
        for pod in world.objects("/api/v1/pods"):
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
            answer = await answer_in(world, f"pod/{name}")
            assert (answer.placement is not None) == bool(node)
            if not node:
                assert answer.cause not in {"", "unknown", "unseen", "about-to-run", "no-leader"}
                assert answer.why
                assert answer.way_out
            for width in (40, 120):
                assert max(map(len, lines(answer, width))) <= width

    in_world(story)


class Containing(str):
    """Equal to every text that contains it, so that a failure shows both."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self) in other

    def __hash__(self) -> int:
        return hash(str(self))


def test_every_reason_of_nodes_has_a_case() -> None:
    assert {one.name for one in TABLE.reasons} <= {one.cause for one in CAUSES}


def test_every_cause_is_a_known_one() -> None:
    known = {one.name for one in all_causes()} | WITHOUT_ENGINE
    assert {one.cause for one in CAUSES} <= known
