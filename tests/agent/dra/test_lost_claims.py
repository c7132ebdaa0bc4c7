"""A claim that a pod has keeps its devices, also where the agent lost what it knew of it."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from gpufleet.agent.dra import claim_preparer
from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.kubelet.pod_resources import ClaimUse
from gpufleet.agent.state.state_errors import RefusedError
from tests.agent.dra.claim_world import NVIDIA, POOL, World
from tests.agent.mig.cut_for_claims import CutNode
from tests.agent.node_values import NODE, a_gpu

SMALL = "gpu-0-mig-2g20gb-14-2"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two cards."""
    return World(tmp_path, a_gpu("GPU-0"), a_gpu("GPU-1", index=1))


def running(world: World, name: str, device: str) -> ClaimName:
    """A pod runs with a claim of this device."""
    claim = world.allocated(name, device)
    world.prepare(claim)
    world.used(claim, device)
    return claim


def record_of(world: World, claim: ClaimName) -> Path:
    """The file in which the agent keeps the claim."""
    return world.folder / "claims" / f"{claim.uid}.{NVIDIA}.json"


def test_fault_39_of_a_record_that_was_cut_or_changed_anywhere_no_byte_is_believed(world: World) -> None:
    kept, torn = running(world, "kept", "gpu-0"), running(world, "torn", "gpu-1")
    path = record_of(world, torn)
    whole = path.read_bytes()
    nodes = world.nodes_of(kept), world.nodes_of(torn)
    other = world.allocated("other", "gpu-1")
    # Ends and changed bits all over the file: its length is no multiple of these steps.
    damaged = [whole[:end] for end in range(0, len(whole), 37)]
    damaged += [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, len(whole), 41)]
    for text in damaged:
        path.write_bytes(text)
        world.started()
        assert (world.nodes_of(kept), world.nodes_of(torn)) == nodes
        assert path.read_bytes() == whole, "found again with the kubelet and in the API"
        with pytest.raises(RefusedError, match="held by claim team/torn"):
            world.prepare(other)


def test_a_folder_that_is_gone_is_made_up_for_by_kubelet_and_api(world: World) -> None:
    claim = running(world, "one", "gpu-0")
    nodes = world.nodes_of(claim)
    shutil.rmtree(world.folder / "claims")
    shutil.rmtree(world.folder / "cdi")
    world.started()
    asyncio.run(world.preparer.restore())
    assert world.nodes_of(claim) == nodes
    with pytest.raises(RefusedError, match="held by claim team/one"):
        world.prepare(world.allocated("other", "gpu-0"))
    world.unprepare(claim)
    assert world.prepare(world.allocated("other", "gpu-0")) == ["gpu-0"]


def test_until_the_kubelet_says_what_pods_have_no_new_claim_is_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_preparer, "LOST_FOUND_S", 0.01)
    claim = running(world, "one", "gpu-0")
    record_of(world, claim).write_text("{}")
    said, world.in_use = world.in_use, None
    world.started()
    with pytest.raises(RefusedError, match="claims were lost, and which claims pods have"):
        world.prepare(world.allocated("new", "gpu-1"))
    asyncio.run(world.preparer.restore())
    assert "the kubelet does not tell the holders of devices" in world.preparer.problem
    world.in_use = said
    asyncio.run(world.preparer.find_lost())
    assert world.prepare(world.allocated("new", "gpu-1")) == ["gpu-1"]
    with pytest.raises(RefusedError, match="held by claim team/one"):
        world.prepare(world.allocated("other", "gpu-0"))


@pytest.mark.parametrize("way", ["gone", "given other devices"])
def test_a_claim_that_cannot_be_found_again_is_named(world: World, way: str) -> None:
    claim = running(world, "one", "gpu-0")
    record_of(world, claim).write_text("{}")
    if way == "gone":
        del world.server.claims["one"]
    else:
        world.allocated("one", "gpu-1")
    world.started()
    asyncio.run(world.preparer.restore())
    assert "claim team/one of a pod" in world.preparer.problem
    assert not world.preparer.prepared.value


