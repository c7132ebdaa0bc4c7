"""Claims are prepared once, each by itself, and stay prepared across restarts and reboots."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.dra.claim_preparer import GONE_AFTER_S
from gpufleet.agent.dra.device_pools import device_pools
from gpufleet.agent.state.node_state import Gpu
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.devices.facts import MigFacts
from tests.agent.dra.claim_world import NVIDIA, World
from tests.agent.node_values import a_gpu, a_node

INSTANCES = tuple(MigFacts(f"MIG-{start}", "3g.40gb", start, start + 1, 0) for start in (0, 4))


def card(number: int) -> Gpu:
    return a_gpu(f"GPU-{number}", minor=number)


def cut_card(generation: str = "") -> Gpu:
    """A card with two instances, which have other UUIDs in each generation."""
    parts = tuple(msgspec.structs.replace(one, uuid=f"{one.uuid}{generation}") for one in INSTANCES)
    return a_gpu("GPU-7", minor=7, mig=parts)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, card(0), card(1), cut_card())


def test_a_container_gets_the_nodes_of_its_claim(world: World) -> None:
    claim = world.allocated("pair", "gpu-0", "gpu-1")
    assert world.prepare(claim) == ["gpu-0", "gpu-1"]
    assert world.nodes_of(claim) == ["/dev/nvidia0", "/dev/nvidia1"]


def test_a_prepared_claim_needs_no_api_server(world: World) -> None:
    claim = world.allocated("one", "gpu-0")
    world.prepare(claim)
    del world.server.claims["one"]
    assert world.prepare(claim) == ["gpu-0"]


def test_a_claim_that_was_allocated_anew_has_its_new_device(world: World) -> None:
    world.prepare(world.allocated("one", "gpu-0"))
    claim = world.allocated("one", "gpu-1")
    assert world.prepare(claim) == ["gpu-1"]
    assert world.nodes_of(claim) == ["/dev/nvidia1"]
    assert world.prepare(world.allocated("other", "gpu-0")) == ["gpu-0"]


def lose(world: World, way: str) -> None:
    """Claim "first" loses its device in the API server."""
    match way:
        case "deleted":
            del world.server.claims["first"]
        case "made anew":
            world.allocated("first", "gpu-0", uid="uid-new")
        case "without devices":
            world.server.claims["first"]["status"] = {}
        case _:
            world.allocated("first", "gpu-1")


@pytest.mark.parametrize("way", ["deleted", "made anew", "without devices", "with another device"])
def test_a_claim_that_lost_its_device_holds_it_only_for_a_while(world: World, way: str) -> None:
    world.prepare(world.allocated("first", "gpu-0"))
    second = world.allocated("second", "gpu-0")
    lose(world, way)
    # The kubelet may be about to take it back.
    with pytest.raises(RefusedError, match="held by claim team/first, which is gone from the API server"):
        world.prepare(second)
    world.clock.later_s = GONE_AFTER_S
    assert world.prepare(second) == ["gpu-0"]
    assert world.files() == [f"gpufleet.io-claim-uid-second-{NVIDIA}.json"]


def test_a_claim_that_has_its_device_holds_it_for_ever(world: World) -> None:
    world.prepare(world.allocated("first", "gpu-0"))
    second = world.allocated("second", "gpu-0")
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"held by claim team/first$"):
            world.prepare(second)
        world.clock.later_s += GONE_AFTER_S


def test_a_call_that_the_kubelet_gave_up_leaves_no_claim_half_prepared(world: World) -> None:
    claim = world.allocated("one", "gpu-0")

    async def given_up() -> None:
        call = asyncio.create_task(world.preparer.prepare(NVIDIA, claim))
        while not (world.folder / "claims").exists():  # noqa: ASYNC110  (a file on a disk)
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(10):
            while not world.files():  # noqa: ASYNC110  (files on a disk)
                await asyncio.sleep(0.01)

    asyncio.run(given_up())
    assert [one.name for one in world.preparer.prepared.value.values()] == ["one"]


def test_another_claim_of_the_name_is_refused(world: World) -> None:
    old = world.allocated("one", "gpu-0", uid="uid-old")
    world.allocated("one", "gpu-0", uid="uid-new")
    with pytest.raises(RefusedError, match="its UID is uid-new, not uid-old"):
        world.prepare(old)


def test_a_claim_that_is_gone_or_has_nothing_is_refused(world: World) -> None:
    claim = world.allocated("one", "gpu-0")
    world.server.claims["one"]["status"] = {}
    with pytest.raises(RefusedError, match="was not allocated"):
        world.prepare(claim)
    del world.server.claims["one"]
    with pytest.raises(RefusedError, match="does not exist"):
        world.prepare(claim)


def test_a_device_of_another_node_or_none_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="pool elsewhere is not of this node"):
        world.prepare(world.allocated("far", "gpu-0", pool="elsewhere"))
    with pytest.raises(RefusedError, match=r"device gpu-9 .* is not offered"):
        world.prepare(world.allocated("gone", "gpu-9"))


def test_results_of_other_drivers_are_left_to_them(world: World) -> None:
    assert world.prepare(world.allocated("other", "gpu-0", driver="gpu.example.com")) == []


def test_a_device_is_prepared_for_one_claim(world: World) -> None:
    first, second = world.allocated("first", "gpu-0"), world.allocated("second", "gpu-0")
    world.prepare(first)
    with pytest.raises(RefusedError, match="device gpu-0 is held by claim team/first"):
        world.prepare(second)
    world.unprepare(first)
    assert world.prepare(second) == ["gpu-0"]


def test_instances_of_one_card_are_held_by_different_claims(world: World) -> None:
    names = [f"gpu-7-mig-3g40gb-9-{start}" for start in (0, 4)]
    for name in names:
        assert world.prepare(world.allocated(f"claim-{name[-1]}", name)) == [name]


def test_an_instance_is_the_same_one_when_its_card_has_another_number(world: World) -> None:
    world.prepare(world.allocated("first", "gpu-7-mig-3g40gb-9-4"))
    # The number is a part of the device's name.
    world.gpus.publish(a_node(a_gpu("GPU-7", index=5, minor=5, mig=cut_card("-new").facts.mig)))
    world.pools.publish(device_pools(world.gpus.value, lambda _: True))
    with pytest.raises(RefusedError, match="device gpu-5-mig-3g40gb-9-4 is held by claim team/first"):
        world.prepare(world.allocated("second", "gpu-5-mig-3g40gb-9-4"))
    assert world.prepare(world.allocated("third", "gpu-5-mig-3g40gb-9-0")) == ["gpu-5-mig-3g40gb-9-0"]


def test_an_administrator_may_look_at_a_device_that_is_held(world: World) -> None:
    world.prepare(world.allocated("first", "gpu-0"))
    assert world.prepare(world.allocated("admin", "gpu-0", adminAccess=True)) == ["gpu-0"]
    assert world.prepare(world.allocated("other", "gpu-1")) == ["gpu-1"]


def test_a_card_that_a_container_has_by_the_device_plugin_is_refused(world: World) -> None:
    world.held = {card(0).uuid: "team/plain"}
    with pytest.raises(RefusedError, match="held by pod team/plain, by the device plugin"):
        world.prepare(world.allocated("one", "gpu-0"))


def test_what_is_not_known_is_taken_back_without_a_word(world: World) -> None:
    world.unprepare(world.allocated("never", "gpu-0"))
    claim = world.allocated("gone", "gpu-0")
    world.prepare(claim)
    del world.server.claims["gone"]
    world.unprepare(claim)
    assert world.files() == []


def test_a_path_is_no_uid(world: World) -> None:
    with pytest.raises(RefusedError, match="a UID that is none"):
        world.prepare(world.allocated("bad", "gpu-0", uid="../../etc/passwd"))


def test_prepared_claims_outlive_the_process(world: World) -> None:
    claim = world.allocated("one", "gpu-0")
    world.prepare(claim)
    world.started()
    del world.server.claims["one"]
    assert world.prepare(claim) == ["gpu-0"]
    with pytest.raises(RefusedError, match="held by claim team/one"):
        world.prepare(world.allocated("other", "gpu-0"))


def test_files_that_a_reboot_removed_are_there_again(world: World) -> None:
    claim = world.allocated("one", "gpu-7-mig-3g40gb-9-4")
    world.prepare(claim)
    for path in (world.folder / "cdi").iterdir():
        path.unlink()
    # The instance at this place has another UUID now.
    world.gpus.publish(a_node(cut_card("-new"), boot_id="boot-2"))
    world.pools.publish(device_pools(world.gpus.value, lambda _: True))
    asyncio.run(one_look(world, "boot-2"))
    assert world.nodes_of(claim) == ["/dev/nvidia7", "/dev/MIG-4-new"]


def test_after_a_reboot_a_claim_is_usable_once_all_its_cards_are_found(world: World) -> None:
    claim = world.allocated("pair", "gpu-0", "gpu-1")
    world.prepare(claim)
    world.gpus.publish(a_node())
    world.started("boot-2")
    # First no card is known, then one, under the number that the other had.
    for cards in ((), (a_gpu("GPU-1", index=0),)):
        world.gpus.publish(a_node(*cards, boot_id="boot-2"))
        asyncio.run(world.preparer.restore())
        assert world.files() == []
        assert "claim team/pair" in world.preparer.problem
        with pytest.raises(RefusedError, match="not found again since the node was booted"):
            world.prepare(claim)
    world.gpus.publish(a_node(a_gpu("GPU-1", index=0), a_gpu("GPU-0", index=1), boot_id="boot-2"))
    asyncio.run(world.preparer.restore())
    assert world.nodes_of(claim) == ["/dev/nvidia1", "/dev/nvidia0"]
    assert world.preparer.problem == ""


def test_a_card_that_is_not_seen_for_a_while_leaves_its_claim_as_it_was(world: World) -> None:
    claim = world.allocated("one", "gpu-0")
    world.prepare(claim)
    world.gpus.publish(a_node())
    asyncio.run(world.preparer.restore())
    assert world.nodes_of(claim) == ["/dev/nvidia0"]


def test_after_an_update_of_the_driver_a_claim_has_its_new_files(world: World) -> None:
    world.install("570.1")
    claim = world.allocated("one", "gpu-0")
    world.prepare(claim)
    for version, named in (("", "570.1"), ("580.2", "580.2")):
        world.install(version)
        asyncio.run(world.preparer.restore())
        assert world.mounts_of(claim) == [f"/usr/lib64/libcuda.so.{named}"]


def test_while_the_driver_is_replaced_no_claim_is_prepared(world: World) -> None:
    claim = world.allocated("one", "gpu-0")
    world.install("")
    with pytest.raises(RefusedError, match="no files of the driver of device gpu-0 are found"):
        world.prepare(claim)
    world.install("580.2")
    world.prepare(claim)
    assert world.mounts_of(claim) == ["/usr/lib64/libcuda.so.580.2"]


async def one_look(world: World, boot_id: str) -> None:
    """A new process runs until the files are there."""
    running = asyncio.create_task(world.started(boot_id, loaded=False).run())
    async with asyncio.timeout(10):
        while not world.files():  # noqa: ASYNC110  (files on a disk)
            await asyncio.sleep(0.01)
    running.cancel()


def test_a_damaged_record_harms_no_other_claim(world: World) -> None:
    first, second = world.allocated("first", "gpu-0"), world.allocated("second", "gpu-1")
    world.prepare(first)
    world.prepare(second)
    (world.folder / "claims" / f"uid-first.{NVIDIA}.json").write_text("{}")
    world.started()
    assert [one.name for one in world.preparer.prepared.value.values()] == ["second"]
    world.unprepare(first)
    assert world.files() == [f"gpufleet.io-claim-uid-second-{NVIDIA}.json"]


def test_a_record_that_cannot_be_read_is_told_and_harms_no_other_claim(world: World) -> None:
    world.prepare(world.allocated("one", "gpu-0"))
    (world.folder / "claims" / "uid-folder.json").mkdir()
    (world.folder / "claims" / "uid-link.json").symlink_to("/etc/hostname")
    world.started()
    assert [one.name for one in world.preparer.prepared.value.values()] == ["one"]
    asyncio.run(world.preparer.restore())
    for name in ("uid-folder.json", "uid-link.json"):
        assert f"the record {name} of a prepared claim cannot be read" in world.preparer.problem


@pytest.mark.parametrize("step", range(1, 5))
def test_a_disk_that_fails_at_a_step_is_told_and_the_next_try_succeeds(world: World, step: int) -> None:
    claim = world.allocated("one", "gpu-0")
    world.disk.steps_left = step
    with pytest.raises(RefusedError, match="No space left"):
        world.prepare(claim)
    world.started()
    assert world.prepare(claim) == ["gpu-0"]
    assert world.nodes_of(claim) == ["/dev/nvidia0"]


@pytest.mark.parametrize("step", range(1, 3))
def test_a_claim_that_is_not_taken_back_counts_as_held(world: World, step: int) -> None:
    claim = world.allocated("one", "gpu-0")
    world.prepare(claim)
    world.disk.steps_left = step
    with pytest.raises(RefusedError, match="No space left"):
        world.unprepare(claim)
    with pytest.raises(RefusedError, match="held by claim team/one"):
        world.prepare(world.allocated("other", "gpu-0"))
    world.unprepare(claim)
    assert world.prepare(world.allocated("other", "gpu-0")) == ["gpu-0"]


def test_two_calls_at_once_prepare_a_claim_once(world: World) -> None:
    claim = world.allocated("one", "gpu-0")

    async def both() -> None:
        one, other = await asyncio.gather(*(world.preparer.prepare(NVIDIA, claim) for _ in range(2)))
        assert one == other

    asyncio.run(both())


def test_before_the_cards_are_known_a_claim_is_refused(world: World) -> None:
    world.pools.publish(None)
    with pytest.raises(RefusedError, match="not known yet"):
        world.prepare(world.allocated("one", "gpu-0"))


def test_input_51_a_claim_deleted_for_years_holds_its_device_until_it_is_gone(
    world: World,
) -> None:
    old = world.allocated("old", "gpu-0")
    metadata = world.server.claims["old"]["metadata"]
    metadata |= {"deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["example.com/keep"]}
    assert world.prepare(old) == ["gpu-0"]
    other = world.allocated("other", "gpu-0")
    for _ in range(2):
        with pytest.raises(RefusedError, match="held by claim team/old"):
            world.prepare(other)
        world.clock.later_s += 2 * GONE_AFTER_S
    world.unprepare(old)
    assert world.prepare(other) == ["gpu-0"]


def test_input_51_a_claim_of_the_longest_name_is_prepared(world: World) -> None:
    claim = world.allocated("n" * 253, "gpu-0", uid="8d4a6d0e-6c1f-4b58-9f5b-0d1f3f6f7a11")
    assert world.prepare(claim) == ["gpu-0"]
    assert world.nodes_of(claim) == ["/dev/nvidia0"]
    with pytest.raises(RefusedError, match=f"held by claim team/{'n' * 253}"):
        world.prepare(world.allocated("other", "gpu-0"))
