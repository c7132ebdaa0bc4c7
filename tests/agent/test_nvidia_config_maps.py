"""What guides to NVIDIA's device plugin have people apply is found by its name, and does what they say."""

from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.sharing.nvidia_config_maps import SEARCH_EVERY_S
from gpufleet.agent.sharing.sharing_source import LEFT, REFUSED, TAKEN, SharingOptions
from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.devices.sharing.plan import Exclusive, Mode, TimeSlice
from tests.agent.sharing_world import SharingWorld, in_sharing_world

GUIDES = Path("tests/corpus/devices/guides")
TWO = "model: T4, count: 2"
OPERATOR = ("gpu-operator", "time-slicing-config")
PLUGIN = ("kube-system", "nvidia-device-plugin-config")
BY_CDI = SharingOptions(strategies=("cdi-cri",))


def slices(replicas: int) -> str:
    """NVIDIA's configuration with so many replicas."""
    resources = f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]"
    return f"version: v1\nsharing: {{timeSlicing: {{resources: {resources}}}}}"


def applies(world: SharingWorld, name: str) -> None:
    """A guide's ConfigMap, as kubectl applies it."""
    read = msgspec.yaml.decode((GUIDES / f"{name}.yaml").read_bytes())
    world.puts((read["metadata"]["namespace"], read["metadata"]["name"]), read["data"])


