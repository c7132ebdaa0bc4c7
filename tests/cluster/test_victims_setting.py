"""Every answer about a cluster takes from its Lease whether its scheduler evicts pods by priority."""

import msgspec
import pytest
import yaml

from gpufleet.cluster.settings import BY_PRIORITY, BY_QUEUES, Settings
from gpufleet.cluster.snapshots.command import lines_of, picture_of
from gpufleet.cluster.snapshots.document import read
from gpufleet.defragment.command import DefragmentRequest, plan_of
from gpufleet.explain.queue_inquiry import Wanted, ask_for_queues
from gpufleet.kube.client import Client
from gpufleet.whatif.command import answer_of
from gpufleet.whatif.request import Request, Submitted
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.scheduler.test_eviction_planner import add_queue
from tests.scheduler.world import World, in_world

SETTINGS = Settings(identity="asks")
URGENT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "urgent", "namespace": "default"},
    "spec": {
        "schedulerName": "gpufleet",
        "priority": 5,
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    },
}
SEARCHES = pytest.mark.parametrize("victims", [BY_PRIORITY, BY_QUEUES])


def by_search(victims: str) -> Settings:
    return msgspec.structs.replace(SETTINGS, victims=victims)


def full() -> Fleet:
    fleet = Fleet()
    fleet.node("gpu-1", gpus=2)
    fleet.pod("runs-0", node="gpu-1", devices="0", job="runs-0")
    fleet.pod("runs-1", node="gpu-1", devices="1", job="runs-1")
    return fleet


@SEARCHES
def test_a_snapshot_holds_what_the_leader_is_set_to_and_is_decided_on_with_it(victims: str) -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        world.pod("runs")
        await world.settle()
        await world.stop()
        world.pod("waits", priority=5)
        client = Client(world.transport("system:masters"), world.clock, world.random)
        picture, settings, at = await picture_of(client, SETTINGS, lambda _: None)
        assert settings == by_search(victims)
        there = read(lines_of(picture, settings, at), "test")
        assert there.settings.victims == victims
        assert (b'"evict"' in b"".join(there.steps)) == (victims == BY_PRIORITY)

    in_world(story, victims=victims)


def test_a_file_that_does_not_say_it_is_older_than_preemption_by_priority() -> None:
    header, *lines = lines_of(full().picture, SETTINGS, AT)
    found = msgspec.json.decode(header)
    del found["victims"]
    there = read([msgspec.json.encode(found) + b"\n", *lines], "test")
    assert there.settings.victims == BY_QUEUES


@SEARCHES
def test_what_if_evicts_as_the_leader_would(victims: str) -> None:
    request = Request(submit=(Submitted("urgent.yaml", yaml.safe_dump(URGENT).encode()),))
    answer = answer_of(request, full().picture, by_search(victims), AT, lambda _: None)
    assert len(answer.evicted) == (1 if victims == BY_PRIORITY else 0)
    assert [one.name for one in answer.starts] == (["urgent"] if victims == BY_PRIORITY else [])


@SEARCHES
def test_moves_are_sought_on_what_the_leader_would_leave(victims: str) -> None:
    fleet = Fleet()
    for node in ("gpu-1", "gpu-2"):
        fleet.node(node, gpus=2)
        fleet.pod(f"on-{node}", node=node, devices="0", job=node)
    fleet.pod("urgent", gpus=2, priority=5)
    plan = plan_of(DefragmentRequest(4), fleet.picture, by_search(victims), AT, lambda _: None)
    # Where a pod ends for it, one node is its own and the other has one GPU left: no move helps.
    assert len(plan.moves) == (0 if victims == BY_PRIORITY else 1)


@SEARCHES
def test_the_rows_of_queues_say_what_the_leader_does(victims: str) -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("runs")
        await world.settle()
        await world.stop()
        world.pod("waits", priority=5)
        client = Client(world.transport("system:masters"), world.clock, world.random)
        answer = await ask_for_queues(client, SETTINGS, Wanted.ENGINE, lambda _: None)
        row = next(one for one in answer.queues if one.name == "default")
        causes = [one.cause for one in row.waiting or ()]
        assert causes == ["nominated" if victims == BY_PRIORITY else "gpu-busy"]

    in_world(story, victims=victims)
