"""Inputs 30 to 37 while the agent runs: each keeps the last good configuration, and the node says so.

From a file and from a ConfigMap; the corpus is that of the readers. The node says it in an Event, in its
annotation and condition, and in a metric, until it is mended.
"""

import re

import pytest

from gpufleet.agent.reports.node_condition import annotation, condition
from gpufleet.agent.sharing.sharing_source import REFUSED
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.sharing.plan import TimeSlice
from tests.agent.exporter.builders import Node
from tests.agent.sharing_world import NODE, SharingWorld, in_sharing_world
from tests.agent.test_sharing_source import slices
from tests.devices.sharing_inputs import GPUS, OWN, PLUGIN, text

ROWS = [("own", name, said) for name, said in OWN.items()] + [
    ("plugin", name, said) for name, said in PLUGIN.items()
]
PLACES = pytest.mark.parametrize("in_api", [False, True], ids=["file", "ConfigMap"])
LAST_GOOD = "The last good configuration stays in force"


def writes(world: SharingWorld, written: str) -> None:
    """This is the configuration now."""
    world.declares(default=written) if world.in_api else world.writes(written)


async def good(world: SharingWorld) -> None:
    """The agent runs, and every card is shared among four."""
    world.labels(pool="training")
    writes(world, slices(4))
    world.start()
    await world.settle()
    assert world.modes() == [TimeSlice(4)] * len(world.gpus)
    assert world.said.problems == ()


async def kept(world: SharingWorld) -> str:
    """The last good configuration counts, and the node says why, in each of its ways; what it says."""
    await world.settle()
    assert world.modes() == [TimeSlice(4)] * len(world.gpus)
    (problem,) = world.said.problems
    assert problem.endswith(LAST_GOOD)
    assert world.events(REFUSED) == [problem.removeprefix("sharing: ")]
    gpus = tuple(Gpu(facts, world.said.plan(facts)) for facts in world.gpus)
    node = NodeGpus(NODE, "boot-1", gpus=gpus, problems=world.said.problems)
    assert annotation(node) == problem
    told = condition(node)
    assert told is not None
    assert problem in told.message
    assert Node(node).scrape().value("gpufleet_agent_problems") == 1
    return problem


async def mended(world: SharingWorld) -> None:
    """What is good again counts at once."""
    writes(world, slices(6))
    await world.settle()
    assert world.modes() == [TimeSlice(6)] * len(world.gpus)
    assert world.said.problems == ()


@PLACES
@pytest.mark.parametrize(("form", "name", "said"), ROWS, ids=[f"{form}-{name}" for form, name, _ in ROWS])
def test_a_bad_edit_keeps_the_last_good_one_and_the_node_says_so(
    form: str, name: str, said: str, *, in_api: bool
) -> None:
    async def story(world: SharingWorld) -> None:
        await good(world)
        writes(world, text(form, name))
        problem = await kept(world)
        assert re.search(said, problem), problem
        await mended(world)

    in_sharing_world(story, GPUS, in_api=in_api)


def test_what_is_no_text_keeps_the_last_good_one() -> None:
    async def story(world: SharingWorld) -> None:
        await good(world)
        world.writes(b"\xff\xfe\x00")
        await kept(world)
        await mended(world)

    in_sharing_world(story, GPUS)


def test_30_a_label_that_names_no_key_keeps_what_holds() -> None:
    async def story(world: SharingWorld) -> None:
        world.declares(default=slices(4), big=slices(8))
        world.start()
        await world.settle()
        world.labels(config="bgi")
        assert "one of big, default; did you mean big?" in await kept(world)

    in_sharing_world(story, GPUS, in_api=True)


def test_30_a_key_that_is_taken_away_while_it_counts_keeps_what_holds() -> None:
    async def story(world: SharingWorld) -> None:
        world.declares(default=slices(8), small=slices(4))
        world.labels(config="small")
        world.start()
        await world.settle()
        world.declares(default=slices(8))
        assert "no such configuration, found 'small'; expected one of default" in await kept(world)

    in_sharing_world(story, GPUS, in_api=True)


def test_30_a_folder_without_the_chosen_file_keeps_what_holds() -> None:
    async def story(world: SharingWorld) -> None:
        mount = world.folder / "mount"
        mount.mkdir()
        (mount / "default").write_text(slices(8), encoding="utf-8")
        (mount / "small").write_text(slices(4), encoding="utf-8")
        world.labels(config="small")
        world.start(path=mount)
        await world.settle()
        (mount / "small").unlink()
        assert "no such configuration, found 'small'; expected one of default" in await kept(world)

    in_sharing_world(story, GPUS)


@PLACES
def test_36_what_is_deleted_while_running_still_counts(*, in_api: bool) -> None:
    async def story(world: SharingWorld) -> None:
        await good(world)
        world.deletes() if in_api else world.path.unlink()
        assert ("no such ConfigMap" if in_api else "No such file") in await kept(world)
        await mended(world)

    in_sharing_world(story, GPUS, in_api=in_api)


def test_36_a_config_map_without_keys_keeps_the_last_good_one() -> None:
    async def story(world: SharingWorld) -> None:
        await good(world)
        world.declares()
        assert "the ConfigMap has no configuration" in await kept(world)
        await mended(world)

    in_sharing_world(story, GPUS, in_api=True)
