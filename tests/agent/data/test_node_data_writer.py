"""NodeData says what the folders hold: within a minute, seldom, and whatever the API server does."""

from typing import Any

import msgspec

from gpufleet.agent.data.data_folders import FoundData
from gpufleet.agent.data.node_data_writer import EVERY_S, NodeDataWriter, spec_of
from gpufleet.kube.objects.node_data import DataEntry, DataFolder, NodeDataSpec, encode_node_data
from tests.agent.api_world import AgentWorld, Hindrance, in_agent_world
from tests.agent.node_values import NODE

PATH = f"/apis/gpufleet.io/v1alpha1/nodedata/{NODE}"


def entry(name: str = "own/net", size_bytes: int = 10, *, complete: bool = True) -> DataEntry:
    return DataEntry("model", name, size_bytes, complete, "/data")


def found(*entries: DataEntry) -> FoundData:
    return FoundData(entries, (DataFolder("/data", 100, 50),))


class Writing:
    """A writer at work on folders that a test fills."""

    def __init__(self, world: AgentWorld, *, has_folders: bool = True) -> None:
        self.world = world
        self.holds = found(entry())
        self.writer = NodeDataWriter(world.client, NODE, self.read if has_folders else None)
        self.task = world.start(self.writer.run())

    async def read(self) -> FoundData:
        """What the folders hold now."""
        return self.holds

    def written(self) -> dict[str, Any]:
        """The object as the server has it."""
        found = self.world.report(PATH)
        assert found is not None
        return found

    def names(self) -> list[str]:
        """The entries as written, by name."""
        return [one["name"] for one in self.written()["spec"]["entries"]]


def test_a_report_is_made_goes_with_its_node_and_is_written_again_only_where_it_differs() -> None:
    async def story(world: AgentWorld) -> None:
        writing = Writing(world)
        await world.after(1.0)
        assert writing.names() == ["own/net"]
        owner = writing.written()["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("Node", NODE)
        await world.after(20 * EVERY_S)
        assert len(world.writes()) == 1
        writing.holds = found(entry(), entry("a/b", 99))
        await world.after(1.3 * EVERY_S)
        assert writing.names() == ["a/b", "own/net"]
        assert len(world.writes()) == 2

    in_agent_world(story)


def test_what_another_client_wrote_is_set_right() -> None:
    async def story(world: AgentWorld) -> None:
        writing = Writing(world)
        await world.after(1.0)
        assert world.request("PATCH", PATH, {"spec": {"entries": []}}) == 200
        await world.after(13 * EVERY_S)
        assert writing.names() == ["own/net"]
        assert world.request("DELETE", PATH) == 200
        await world.after(13 * EVERY_S)
        assert writing.names() == ["own/net"]

    in_agent_world(story)


def test_a_write_whose_answer_is_lost_is_looked_at_again() -> None:
    async def story(world: AgentWorld) -> None:
        world.way.hindrances.append(Hindrance("POST", 1, arrives=True))
        writing = Writing(world)
        await world.after(0.5)
        assert "is not written" in writing.writer.problem
        await world.after(10.0)
        assert writing.writer.problem == ""
        assert len(world.writes()) == 1

    in_agent_world(story)


def test_without_folders_nothing_is_written_and_a_report_of_before_is_emptied() -> None:
    async def story(world: AgentWorld) -> None:
        without = Writing(world, has_folders=False)
        await world.after(5.0)
        assert world.report(PATH) is None
        without.task.cancel()
        Writing(world)
        await world.after(2 * EVERY_S)
        assert without.names() == ["own/net"]

    async def later(world: AgentWorld) -> None:
        writing = Writing(world)
        await world.after(1.0)
        writing.task.cancel()
        emptied = Writing(world, has_folders=False)
        await world.after(1.0)
        assert emptied.names() == []

    in_agent_world(story)
    in_agent_world(later)


def test_the_largest_entries_stay_where_there_are_too_many() -> None:
    many = tuple(entry(f"own/{'x' * 200}-{number:04}", number) for number in range(2000))
    spec = spec_of(found(*many))
    assert spec.entries[0].size_bytes == 1999
    assert spec.omitted == 2000 - len(spec.entries)
    assert len(encode_node_data(NODE, spec)) < 64 << 10
    assert len(spec.entries) > 100


def test_what_the_server_gives_back_equals_what_was_written() -> None:
    spec = spec_of(found(entry(complete=False), DataEntry("dataset", "d", 0, True, "/d", "r", ("main",))))
    body = msgspec.json.decode(encode_node_data(NODE, spec))["spec"]
    assert msgspec.convert(body, NodeDataSpec) == spec
