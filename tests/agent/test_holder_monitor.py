"""Who holds what, in the kubelet's words, joined with the pods of the API server."""

import asyncio
from pathlib import Path
from typing import Self

import msgspec
import pytest

from gpufleet.agent.holders.holder_memory import HolderMemory
from gpufleet.agent.holders.holder_monitor import (
    REGULAR_S,
    SPACING_S,
    HolderMonitor,
    HolderSources,
    join_holders,
)
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry
from gpufleet.agent.kubelet.pod_resources import PodResources
from gpufleet.agent.state.node_state import Held, Holders, NodePods
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.clock import MachineClock
from tests.agent.kubelet_record import write_record
from tests.agent.node_values import GPU, SHARE, a_pod, by_uid, held
from tests.agent.small_pod_resources import SmallPodResources
from tests.kube.virtual_time import run_virtually


def recorded(uid: str, *units: str, container: str = "main", resource: str = SHARE) -> CheckpointEntry:
    return CheckpointEntry(uid, container, resource, frozenset(units))


def test_a_pods_uid_is_the_recorded_one() -> None:
    """A pod of the same name may have been made anew, and the kubelet still has the old one."""
    listed = (held("a", SHARE, "share-0", uid=""),)
    pods = by_uid(a_pod("a", uid="new"))
    assert [one.pod_uid for one in join_holders(listed, [recorded("old", "share-0")], pods)] == ["old"]
    assert [one.pod_uid for one in join_holders(listed, [recorded("new", "share-0")], pods)] == ["new"]
    assert [one.pod_uid for one in join_holders(listed, [], pods)] == ["new"]
    assert [one.pod_uid for one in join_holders(listed, [], {})] == [""]


def test_init_containers_are_in_the_record_alone() -> None:
    pods = by_uid(a_pod("a"))
    record = [recorded("uid-a", "GPU-0", "GPU-1", container="init", resource=GPU), recorded("gone", "GPU-7")]
    found = join_holders((held("a", GPU, "GPU-0", uid=""),), record, pods)
    assert found == (held("a", GPU, "GPU-0", "GPU-1", container="init"), held("a", GPU, "GPU-0"))


def test_a_pod_that_ended_holds_nothing_any_more() -> None:
    pods = by_uid(a_pod("a", finished=True))
    assert join_holders((held("a", GPU, "GPU-0", uid=""),), [recorded("uid-a", "GPU-0")], pods) == ()


class Kubelet:
    """A lister; ``asked_at_s`` says when it was asked."""

    def __init__(self) -> None:
        self.answer: Holders | KubeletError = ()
        self.asked_at_s: list[float] = []

    async def list(self) -> Holders:
        """The answer."""
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if isinstance(self.answer, KubeletError):
            raise self.answer
        return self.answer


class Watched:
    """A watch over a kubelet, in virtual time."""

    def __init__(self, folder: Path) -> None:
        self.kubelet = Kubelet()
        self.pods: Topic[NodePods] = Topic(by_uid(a_pod("a")))
        self.topic: Topic[Holders] = Topic(())
        clock = MachineClock()
        sources = HolderSources(HolderMemory(clock))
        self.watch = HolderMonitor(self.kubelet, folder, self.pods, self.topic, sources, clock)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.watch.run())
        await asyncio.sleep(1.0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def now(world: Watched) -> tuple[Holders, str]:
    return world.topic.value, world.watch.problem


def test_what_was_given_is_known_within_half_a_second(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as world:
            assert world.watch.known
            world.kubelet.answer = (held("a", GPU, "GPU-0", uid=""),)
            world.watch.look()
            await asyncio.sleep(0.5)
            assert world.topic.value == (held("a", GPU, "GPU-0"),)

    run_virtually(story())


def test_many_looks_are_few_questions(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as world:
            world.kubelet.asked_at_s.clear()
            for _ in range(100):
                world.watch.look()
                await asyncio.sleep(0.02)
            asked = world.kubelet.asked_at_s
            assert len(asked) <= 2.0 / SPACING_S + 1

    run_virtually(story())


def test_without_news_the_kubelet_is_asked_now_and_then(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as world:
            world.kubelet.asked_at_s.clear()
            await asyncio.sleep(3 * REGULAR_S)
            assert 2 <= len(world.kubelet.asked_at_s) <= 4

    run_virtually(story())


def test_a_kubelet_that_is_away_takes_nothing_from_anybody(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as world:
            world.kubelet.answer = mine = (held("a", GPU, "GPU-0"),)
            world.watch.look()
            await asyncio.sleep(1.0)
            world.kubelet.answer = KubeletError("connection refused")
            world.watch.look()
            await asyncio.sleep(5.0)
            assert now(world)[0] == mine
            assert "refused" in now(world)[1]
            world.kubelet.answer = ()
            await asyncio.sleep(2.0)
            assert now(world) == ((msgspec.structs.replace(mine[0], listed=False),), "")

    run_virtually(story())


def test_a_pod_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as world:
            world.kubelet.answer = (held("a", GPU, "GPU-0"),)
            world.pods.publish(by_uid(a_pod("a"), a_pod("b")))
            await asyncio.sleep(0.5)
            assert world.topic.value == (held("a", GPU, "GPU-0"),)
            world.pods.publish(by_uid(a_pod("a", finished=True)))
            await asyncio.sleep(1.0)
            assert not world.topic.value

    run_virtually(story())


def test_a_record_that_cannot_be_read_leaves_what_is_listed_and_what_it_said_before(tmp_path: Path) -> None:
    async def story() -> None:
        write_record(tmp_path, recorded("uid-a", "GPU-1", container="init", resource=GPU))
        async with Watched(tmp_path) as world:
            assert [one.container for one in world.topic.value] == ["init"]
            (tmp_path / "kubelet_internal_checkpoint").write_bytes(b"{")
            world.kubelet.answer = (held("a", GPU, "GPU-0"),)
            before = msgspec.structs.replace(held("a", GPU, "GPU-1", container="init"), listed=False)
            assert await world.watch.ask() == (before, held("a", GPU, "GPU-0"))

    run_virtually(story())


def test_the_kubelets_socket_is_asked_also_after_it_was_away(tmp_path: Path) -> None:
    async def story() -> None:
        socket = tmp_path / "kubelet.sock"
        client = PodResources(socket)
        with pytest.raises(KubeletError, match="UNAVAILABLE"):
            await client.list()
        for _ in range(2):
            kubelet = SmallPodResources(socket)
            kubelet.holders = [Held("team", "a", "main", GPU, ("GPU-1", "GPU-0"))]
            await kubelet.start()
            assert await client.list() == (Held("team", "a", "main", GPU, ("GPU-0", "GPU-1")),)
            assert await client.get("team", "a") == await client.list()
            with pytest.raises(KubeletError, match="not found"):
                await client.get("team", "b")
            await kubelet.stop()

    asyncio.run(story())