@pytest.mark.parametrize(
    ("name", "label", "mode", "said"),
    [
        (
            "kube-system-plugin-config",
            None,
            TimeSlice(4),
            ": 2 GPUs are offered as 8 nvidia.com/gpu",
        ),
        ("plugin-config-with-flags", None, TimeSlice(4), "and not by envvar"),
        (
            "plugin-readme",
            None,
            Exclusive(),
            "no label nvidia.com/device-plugin.config that names one of its keys, config0, config1",
        ),
        ("plugin-readme", "config1", Exclusive(), "key config1 is taken over"),
        (
            "operator-all-nodes",
            None,
            TimeSlice(4),
            "key any is taken over: 2 GPUs are offered as 8 nvidia.com/gpu",
        ),
        ("operator-some-nodes", None, Exclusive(), "that names one of its keys, a100-40gb, tesla-t4"),
        ("operator-some-nodes", "tesla-t4", TimeSlice(4), "offered as 8 nvidia.com/gpu"),
        ("operator-some-nodes", "a100-40gb", TimeSlice(8), "offered as 16 nvidia.com/gpu"),
        ("operator-any-and-others", None, TimeSlice(4), "key any is taken over"),
        ("operator-any-and-others", "rtx-3090", TimeSlice(2), "key rtx-3090 is taken over"),
    ],
)
def test_what_a_guide_has_people_apply(name: str, label: str | None, mode: Mode, said: str) -> None:
    async def story(world: SharingWorld) -> None:
        if label is not None:
            world.labels(config=label)
        world.start(BY_CDI, places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert (world.modes(), world.events(TAKEN)) == ([Exclusive()] * 2, [])
        applies(world, name)
        await world.settle()
        assert world.modes() == [mode] * 2
        (note,) = world.events(TAKEN)
        assert said in note
        assert world.problems() == ""

    in_sharing_world(story, TWO)


def test_a_config_that_no_plugin_reads_changes_nothing_and_says_what_is_missing() -> None:
    async def story(world: SharingWorld) -> None:
        applies(world, "without-resources")
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert world.modes() == [Exclusive()] * 2
        (note,) = world.events(REFUSED)
        assert "ConfigMap nvidia-device-plugin/nvidia-device-plugin-config, key config" in note
        assert "missing required field `resources`" in note

    in_sharing_world(story, TWO)


def test_an_edit_counts_a_broken_one_does_not_and_a_deleted_one_ends_the_sharing() -> None:
    async def story(world: SharingWorld) -> None:
        world.start(places=NVIDIA_CONFIG_MAPS)
        world.puts(OPERATOR, {"any": slices(4)})
        await world.settle()
        world.puts(OPERATOR, {"any": slices(3)})
        await world.settle()
        assert world.modes() == [TimeSlice(3)] * 2
        world.puts(OPERATOR, {"any": slices(1)})
        await world.settle()
        assert world.modes() == [TimeSlice(3)] * 2
        assert "ConfigMap gpu-operator/time-slicing-config, key any" in world.problems()
        world.removes(OPERATOR)
        await world.settle()
        assert (world.modes(), world.problems()) == ([Exclusive()] * 2, "")
        assert "is there any more: every GPU is offered as it is" in world.events(TAKEN)[-1]

    in_sharing_world(story, TWO)


def test_one_that_was_deleted_while_no_agent_ran_ends_the_sharing_too() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        world.removes(OPERATOR)
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert world.modes() == [Exclusive()] * 2

    in_sharing_world(story, TWO)


def test_a_gpu_that_is_held_keeps_its_sharing_when_the_config_is_deleted() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        world.holds("train-0", f"{world.gpus[0].uuid}::3")
        world.removes(OPERATOR)
        await world.settle()
        assert world.modes() == [TimeSlice(4), Exclusive()]
        world.ends("train-0")
        await world.settle()
        assert world.modes() == [Exclusive()] * 2

    in_sharing_world(story, TWO)


def test_two_that_differ_change_nothing_until_one_is_deleted() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        world.puts(PLUGIN, {"config.yaml": slices(2)})
        await world.settle()
        assert world.modes() == [TimeSlice(4)] * 2
        (note,) = world.events(REFUSED)
        assert (
            "ConfigMap kube-system/nvidia-device-plugin-config and "
            "ConfigMap gpu-operator/time-slicing-config say different things"
        ) in note
        world.removes(OPERATOR)
        await world.settle()
        assert (world.modes(), world.problems()) == ([TimeSlice(2)] * 2, "")

    in_sharing_world(story, TWO)


def test_two_that_say_the_same_are_one() -> None:
    async def story(world: SharingWorld) -> None:
        for place in (OPERATOR, PLUGIN):
            world.puts(place, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert (world.modes(), world.events(REFUSED)) == ([TimeSlice(4)] * 2, [])

    in_sharing_world(story, TWO)


def test_one_of_the_same_name_in_a_namespace_of_tenants_counts_for_nothing() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(("team-a", "time-slicing-config"), {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert world.modes() == [Exclusive()] * 2

    in_sharing_world(story, TWO)


def test_beside_another_device_plugin_it_is_left_to_that_plugin() -> None:
    async def story(world: SharingWorld) -> None:
        world.other_plugins = ("nvidia-gpu.sock",)
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert (world.modes(), world.problems()) == ([Exclusive()] * 2, "")
        (note,) = world.events(LEFT)
        assert note == (
            "ConfigMap gpu-operator/time-slicing-config is left alone: it is the configuration of the device "
            "plugin that serves this node (nvidia-gpu.sock). How this node's GPUs are offered stays as it is"
        )
        world.other_plugins = ()
        await world.settle()
        assert world.modes() == [TimeSlice(4)] * 2

    in_sharing_world(story, TWO)


def test_a_plugin_that_comes_later_changes_nothing_of_what_is_offered_after_a_restart_too() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        for _ in range(3):
            world.other_plugins = ("nvidia-gpu.sock",)
            await world.settle()
            assert world.modes() == [TimeSlice(4)] * 2
            world.start(places=NVIDIA_CONFIG_MAPS)
            await world.settle()
            assert world.modes() == [TimeSlice(4)] * 2
            world.other_plugins = ()
            await world.settle()
        assert len(world.events(TAKEN)) == 1 + 3

    in_sharing_world(story, TWO)


def test_what_may_not_be_read_is_told_and_not_taken_for_absent() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        world.forbidden = OPERATOR[0]
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        await world.settle()
        assert world.modes() == [TimeSlice(4)] * 2
        (note,) = world.events(LEFT)
        assert "gpu-operator/time-slicing-config" in note
        assert "cannot be read" in note
        assert "configmaps is forbidden" in note
        world.forbidden = ""
        await world.clock.sleep(60.0)
        world.puts(OPERATOR, {"any": slices(2)})
        await world.settle()
        assert world.modes() == [TimeSlice(2)] * 2

    in_sharing_world(story, TWO)


def test_where_one_place_may_not_be_read_another_counts_all_the_same() -> None:
    async def story(world: SharingWorld) -> None:
        world.forbidden = OPERATOR[0]
        world.puts(PLUGIN, {"config.yaml": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS)
        await world.settle()
        assert world.modes() == [TimeSlice(4)] * 2

    in_sharing_world(story, TWO)


async def a_minute(world: SharingWorld) -> None:
    """A minute, within which a pasted ConfigMap counts."""
    for _ in range(2):
        await world.settle()


def test_of_places_that_are_looked_at_now_and_then_a_pasted_config_counts_within_a_minute() -> None:
    async def story(world: SharingWorld) -> None:
        world.start(places=NVIDIA_CONFIG_MAPS, search_every_s=SEARCH_EVERY_S)
        await a_minute(world)
        assert (world.modes(), world.problems()) == ([Exclusive()] * 2, "")
        for replicas, place in enumerate(NVIDIA_CONFIG_MAPS, start=2):
            world.puts(place, {"any": slices(replicas)})
            await a_minute(world)
            assert world.modes() == [TimeSlice(replicas)] * 2
            world.removes(place)
            await a_minute(world)
            assert world.modes() == [Exclusive()] * 2

    in_sharing_world(story, TWO)


def test_one_that_was_found_is_followed_from_then_on() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS, search_every_s=3600.0)
        await world.settle()
        assert world.modes() == [TimeSlice(4)] * 2
        world.puts(OPERATOR, {"any": slices(3)})
        await world.settle()
        assert world.modes() == [TimeSlice(3)] * 2

    in_sharing_world(story, TWO)


def test_places_without_a_config_hold_no_connection() -> None:
    async def story(world: SharingWorld) -> None:
        world.puts(OPERATOR, {"any": slices(4)})
        world.start(places=NVIDIA_CONFIG_MAPS, search_every_s=SEARCH_EVERY_S)
        await a_minute(world)
        maps = [target for target in world.watched if "/configmaps?" in target]
        assert len(maps) == 1
        assert OPERATOR[0] in maps[0]

    in_sharing_world(story, TWO)


def test_a_place_that_may_not_be_read_is_told_though_it_is_looked_at_only_now_and_then() -> None:
    async def story(world: SharingWorld) -> None:
        world.forbidden = OPERATOR[0]
        world.start(places=NVIDIA_CONFIG_MAPS, search_every_s=SEARCH_EVERY_S)
        await a_minute(world)
        (note,) = world.events(LEFT)
        assert "ConfigMap gpu-operator/" in note
        assert "configmaps is forbidden" in note
        world.forbidden = ""
        world.puts(OPERATOR, {"any": slices(2)})
        await a_minute(world)
        assert world.modes() == [TimeSlice(2)] * 2

    in_sharing_world(story, TWO)


def test_a_server_that_is_away_for_a_moment_is_no_reason_to_say_anything() -> None:
    async def story(world: SharingWorld) -> None:
        world.start(places=NVIDIA_CONFIG_MAPS, search_every_s=SEARCH_EVERY_S)
        await a_minute(world)
        world.forbidden = OPERATOR[0]
        await a_minute(world)
        assert (world.events(LEFT), world.problems()) == ([], "")

    in_sharing_world(story, TWO)
