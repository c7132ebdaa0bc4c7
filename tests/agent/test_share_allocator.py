"""Shares: each container gets its own, or nothing yet."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gpufleet.agent.device_plugin import share_allocator
from gpufleet.agent.device_plugin.open_call_record import State
from gpufleet.agent.kubelet.kubelet_checkpoint import FILE
from gpufleet.agent.state.node_state import Gpu, NodePod
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.units.share_slots import share_slots
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Exclusive, Fractions
from tests.agent.node_values import FRACTIONS, SHARE, a_gpu, a_node, a_share, held
from tests.agent.share_world import Allocation, SharedNode

SMALL, LARGE = a_share("GPU-0", 250, 20_000), a_share("GPU-1", 750, 60_000)

Story = Callable[[SharedNode], Awaitable[None]]


def told(folder: Path, story: Story) -> SharedNode:
    """Tell a story of a node."""
    node = SharedNode(folder)

    async def run() -> None:
        await story(node)

    asyncio.run(run())
    return node


def files(node: SharedNode) -> list[str]:
    return [path.name for path in node.cdi.iterdir()] if node.cdi.is_dir() else []


def test_a_container_sees_its_share_and_nothing_else(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        uid = node.bind("a", epoch=7, main=(SMALL, LARGE))
        node.sync()
        assert await node.admit(uid)
        assert files(node) == []
        assert node.reads == 1
        printed = await node.start(uid)
        assert printed == {
            "NVIDIA_VISIBLE_DEVICES": "void",
            "GPUFLEET_POD_UID": uid,
            "GPUFLEET_POD": "team/a",
            "GPUFLEET_CONTAINER": "main",
            "GPUFLEET_EPOCH": "7",
            "GPUFLEET_DEVICES": "GPU-0,GPU-1",
            "GPUFLEET_GPU_MILLI": "250,750",
            "GPUFLEET_MEMORY_MIB": "20000,60000",
            "nodes": "/dev/nvidia0,/dev/nvidia1",
        }

    told(tmp_path, story)


def test_twins_with_shares_of_different_size_get_their_own_in_any_order(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        small, large = node.bind("twin-0", main=(SMALL,)), node.bind("twin-1", main=(LARGE,))
        node.sync()
        for uid in (large, small):
            assert await node.admit(uid)
        for uid in (small, large):
            await node.prepare(uid)
        assert [node.run(uid)["GPUFLEET_GPU_MILLI"] for uid in (large, small)] == ["750", "250"]

    told(tmp_path, story)


def test_a_kubelet_that_is_ahead_of_us_is_followed_to_the_api_server(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        assert await node.admit(uid)
        assert (await node.start(uid))["GPUFLEET_POD_UID"] == uid

    told(tmp_path, story)


def test_a_pod_without_a_grant_is_turned_away_at_once(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        node.add(NodePod("x", "team", "x", {"main": {SHARE: 1}}))
        node.sync()
        assert not await node.admit("x")
        with pytest.raises(RefusedError, match="schedulerName: gpufleet"):
            await node.allocator.allocate(["share-0"])

    told(tmp_path, story)


def test_beside_pods_with_grants_one_without_waits_with_its_reason(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        node.bind("a", main=(SMALL,))
        node.add(NodePod("x", "team", "x", {"main": {SHARE: 1}}))
        assert await node.admit("x")
        with pytest.raises(RefusedError, match="team/x has a slot for a share and no grant"):
            await node.prepare("x")
        assert files(node) == []

    told(tmp_path, story)


def refused(tmp_path: Path, change: Callable[[SharedNode, str], None]) -> str:
    """What a container is told after something changed between its admission and its start."""
    words = []

    async def story(node: SharedNode) -> None:
        uid = node.bind("a", epoch=2, main=(SMALL,))
        node.sync()
        assert await node.admit(uid)
        change(node, uid)
        with pytest.raises(RefusedError) as refusal:
            await node.prepare(uid)
        words.append(str(refusal.value))
        assert files(node) == []

    told(tmp_path, story)
    return words[0]


SICK = a_gpu("GPU-0", FRACTIONS, health=Verdict.UNHEALTHY, reason="Xid 79")


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ((SICK,), "unhealthy: Xid 79"),
        ((), "not on this node"),
        ((a_gpu("GPU-0", Exclusive()),), "not offered in shares"),
    ],
)
def test_a_card_that_is_sick_gone_or_offered_otherwise_is_given_to_nobody(
    tmp_path: Path, gpus: tuple[Gpu, ...], words: str
) -> None:
    assert words in refused(tmp_path, lambda node, _: node.gpus.publish(a_node(*gpus)))


def test_a_grant_that_cannot_be_read_gives_nothing(tmp_path: Path) -> None:
    def unreadable(node: SharedNode, uid: str) -> None:
        node.add(NodePod(uid, "team", "a", grant_problem="an unknown version"))
        node.sync()

    assert "an unknown version" in refused(tmp_path, unreadable)


def test_a_container_that_is_not_in_the_grant_gets_nothing(tmp_path: Path) -> None:
    def other(node: SharedNode, uid: str) -> None:
        node.allocations[uid, "side"] = node.allocations.pop((uid, "main"))
        node.write_record()
        node.allocations[uid, "main"] = node.allocations[uid, "side"]

    assert "nothing for container side" in refused(tmp_path, other)


def test_an_older_leaders_grant_gives_way_to_a_newer_one(tmp_path: Path) -> None:
    def overlap(node: SharedNode, _: str) -> None:
        node.bind("newer", epoch=3, main=(a_share("GPU-0", 800),))
        node.sync()

    assert "granted since, by a newer leader, to team/newer" in refused(tmp_path, overlap)


def test_what_was_given_is_not_given_twice_by_a_newer_leader(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        old = node.bind("old", epoch=1, main=(SMALL,))
        node.sync()
        await node.admit(old)
        await node.start(old)
        newer = node.bind("newer", epoch=2, main=(a_share("GPU-0", 800),))
        node.sync()
        await node.admit(newer)
        with pytest.raises(RefusedError, match="is given to team/old"):
            await node.prepare(newer)
        node.finish(old)
        node.sync()
        assert (await node.start(newer))["GPUFLEET_GPU_MILLI"] == "800"

    told(tmp_path, story)


def test_memory_is_a_capacity_too(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        one = node.bind("a", main=(a_share("GPU-0", 0, 50_000),))
        other = node.bind("b", main=(a_share("GPU-0", 0, 50_000),))
        node.sync()
        for uid in (one, other):
            await node.admit(uid)
        await node.start(one)
        with pytest.raises(RefusedError, match="does not fit"):
            await node.prepare(other)

    told(tmp_path, story)


@pytest.mark.parametrize("lost", ["nothing", "record", "checkpoint", "both"])
def test_an_agent_that_dies_between_allocate_and_start_gives_nothing_twice(tmp_path: Path, lost: str) -> None:
    """Fault 25. With neither of the two files nobody knows the name, and the container waits."""

    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        node.sync()
        await node.admit(uid)
        running = asyncio.create_task(node.allocator.run())
        for _ in range(1000):
            if node.checkpoint().load().state.calls:
                break
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if lost in {"record", "both"}:
            (node.record / "kubelet_internal_checkpoint").write_bytes(b"{torn")
        if lost in {"checkpoint", "both"}:
            (node.folder / "checkpoint.json").write_bytes(b"{torn")
        node.new_process()
        if lost == "both":
            with pytest.raises(RefusedError, match="no container is known"):
                await node.prepare(uid)
            assert files(node) == []
            node.write_record()
        assert (await node.start(uid))["GPUFLEET_POD_UID"] == uid
        assert len(files(node)) == 1

    told(tmp_path, story)


def test_a_call_that_an_earlier_process_did_not_cross_out_is_not_open_any_more(tmp_path: Path) -> None:
    """Fault 28: a whole checkpoint of an earlier moment."""

    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        node.sync()
        await node.admit(uid)
        node.checkpoint().save(State(node.allocator.open_calls))
        await node.start(uid)
        allocator = node.new_process()
        assert [len(call.units) for call in allocator.open_calls] == [1]
        await allocator.sweep()
        assert not node.allocator.open_calls
        assert (await node.start(uid))["GPUFLEET_POD_UID"] == uid

    told(tmp_path, story)


def test_an_init_container_lends_its_share(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        uid = node.bind("a", 1, init_1=(SMALL, LARGE), init_2=(SMALL,), main=(SMALL,))
        node.sync()
        assert await node.admit(uid)
        for container in ("init_1", "init_2", "main"):
            printed = await node.start(uid, container)
            assert printed["GPUFLEET_CONTAINER"] == container
            assert printed["GPUFLEET_DEVICES"].startswith("GPU-0")

    told(tmp_path, story)


def test_a_pod_of_the_same_name_is_another_pod(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        old = node.bind("a", main=(SMALL,))
        await node.admit(old)
        await node.start(old)
        node.remove(old)
        new = node.bind("a", main=(LARGE,))
        node.sync()
        await node.admit(new)
        assert (await node.start(new))["GPUFLEET_GPU_MILLI"] == "750"

    told(tmp_path, story)


def test_a_container_starts_again_without_the_api_server(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        await node.admit(uid)
        await node.start(uid)
        node.api_down = True
        node.new_process()
        assert (await node.start(uid))["GPUFLEET_POD_UID"] == uid
        other = node.bind("b", main=(LARGE,))
        await node.admit(other)
        with pytest.raises(RefusedError, match="cannot be found out now"):
            await node.prepare(other)

    told(tmp_path, story)


def test_a_record_that_lags_is_made_up_for_by_the_pod_resources(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        old = node.bind("old", main=(SMALL,))
        await node.admit(old)
        await node.start(old)
        node.finish(old)
        node.record_stuck = True
        new = node.bind("new", main=(LARGE,))
        await node.admit(new)
        assert (await node.start(new))["GPUFLEET_GPU_MILLI"] == "750"
        node.kubelet_silent = True
        third = node.bind("third", main=(SMALL,))
        await node.admit(third)
        with pytest.raises(RefusedError, match="cannot be found out now"):
            await node.prepare(third)

    told(tmp_path, story)


def test_two_living_pods_in_the_record_are_not_guessed_between(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        one, other = node.bind("a", main=(SMALL,)), node.bind("b", main=(LARGE,))
        await node.admit(one)
        node.allocations[other, "main"] = Allocation(node.allocations[one, "main"].slots, "ff")
        node.write_record()
        with pytest.raises(RefusedError, match="two pods"):
            await node.prepare(one)

    told(tmp_path, story)


def test_files_without_a_living_owner_are_removed_and_no_others(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        stays, goes = node.bind("a", main=(SMALL,)), node.bind("b", main=(LARGE,))
        for uid in (stays, goes):
            await node.admit(uid)
            await node.start(uid)
        node.remove(goes)
        await node.allocator.sweep()
        assert files(node) == [f"gpufleet.io-share-{node.allocations[stays, 'main'].name}.json"]

    told(tmp_path, story)


def test_a_pod_that_the_kubelet_still_has_keeps_its_file(tmp_path: Path) -> None:
    """Deleted by force: the API server has forgotten it, its containers may still run."""

    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        await node.admit(uid)
        await node.start(uid)
        node.sync()
        del node.api[uid]
        node.copy.publish({})
        await node.allocator.sweep()
        assert len(files(node)) == 1
        rival = node.bind("b", main=(a_share("GPU-0", 900),))
        await node.admit(rival)
        with pytest.raises(RefusedError, match="is given to team/a"):
            await node.prepare(rival)

    told(tmp_path, story)


def test_what_is_left_of_a_pod_that_is_gone_is_in_nobodys_way(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        gone = node.bind("gone", main=(SMALL,))
        await node.admit(gone)
        await node.start(gone)
        node.remove(gone)
        rival = node.bind("rival", main=(a_share("GPU-0", 900),))
        await node.admit(rival)
        assert (await node.start(rival))["GPUFLEET_GPU_MILLI"] == "900"
        assert len(files(node)) == 1

    told(tmp_path, story)


def test_what_the_kubelet_lets_go_of_late_is_taken_back_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_allocator, "LEFT_SWEEP_EVERY_S", 0.02)

    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        await node.admit(uid)
        await node.start(uid)
        node.sync()
        running = asyncio.create_task(node.allocator.run())
        del node.api[uid]
        node.copy.publish({})
        await asyncio.sleep(0.2)
        assert len(files(node)) == 1
        node.ended.add(uid)
        for _ in range(1000):
            await asyncio.sleep(0.02 if files(node) else 0.0)
        assert not files(node)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    told(tmp_path, story)


def test_a_call_is_forgotten_when_its_pod_goes_before_it_started(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        gone, stays = node.bind("gone", main=(SMALL,)), node.bind("stays", main=(LARGE,))
        node.sync()
        for uid in (gone, stays):
            assert await node.admit(uid)
        node.remove(gone)
        node.sync()
        await node.allocator.sweep()
        assert open_calls(node) == [node.allocations[stays, "main"].name]
        await node.start(stays)

    told(tmp_path, story)


def test_a_call_that_the_kubelet_gave_up_is_forgotten_when_nobody_can_start_with_it(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        lost, waits = node.bind("lost", main=(SMALL,)), node.bind("waits", main=(LARGE,))
        node.sync()
        assert not await node.admit(lost, answer_lost=True)
        node.sync()
        await node.allocator.sweep()
        assert len(open_calls(node)) == 1
        assert await node.admit(waits)
        await node.start(waits)
        node.sync()
        await node.allocator.sweep()
        assert open_calls(node) == []

    told(tmp_path, story)


def test_a_call_stays_open_while_record_or_api_server_cannot_be_asked(tmp_path: Path) -> None:
    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        node.sync()
        assert await node.admit(uid)
        node.remove(uid)
        node.sync()
        node.api_down = True
        await node.allocator.sweep()
        assert len(open_calls(node)) == 1
        node.api_down = False
        (node.record / FILE).write_bytes(b"{torn")
        await node.allocator.sweep()
        assert len(open_calls(node)) == 1
        node.write_record()
        await node.allocator.sweep()
        assert open_calls(node) == []

    told(tmp_path, story)


def open_calls(node: SharedNode) -> list[str]:
    """The names that were answered and are not behind a file."""
    return [call.name for call in node.allocator.open_calls]


def test_a_file_of_ours_that_nobody_can_read_goes(tmp_path: Path) -> None:
    (tmp_path / "cdi").mkdir()
    for name, text in {"gpufleet.io-share-0a": "{", "gpufleet.io-gpu": "{", "other": "{"}.items():
        (tmp_path / "cdi" / f"{name}.json").write_text(text, encoding="utf-8")
    node = SharedNode(tmp_path)
    asyncio.run(node.allocator.sweep())
    assert sorted(files(node)) == ["gpufleet.io-gpu.json", "other.json"]


def test_slots_are_as_many_as_shares_may_be_and_those_that_are_held_stay() -> None:
    node = a_node(a_gpu("GPU-0", Fractions(2)), a_gpu("GPU-1", Fractions(1)), a_gpu("GPU-2", Exclusive()))
    assert [unit.id for unit in share_slots(node, ())] == ["share-0", "share-1", "share-2"]
    fewer = a_node(a_gpu("GPU-0", Fractions(2)))
    kept = share_slots(fewer, (held("a", SHARE, "share-7"),))
    assert [unit.id for unit in kept] == ["share-0", "share-7"]
    assert share_slots(a_node(a_gpu("GPU-0", Exclusive())), ()) == ()


def test_a_slot_is_sick_only_where_no_share_could_be_given() -> None:
    sick = a_gpu("GPU-0", Fractions(1), health=Verdict.UNKNOWN, reason="no answer")
    assert all(unit.healthy for unit in share_slots(a_node(sick, a_gpu("GPU-1", Fractions(1))), ()))
    assert not any(unit.healthy for unit in share_slots(a_node(sick), ()))
