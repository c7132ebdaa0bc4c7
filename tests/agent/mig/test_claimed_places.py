"""A card is cut when a claim is prepared, and whole again when it is taken back, whatever is killed."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from gpufleet.agent.dra.claim_preparer import GONE_AFTER_S, ClaimName
from gpufleet.agent.dra.prepared_claims import Stage
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.mig.change import Call, MakeComputeInstance, MakeGpuInstance, RemoveGpuInstance, SetMode
from gpufleet.model.identifiers import DeviceId
from tests.agent.dra.claim_world import NVIDIA
from tests.agent.mig.cut_for_claims import CALL_S, CutNode, kill_points, rebooted
from tests.mig.mig_cards import at

SMALL, LARGE = "gpu-0-mig-2g20gb-14-2", "gpu-0-mig-3g40gb-9-4"
"""Devices by NVIDIA's names: the profile, its number with the driver, and where the instance begins."""


def prepared(node: CutNode, name: str, *devices: str) -> ClaimName:
    claim = node.allocated(name, *devices)
    node.prepare(claim)
    return claim


def test_a_claim_gets_its_instance_and_the_card_is_whole_once_the_last_one_is_gone(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small, large = prepared(node, "small", SMALL), prepared(node, "large", LARGE)
    assert node.layout() == at("2g.20gb@2", "3g.40gb@4")
    assert node.capabilities_of(small) == [f"/dev/{node.uuid_at('2g.20gb@2')}"]
    assert node.capabilities_of(large) == [f"/dev/{node.uuid_at('3g.40gb@4')}"]
    node.unprepare(small)
    assert node.layout() == at("3g.40gb@4")
    assert node.files() == [f"gpufleet.io-claim-uid-large-{NVIDIA}.json"]
    node.unprepare(large)
    assert node.layout() is None
    assert (node.files(), node.stages) == ([], {})


def test_the_pods_of_a_claim_are_told_what_was_made_and_how_long_each_step_took(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small = prepared(node, "small", SMALL)
    # The mode by one call, the GPU instance and the compute instance by one each.
    words = f"{SMALL} in 4.5 s (MIG mode 1.5 s, instances made 3.0 s, devices listed 0.0 s)"
    assert node.told_made == [("small", f"made for claim team/small: {words}")]
    node.prepare(small)
    assert len(node.told_made) == 1, "nothing was made again"
    node.unprepare(small)
    assert node.counts.told()["mode"] == (2, 2 * CALL_S)
    assert node.counts.told()["remove"] == (2, 2 * CALL_S)


def test_a_whole_card_and_its_parts_are_given_one_after_the_other(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small = prepared(node, "small", SMALL)
    with pytest.raises(RefusedError, match="held by claim team/small"):
        node.prepare(node.allocated("whole", "gpu-0"))
    node.unprepare(small)
    whole = prepared(node, "whole", "gpu-0")
    assert node.nodes_of(whole) == ["/dev/nvidia0"]
    with pytest.raises(RefusedError, match="held by claim team/whole"):
        node.prepare(node.allocated("small", SMALL))
    assert node.layout() is None
    node.unprepare(whole)
    prepared(node, "small", SMALL)
    assert node.layout() == at("2g.20gb@2")


def test_killed_at_every_step_a_claim_is_prepared_and_taken_back(tmp_path: Path) -> None:
    for number, (step, after) in enumerate(kill_points()):
        node = CutNode(tmp_path / str(number))
        prepared(node, "large", LARGE)
        kept = node.uuid_at("3g.40gb@4")
        small = node.allocated("small", SMALL)
        node.operations, node.killed_at = 0, (step, after)
        node.until_done(lambda: node.prepare(small))  # noqa: B023  (called before the next round)
        assert node.layout() == at("2g.20gb@2", "3g.40gb@4")
        assert node.capabilities_of(small) == [f"/dev/{node.uuid_at('2g.20gb@2')}"]
        was_killed = node.killed_at is None
        node.operations, node.killed_at = 0, (step, after)
        node.until_done(lambda: node.unprepare(small))  # noqa: B023
        assert node.layout() == at("3g.40gb@4")
        assert node.uuid_at("3g.40gb@4") == kept
        assert node.stages == {"large": Stage.READY}
        if not was_killed and node.killed_at is not None:
            # Records twice, a CDI file, two calls: the driver's and the disk's steps were all tried.
            assert number > 14
            return


@pytest.mark.parametrize("ends", ["by the kubelet", "by nobody"])
def test_killed_at_every_step_and_not_asked_again_nothing_is_left(tmp_path: Path, ends: str) -> None:
    """The pod is deleted while its claim is prepared. Where the kubelet forgot it, the API server tells."""
    for number, (step, after) in enumerate(kill_points()):
        node = CutNode(tmp_path / str(number))
        small = node.allocated("small", SMALL)
        node.operations, node.killed_at = 0, (step, after)
        if not killed(node, lambda: node.prepare(small)):  # noqa: B023
            assert number > 14
            return
        if ends == "by the kubelet":
            node.unprepare(small)
        else:
            del node.server.claims["small"]
        node.mend()
        node.clock.later_s += GONE_AFTER_S
        node.mend()
        assert set(node.stages.values()) <= {Stage.READY}
        if not node.stages:
            assert (node.layout(), node.files()) == (None, [])


def test_killed_while_it_is_taken_back_and_not_asked_again_it_is_gone(tmp_path: Path) -> None:
    for number, (step, after) in enumerate(kill_points()):
        node = CutNode(tmp_path / str(number))
        small = prepared(node, "small", SMALL)
        node.operations, node.killed_at = 0, (step, after)
        if not killed(node, lambda: node.unprepare(small)):  # noqa: B023
            assert number > 14
            return
        node.mend()
        assert node.stages in ({}, {"small": Stage.READY})
        assert node.layout() == (at("2g.20gb@2") if node.stages else None)


def killed(node: CutNode, work: Callable[[], object]) -> bool:
    """Whether the process was killed at this work; another one is there then, which is not asked for it."""
    process = node.preparer
    node.until_done(lambda: work() if node.preparer is process else None)
    return node.preparer is not process


def test_after_a_reboot_the_instance_is_made_again_at_its_place(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small = prepared(node, "small", SMALL)
    before = node.uuid_at("2g.20gb@2")
    rebooted(node)
    assert node.layout() == ()
    assert node.mend() == ""
    assert node.layout() == at("2g.20gb@2")
    assert node.uuid_at("2g.20gb@2") != before
    assert node.capabilities_of(small) == [f"/dev/{node.uuid_at('2g.20gb@2')}"]


def test_an_instance_in_use_is_not_removed_and_the_claim_stays(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small = prepared(node, "small", SMALL)
    kept = node.uuid_at("2g.20gb@2")
    node.use("2g.20gb@2")
    with pytest.raises(RefusedError, match=r"2g\.20gb@2 of card .* is in use"):
        node.unprepare(small)
    assert node.uuid_at("2g.20gb@2") == kept
    assert node.stages == {"small": Stage.READY}
    assert node.capabilities_of(small) == [f"/dev/{kept}"]
    node.users = []
    node.unprepare(small)
    assert node.layout() is None


def test_a_strangers_instance_stays_while_it_is_in_use_and_goes_after(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    node.card.cut(at("1g.10gb@0", "1g.10gb@6"))
    node.use("1g.10gb@6")
    node.restarted()
    small = prepared(node, "small", SMALL)
    assert node.layout() == at("2g.20gb@2", "1g.10gb@6")
    with pytest.raises(RefusedError, match="instances overlap"):
        node.prepare(node.allocated("large", LARGE))
    node.unprepare(small)
    assert node.layout() == at("1g.10gb@6")
    node.users = []
    node.mend()
    assert node.layout() is None


@pytest.mark.parametrize("refused", [SetMode, MakeGpuInstance, MakeComputeInstance])
def test_what_the_driver_refuses_is_taken_back_and_told(tmp_path: Path, refused: type) -> None:
    node = CutNode(tmp_path)
    node.refused = lambda call: isinstance(call, refused) and call != SetMode(enabled=False)
    small = node.allocated("small", SMALL)
    with pytest.raises(RefusedError, match=r"2g\.20gb@2 of card .* is not made: Insufficient Resources"):
        node.prepare(small)
    assert node.layout() is None
    assert node.files() == []
    node.refused = lambda _: False
    node.prepare(small)
    assert node.layout() == at("2g.20gb@2")


def test_what_the_driver_will_not_remove_stays_with_its_claim(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small = prepared(node, "small", SMALL)
    node.refused = lambda call: isinstance(call, RemoveGpuInstance)
    with pytest.raises(RefusedError, match="is not cleared: Insufficient Resources"):
        node.unprepare(small)
    assert node.layout() == at("2g.20gb@2")
    assert node.capabilities_of(small) == [f"/dev/{node.uuid_at('2g.20gb@2')}"]
    node.refused = lambda _: False
    node.unprepare(small)
    assert node.layout() is None


def test_a_program_on_the_card_keeps_it_cut_and_the_pod_ends(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    small = prepared(node, "small", SMALL)
    node.refused = lambda call: call == SetMode(enabled=False)
    node.unprepare(small)
    assert (node.layout(), node.stages) == ((), {})
    node.refused = lambda _: False
    prepared(node, "again", SMALL)
    assert node.layout() == at("2g.20gb@2")


def test_a_card_whose_mode_takes_a_reset_is_cut_only_within_its_mode(tmp_path: Path) -> None:
    node = CutNode(tmp_path, "A100-80GB")
    assert node.offered() == ["gpu-0"]
    node.card.cut(())
    node.restarted()
    assert "gpu-0" not in node.offered()
    small = prepared(node, "small", SMALL)
    assert node.layout() == at("2g.20gb@2")
    node.unprepare(small)
    assert node.layout() == ()
    assert node.mend() == ""
    assert (node.layout(), node.card.resets) == ((), 0)


def test_where_the_mig_manager_works_no_card_is_cut(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    node.obstacle = "NVIDIA's MIG Manager changes the layouts of this node"
    with pytest.raises(RefusedError, match="MIG Manager"):
        node.prepare(node.allocated("small", SMALL))
    assert node.layout() is None


def test_two_claims_at_once_are_both_made(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    claims = [node.allocated("small", SMALL), node.allocated("large", LARGE)]

    async def both() -> None:
        await asyncio.gather(*(node.preparer.prepare(NVIDIA, one) for one in claims))

    asyncio.run(both())
    assert node.layout() == at("2g.20gb@2", "3g.40gb@4")


class SlowNode(CutNode):
    """A node whose driver takes a while, in which the kubelet may ask again."""

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """As CardDriver, after other calls of the kubelet came."""
        await asyncio.sleep(0.01)
        await super().make_call(uuid, call)


def test_two_calls_at_once_for_a_claim_are_told_to_its_pods_once(tmp_path: Path) -> None:
    node = SlowNode(tmp_path)
    small = node.allocated("small", SMALL)

    async def both() -> None:
        await asyncio.gather(*(node.preparer.prepare(NVIDIA, small) for _ in range(2)))

    asyncio.run(both())
    ((_, note),) = node.told_made
    assert "instances made 3.0 s" in note


def test_an_administrator_sees_what_is_there_and_has_nothing_made(tmp_path: Path) -> None:
    node = CutNode(tmp_path)
    watching = node.allocated("watching", SMALL, adminAccess=True)
    with pytest.raises(RefusedError, match="access by an administrator makes none"):
        node.prepare(watching)
    small = prepared(node, "small", SMALL)
    node.prepare(watching)
    assert node.capabilities_of(watching) == node.capabilities_of(small)
    node.unprepare(watching)
    assert node.layout() == at("2g.20gb@2")


def test_in_many_claims_with_kills_no_instance_is_lost_or_left(tmp_path: Path) -> None:
    """120 claims drawn by chance come and go on two cards; what is at work stays the same instance."""
    chance, node = Random(3), CutNode(tmp_path, count=2)
    plain = [one for one in node.offered() if "-me-" not in one]
    at_work: dict[str, tuple[ClaimName, list[str]]] = {}
    refused = 0
    for number in range(120):
        node.operations, node.killed_at = 0, (chance.randint(1, 25), chance.random() < 0.5)
        if at_work and chance.random() < 0.5:
            claim, _ = at_work.pop(chance.choice(sorted(at_work)))
            node.until_done(lambda: node.unprepare(claim))  # noqa: B023
        else:
            claim = node.allocated(f"claim-{number}", chance.choice(plain))
            if is_given(node, claim):
                at_work[claim.name] = claim, node.nodes_of(claim)
            else:
                refused += 1
        assert node.stages == dict.fromkeys(at_work, Stage.READY)
        assert all(node.nodes_of(one) == nodes for one, nodes in at_work.values())
        there = {f"/dev/{one.uuid}" for gpu in node.machine.gpus.values() for one in gpu.instances or ()}
        assert there == {one for _, nodes in at_work.values() for one in nodes if "MIG-" in one}
    assert 10 < refused < 60
    for claim, _ in at_work.values():
        node.unprepare(claim)
    assert all(gpu.instances is None for gpu in node.machine.gpus.values())


def is_given(node: CutNode, claim: ClaimName) -> bool:
    """Whether it is prepared; one whose place is taken is refused, and leaves nothing."""
    try:
        node.until_done(lambda: node.prepare(claim))
    except RefusedError as refusal:
        if "held by claim" not in str(refusal):
            raise
        return False
    return True
