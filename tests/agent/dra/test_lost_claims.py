"""A claim that a pod has keeps its devices, also where the agent lost what it knew of it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from gpufleet.agent.dra import claim_preparer
from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.state.state_errors import RefusedError
from tests.agent.dra.claim_world import NVIDIA, World
from tests.agent.mig.cut_for_claims import CutNode
from tests.agent.node_values import a_gpu

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
