"""The agent copies what its NodeData names, with real folders in virtual time."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpufleet.agent.data.bandwidth import Bandwidth
from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.copying import Pace
from gpufleet.agent.data.data_folders import FoundData, read_folders
from gpufleet.agent.data.node_data_writer import NodeDataWriter
from gpufleet.agent.data.stager import LOOK_EVERY_S, Stager
from gpufleet.agent.data.staging_cache import Lacking, StagingCache
from gpufleet.agent.data.wishes import Wishes
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.model.data import DataAsk
from tests.agent.api_world import AgentWorld, in_agent_world
from tests.agent.data.test_copying import marked, of_hub, whole
from tests.agent.node_values import NODE

PATH = f"/apis/gpufleet.io/v1alpha1/nodedata/{NODE}"


class Disk:
    """The cache, asked on the loop itself; a copy takes a minute, unless nobody wants it any more."""

    def __init__(self, world: AgentWorld, cache: StagingCache) -> None:
        self.world = world
        self.cache = cache
        self.began: list[str] = []

    async def lacking(self, asks: Sequence[DataAsk]) -> Lacking:
        """What is to be copied."""
        return self.cache.lacking(asks)

    async def note_named(self, asks: Sequence[DataAsk], anew: frozenset[DataAsk]) -> None:
        """What work names."""
        self.cache.note_named(asks, anew)

    async def make_room(self, wanted: DataEntry, asks: Sequence[DataAsk] | None) -> list[DataEntry]:
        """What leaves."""
        return self.cache.make_room(wanted, asks)

    async def copy(self, wanted: DataEntry, still_wanted: Callable[[], bool]) -> int:
        """Copy it."""
        self.began.append(wanted.name)
        await self.world.after(60.0)
        pace: Pace = Bandwidth(1e12, still_wanted, lambda: 0.0)
        return self.cache.copy(wanted, pace)

    async def tidy(self, wanted: Sequence[DataEntry]) -> None:
        """Remove what broke off."""
        self.cache.tidy(wanted)


class Staging:
    """An agent with a store that has a dataset and a model, and an empty cache."""

    def __init__(self, world: AgentWorld, folder: Path) -> None:
        self.world, self.store, self.folder = world, folder / "store", folder / "cache"
        self.store.mkdir(parents=True)
        self.folder.mkdir()
        (self.store / "hub").mkdir()
        marked(self.store)
        of_hub(self.store / "hub")
        self.disk = Disk(world, StagingCache([self.store], self.folder, lambda: 0.0))
        rate = CopyRate(bytes_least=1)
        self.writer = NodeDataWriter(world.client, NODE, self.read, stages=True, copy_rate=rate)
        wishes = Wishes(world.client, NODE)
        self.stager = Stager(wishes, world.client.clock, self.disk, self.writer.report_now, rate)
        world.start(self.writer.run())
        world.start(wishes.run())
        world.start(self.stager.run())

    async def read(self) -> FoundData:
        """What the cache has."""
        return read_folders([self.folder])

    def wish(self, *stage: str, keep: tuple[str, ...] = ()) -> None:
        """The scheduler wants this there."""
        text = json.dumps({"stage": stage, "keep": keep})
        body = {"metadata": {"annotations": {"gpufleet.io/data-wanted": text}}}
        assert self.world.request("PATCH", PATH, body) == 200

    def there(self) -> list[str]:
        """What the cache has whole."""
        return sorted(one.name for one in whole(self.folder))

    def spec(self) -> dict[str, Any]:
        """What NodeData says."""
        found = self.world.report(PATH)
        assert found is not None
        spec: dict[str, Any] = found["spec"]
        return spec

    def reported(self) -> list[str]:
        """What NodeData says that the node has whole."""
        return sorted(one["name"] for one in self.spec()["entries"] if one["complete"])


def test_what_is_wanted_is_copied_one_by_one_and_reported_at_once(tmp_path: Path) -> None:
    async def story(world: AgentWorld) -> None:
        staging = Staging(world, tmp_path)
        await world.after(1.0)
        assert staging.spec()["stages"] is True
        staging.wish("model/Qwen/Qwen3-8B@main", "dataset/own/set", "model/nobody/has")
        await world.after(61.0)
        assert staging.there() == staging.reported() == ["Qwen/Qwen3-8B"]
        # 1050 bytes in a minute are 17.5 a second, of which two digits are told.
        assert staging.spec()["copyBytesPerS"] in (17, 18)
        await world.after(60.0)
        assert staging.there() == staging.reported() == ["Qwen/Qwen3-8B", "own/set"]
        await world.after(10 * LOOK_EVERY_S)
        assert staging.disk.began == ["Qwen/Qwen3-8B", "own/set"]
        assert staging.stager.problem == ""

    in_agent_world(story)


def test_a_wish_that_comes_between_two_reports_is_no_trouble(tmp_path: Path) -> None:
    async def story(world: AgentWorld) -> None:
        staging = Staging(world, tmp_path)
        await world.after(1.0)
        staging.wish("model/nobody/has")
        marked(staging.folder / "own")
        staging.writer.report_now()
        await world.after(10.0)
        assert staging.writer.problem == ""
        assert staging.reported() == ["own/set"]

    in_agent_world(story)


def test_a_copy_ends_when_its_place_has_changed(tmp_path: Path) -> None:
    async def story(world: AgentWorld) -> None:
        staging = Staging(world, tmp_path)
        await world.after(1.0)
        staging.wish("dataset/own/set")
        await world.after(30.0)
        staging.wish("model/Qwen/Qwen3-8B", keep=("dataset/own/set",))
        await world.after(30.0 + 61.0)
        assert staging.disk.began == ["own/set", "Qwen/Qwen3-8B"]
        assert staging.there() == ["Qwen/Qwen3-8B"]
        assert sorted(one.name for one in (staging.folder / ".gpufleet-staging").iterdir()) == ["staged.json"]

    in_agent_world(story)


def test_a_wish_that_cannot_be_read_copies_nothing_and_a_copy_that_fails_is_tried_again(
    tmp_path: Path,
) -> None:
    async def story(world: AgentWorld) -> None:
        staging = Staging(world, tmp_path)
        await world.after(1.0)
        staging.wish("../../etc/passwd")
        await world.after(LOOK_EVERY_S)
        assert staging.disk.began == []
        (staging.store / "set" / "link").symlink_to("/etc/passwd")
        staging.wish("dataset/own/set")
        await world.after(62.0)
        assert staging.stager.problem.startswith("dataset/own/set is not staged: ")
        (staging.store / "set" / "link").unlink()
        await world.after(LOOK_EVERY_S + 61.0)
        assert staging.there() == ["own/set"]
        assert staging.stager.problem == ""

    in_agent_world(story)
