"""How GPUs are offered follows the declared configuration, while it is edited, broken, mended and held."""

from pathlib import Path

import pytest

from gpufleet.agent.sharing.sharing_source import TAKEN, WAITS, SharingOptions
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mps, TimeSlice
from gpufleet.model.grant import GrantedDevice, GrantKind
from tests.agent.sharing_world import SharingWorld, in_sharing_world

TWO = "model: H100-80GB, count: 2"


def own(*entries: str, pool: str = "default") -> str:
    """A configuration of ours with these entries."""
    return f"version: gpufleet.io/v1alpha1\npools: {{{pool}: [{', '.join(f'{{{one}}}' for one in entries)}]}}"


def slices(replicas: int) -> str:
    """NVIDIA's configuration with so many replicas."""
    resources = f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]"
    return f"version: v1\nsharing: {{timeSlicing: {{resources: {resources}}}}}"


def test_without_a_configuration_every_gpu_is_offered_as_it_is() -> None:
    async def story(world: SharingWorld) -> None:
        world.start(declared=False)
        await world.settle()
        assert world.modes() == [Exclusive(), Exclusive()]
        assert world.problems() == ""

    in_sharing_world(story, TWO)


def test_a_configuration_of_ours_is_taken_over_and_an_edit_too() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(own("gpus: [0], timeSlice: {replicas: 4}", "gpus: rest, fractions: {maxShares: 5}"))
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(4), Fractions(5)]
        world.writes(own("gpus: rest, mps: {clients: 4}"))
        await world.settle()
        assert [type(mode) for mode in world.modes()] == [Mps, Mps]
        assert len(world.events(TAKEN)) == 2

    in_sharing_world(story, TWO)


def test_nvidias_configuration_is_taken_over_with_its_delivery() -> None:
    async def story(world: SharingWorld) -> None:
        plugin = (
            "plugin: {passDeviceSpecs: true, deviceListStrategy: [volume-mounts], deviceIDStrategy: index}"
        )
        world.writes(f"{slices(3)}\nflags: {{{plugin}}}")
        source = world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(3), TimeSlice(3)]
        assert source.delivery.value is not None
        assert source.delivery.value.list_strategies == ("volume-mounts",)
        assert (source.delivery.value.device_specs, source.delivery.value.ids_by_index) == (True, True)

    in_sharing_world(story, TWO)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "by cdi-cri, as --device-list-strategy says, and not by envvar"),
        ("flags: {plugin: {deviceListStrategy: volume-mounts}}", "and not by volume-mounts"),
        ("flags: {plugin: {deviceListStrategy: cdi-cri}}", ""),
    ],
)
def test_what_a_config_says_of_delivery_and_is_not_followed_is_told(flags: str, said: str) -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(f"{slices(3)}\n{flags}")
        world.start(SharingOptions(strategies=("cdi-cri",)))
        await world.settle()
        (taken,) = world.events(TAKEN)
        assert said in str(taken)
        assert bool(said) == ("--device-list-strategy" in str(taken))

    in_sharing_world(story, TWO)


def test_the_environment_of_nvidias_plugin_goes_before_its_file() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(slices(3))
        source = world.start(SharingOptions(environment={"DEVICE_LIST_STRATEGY": "cdi-cri"}))
        await world.settle()
        assert source.delivery.value is not None
        assert source.delivery.value.list_strategies == ("cdi-cri",)

    in_sharing_world(story, TWO)


def test_a_mounted_config_map_is_read_through_the_links_that_the_kubelet_swaps() -> None:
    async def story(world: SharingWorld) -> None:
        mount = world.folder / "mount"
        mount.mkdir()

        def mounted(version: str, text: str) -> None:
            (mount / version).mkdir()
            (mount / version / "default").write_text(text, encoding="utf-8")
            (mount / "..data_tmp").symlink_to(version)
            (mount / "..data_tmp").replace(mount / "..data")

        mounted("..2026_01", slices(2))
        (mount / "default").symlink_to(Path("..data") / "default")
        world.start(path=mount)
        await world.settle()
        assert world.modes() == [TimeSlice(2), TimeSlice(2)]
        mounted("..2026_02", slices(5))
        await world.settle()
        assert world.modes() == [TimeSlice(5), TimeSlice(5)]

    in_sharing_world(story, TWO)


def test_the_nodes_label_chooses_the_key_and_the_pool() -> None:
    async def story(world: SharingWorld) -> None:
        world.declares(default=slices(2), big=slices(8), pools=own("gpus: rest, fractions: {}", pool="train"))
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(2)]
        world.labels(config="big")
        await world.settle()
        assert world.modes() == [TimeSlice(8)]
        world.labels(config="pools", pool="train")
        await world.settle()
        assert world.modes() == [Fractions(10)]
        world.labels(config=None)
        await world.settle()
        assert world.modes() == [TimeSlice(2)]

    in_sharing_world(story, "model: T4", in_api=True)