def lost(world: World, name: str, pool: str, device: str) -> ClaimName:
    """A pod runs with a claim of this device, which no record names."""
    claim = world.allocated(name, device, pool=pool)
    world.in_use = (*(world.in_use or ()), ClaimUse("team", name, NVIDIA, pool, device))
    return claim


def find_lost(world: World, times: int = 1) -> str:
    """What the agent says after so many searches."""
    for _ in range(times):
        asyncio.run(world.preparer.find_lost())
    asyncio.run(world.preparer.restore())
    return world.preparer.problem


@pytest.mark.parametrize(
    ("pool", "device", "words"),
    [
        (POOL, "gpu-9", "device gpu-9 of pool .* is not offered to claims any more"),
        # As before the node was renamed, and as NVIDIA's own driver names it.
        ("old-name/gpu.nvidia.com", "gpu-0", "pool old-name/gpu.nvidia.com is not of this node"),
        (NODE, "gpu-0", f"pool {NODE} is not of this node"),
    ],
)
def test_a_lost_claim_that_cannot_be_remembered_again_is_named_and_harms_no_other(
    world: World, pool: str, device: str, words: str
) -> None:
    kept = running(world, "kept", "gpu-1")
    record_of(world, kept).write_text("{}")
    lost(world, "bad", pool, device)
    world.started()
    assert world.preparer.prepared.value.keys() == {(kept.uid, NVIDIA)}
    asked = world.server.asked
    assert (
        len(re.findall(f"claim team/bad of a pod is not remembered again: {words}", find_lost(world, 3))) == 1
    )
    assert world.server.asked == asked, "it is known what pods have"
    assert world.prepare(world.allocated("new", "gpu-0")) == ["gpu-0"]


def test_a_lost_claim_has_its_card_again_once_that_is_offered_again(world: World) -> None:
    claim = running(world, "one", "gpu-0")
    record_of(world, claim).write_text("{}")
    pools = world.pools.value
    world.pools.publish(())
    world.started()
    assert "claim team/one of a pod is not remembered again" in find_lost(world)
    world.pools.publish(pools)
    with pytest.raises(RefusedError, match="held by claim team/one"):
        world.prepare(world.allocated("other", "gpu-0"))
    assert "team/one of a pod" not in find_lost(world)


def test_a_lost_claim_that_was_taken_back_is_not_remembered_again(world: World) -> None:
    claim = lost(world, "bad", NODE, "gpu-0")
    world.started()
    assert "claim team/bad of a pod" in find_lost(world)
    world.unprepare(claim)
    assert "team/bad" not in find_lost(world)


def test_while_the_driver_is_replaced_lost_claims_are_searched_for_ever_less_often(world: World) -> None:
    claim = running(world, "one", "gpu-0")
    lost(world, "gone", POOL, "gpu-1")
    del world.server.claims["gone"]
    record_of(world, claim).write_text("{}")
    world.install("")
    world.started()
    search = world.preparer.lost
    assert find_lost(world, 3).count("claim team/gone of a pod is gone") == 1
    # One search as the agent starts and three more: 2, 4, 8 and 16 s, of which the last is 15 s.
    assert search.pause_s == 15
    assert not search.are_known.is_set()
    world.install("570")
    find_lost(world)
    assert search.are_known.is_set()
    assert world.preparer.prepared.value.keys() == {(claim.uid, NVIDIA)}


@pytest.mark.parametrize("way", ["found again", "taken back"])
def test_a_damaged_record_is_removed_once_its_claim_is_known_again_or_gone(world: World, way: str) -> None:
    claim = running(world, "one", "gpu-0")
    record_of(world, claim).write_text("{}")
    if way == "taken back":
        world.in_use = ()
    world.started()
    if way == "taken back":
        assert list((world.folder / "claims").glob("*.damaged"))
        world.unprepare(claim)
    assert not list((world.folder / "claims").glob("*.damaged"))


def test_an_instance_of_a_claim_whose_record_is_lost_stays(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    claim = node.allocated("small", SMALL)
    node.prepare(claim)
    node.used(claim, SMALL)
    kept = node.uuid_at("2g.20gb@2")
    shutil.rmtree(tmp_path / "claims")
    node.restarted()
    assert node.mend() == ""
    assert node.uuid_at("2g.20gb@2") == kept
    node.unprepare(claim)
    assert node.layout() is None