def test_the_only_key_counts_where_nothing_is_chosen_and_the_default_before_it() -> None:
    async def story(world: SharingWorld) -> None:
        world.declares(some=slices(2))
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(2)]
        world.declares(some=slices(2), other=slices(3))
        world.start(SharingOptions(default="other"))
        await world.settle()
        assert world.modes() == [TimeSlice(3)]

    in_sharing_world(story, "model: T4", in_api=True)


def test_the_last_good_one_counts_after_a_restart_too() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(slices(4))
        world.start()
        await world.settle()
        world.writes("version: v1\nsharing: [")
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(4), TimeSlice(4)]
        assert "last good" in world.problems()

    in_sharing_world(story, TWO)


def test_where_there_never_was_a_good_one_gpus_are_offered_as_they_are_and_that_is_said() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes("version: v2")
        world.start()
        await world.settle()
        assert world.modes() == [Exclusive(), Exclusive()]
        assert "no earlier one" in world.problems()

    in_sharing_world(story, TWO)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 100, b'{"version":1,"checksum":7,"plans":[]}'])
def test_a_record_that_is_not_whole_is_not_used(content: bytes) -> None:
    async def story(world: SharingWorld) -> None:
        (world.folder / "sharing-plans.json").write_bytes(content)
        world.writes(slices(4))
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(4)]

    in_sharing_world(story, "model: T4")


def test_a_gpu_that_is_held_keeps_its_plan_until_its_holder_ended_and_others_change_at_once() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(slices(4))
        world.start()
        await world.settle()
        world.holds("train-0", f"{world.gpus[0].uuid}::3")
        world.writes(own("gpus: rest, exclusive: {}"))
        await world.settle()
        assert world.modes() == [TimeSlice(4), Exclusive()]
        assert "waits until team-a/train-0 ended" in world.problems()
        assert len(world.events(WAITS)) == 1
        world.ends("train-0")
        await world.settle()
        assert world.modes() == [Exclusive(), Exclusive()]
        assert world.problems() == ""

    in_sharing_world(story, TWO)


def test_a_gpu_that_is_granted_to_a_pod_on_its_way_waits_too() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(own("gpus: rest, fractions: {}"))
        world.start()
        await world.settle()
        world.grants("infer", GrantedDevice(world.gpus[1].uuid, GrantKind.SHARE, 500, 40000))
        world.writes(own("gpus: rest, exclusive: {}"))
        await world.settle()
        assert world.modes() == [Exclusive(), Fractions(10)]
        world.ends("infer")
        await world.settle()
        assert world.modes() == [Exclusive(), Exclusive()]

    in_sharing_world(story, TWO)


def test_a_slot_whose_pod_nobody_knows_holds_every_gpu_that_it_may_be_on() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(own("gpus: [0], exclusive: {}", "gpus: rest, fractions: {}"))
        world.start()
        await world.settle()
        world.holds("unknown", "slot-7", "gpufleet.io/gpu-share")
        world.writes(own("gpus: rest, timeSlice: {replicas: 2}"))
        await world.settle()
        assert world.modes() == [TimeSlice(2), Fractions(10)]

    in_sharing_world(story, TWO)


def test_a_change_that_waits_is_not_forgotten_in_a_restart() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(slices(4))
        world.start()
        await world.settle()
        world.holds("train-0", f"{world.gpus[0].uuid}::0")
        world.writes(slices(2))
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(4), TimeSlice(2)]

    in_sharing_world(story, TWO)


def test_where_the_record_is_lost_the_holders_tell_under_which_plan_a_gpu_was_given() -> None:
    async def story(world: SharingWorld) -> None:
        world.holds("train-0", world.gpus[0].uuid)
        world.holds("train-1", f"{world.gpus[1].uuid}::1")
        world.writes(slices(4))
        world.start()
        await world.settle()
        assert world.modes() == [Exclusive(), TimeSlice(4)]

    in_sharing_world(story, TWO)


def test_a_card_that_is_cut_in_another_way_is_told() -> None:
    async def story(world: SharingWorld) -> None:
        world.writes(own("gpus: rest, mig: {layout: [{profile: 3g.20gb, start: 4}]}"))
        world.start()
        await world.settle()
        (note,) = world.events(TAKEN)
        assert "has no instance, and this agent does not change instances" in note

    in_sharing_world(story, "model: A100-40GB")


def test_a_disk_that_cannot_be_written_stops_nothing() -> None:
    async def story(world: SharingWorld) -> None:
        (world.folder / "sharing-plans.json").mkdir()
        world.writes(slices(4))
        world.start()
        await world.settle()
        assert world.modes() == [TimeSlice(4)]

    in_sharing_world(story, "model: T4")
