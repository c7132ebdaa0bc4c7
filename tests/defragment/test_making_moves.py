"""Making the moves of a plan, in virtual time: one after the other, and none after one that went wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from gpufleet.defragment.cordon import MARK, CordonLeftError
from gpufleet.defragment.moving import MoveFailedError, Mover, StoppedError
from gpufleet.defragment.plan import PlannedMove
from gpufleet.kube.client import Client
from gpufleet.model.model_errors import WorldError
from tests.scheduler.test_eviction_planner import budget
from tests.scheduler.world import Object, World, in_world

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
PERSON = "system:masters"


class Fleet:
    """Two nodes of four GPUs: three single pods on a, which is the fuller one, and one on b."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.told: list[str] = []
        self.stop = asyncio.Event()
        self.replaces = True
        self.kubelets_end_pods = True
        self.replaced: set[str] = set()

    async def begin(self) -> None:
        """All four run, and kubelets and a controller are at work."""
        for name in ("a", "b"):
            self.world.node(name, gpus=4)
        for name, node in (("p", "a"), ("q", "a"), ("r", "a"), ("s", "b")):
            self.add(name, nodeSelector={"kubernetes.io/hostname": node})
        self.world.also(self.live())
        await self.world.settle(10)

    def add(self, name: str, **spec: Any) -> None:
        """A pod of the controller that is called as the pod's first letter."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name[0], "uid": name[0]}
        self.world.pod(name, ownerReferences=[{**owner, "controller": True}], labels={"app": name[0]}, **spec)

    async def live(self) -> None:
        """Bound pods run, those that are to end do so, and a controller replaces them."""
        while True:
            await self.world.clock.sleep(0.5)
            for pod in self.world.objects(PODS):
                self.act(pod)

    def act(self, pod: Object) -> None:
        """What a kubelet and a controller make of one pod."""
        name, leaving = pod["metadata"]["name"], "deletionTimestamp" in pod["metadata"]
        if leaving and self.replaces and name not in self.replaced:
            self.replaced.add(name)
            self.add(f"{name}-anew")
        elif leaving and self.kubelets_end_pods:
            self.world.delete(name)
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            assert self.world.request("PATCH", f"{PODS}/{name}/status", {"status": status}) == 200

    def move(self, name: str, source: str = "a", target: str = "b") -> PlannedMove:
        """A move of a pod that is there."""
        uid = self.world.get(name)["metadata"]["uid"]
        return PlannedMove(f"default/{name}", uid, source, target, 0, f"ReplicaSet/{name[0]}")

    async def make(self, *moves: PlannedMove) -> None:
        """Make moves as somebody who may."""
        client = Client(self.world.transport(PERSON), self.world.clock, Random(1))
        await Mover(client, 60.0, self.told.append, self.stop).make(moves)

    def node(self, name: str) -> Object:
        """A node as the server has it."""
        return next(one for one in self.world.objects(NODES) if one["metadata"]["name"] == name)

    def is_as_before(self, name: str) -> bool:
        """True if a node takes pods and carries no mark."""
        node = self.node(name)
        annotations = node["metadata"].get("annotations", {})
        return not node["spec"].get("unschedulable") and MARK not in annotations

    def cordon(self, name: str) -> None:
        """As ``kubectl cordon``."""
        assert self.world.request("PATCH", f"{NODES}/{name}", {"spec": {"unschedulable": True}}) == 200


def told(story: Callable[[Fleet], Awaitable[None]]) -> None:
    """Tell a story of this fleet."""

    async def begun(world: World) -> None:
        fleet = Fleet(world)
        await fleet.begin()
        await story(fleet)

    in_world(begun)


def test_each_pod_runs_again_before_the_next_leaves_and_none_comes_back() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.make(fleet.move("p"), fleet.move("q"))
        assert [fleet.world.node_of(f"{name}-anew") for name in "pq"] == ["b", "b"]
        assert fleet.told == [
            "1 of 2: default/p leaves a",
            "1 of 2: default/p-anew runs on b",
            "2 of 2: default/q leaves a",
            "2 of 2: default/q-anew runs on b",
        ]
        asked = [one.target for one in fleet.world.server.answered if one.user == PERSON]
        kept = [one for one in asked if one.startswith(NODES + "/") or one.endswith("/eviction")]
        node, evict = f"{NODES}/a", f"{PODS}/{{}}/eviction".format
        assert kept == [node, node, evict("p"), node, node, node, evict("q"), node]
        assert fleet.is_as_before("a")

    told(story)


def test_a_disruption_budget_ends_it() -> None:
    async def story(fleet: Fleet) -> None:
        budget(fleet.world, "keep", 0, app="p")
        with pytest.raises(MoveFailedError, match=r"default/p stays on a: its eviction is refused: .*budget"):
            await fleet.make(fleet.move("p"), fleet.move("q"))
        assert fleet.world.evicted() == ["p"], "q is not even asked for"
        assert [fleet.world.node_of(name) for name in "pq"] == ["a", "a"]
        assert fleet.is_as_before("a")

    told(story)


def test_a_node_that_was_cordoned_before_stays_so() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.cordon("a")
        await fleet.make(fleet.move("p"))
        assert fleet.node("a")["spec"]["unschedulable"]
        assert MARK not in fleet.node("a")["metadata"].get("annotations", {})
        assert "node a was cordoned before, and stays so" in fleet.told

    told(story)


def test_one_that_goes_elsewhere_is_the_last() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.world.node("c", gpus=1)
        with pytest.raises(MoveFailedError, match="default/p-anew, in place of default/p, went to c and not"):
            await fleet.make(fleet.move("p"), fleet.move("q"))
        assert fleet.world.evicted() == ["p"]
        assert fleet.is_as_before("a")

    told(story)


def test_where_nobody_comes_instead_it_says_so_in_time() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.replaces = False
        with pytest.raises(MoveFailedError, match="after 60 s ReplicaSet/p has no pod on a node in place"):
            await fleet.make(fleet.move("p"), fleet.move("q"))
        assert fleet.is_as_before("a")

    told(story)


def test_a_pod_that_does_not_end_is_waited_for() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.kubelets_end_pods = False
        with pytest.raises(MoveFailedError, match="after 60 s default/p has not ended"):
            await fleet.make(fleet.move("p"), fleet.move("q"))
        assert fleet.world.node_of("p-anew") == "b"
        assert fleet.world.evicted() == ["p"]

    told(story)


def test_who_is_gone_already_is_not_moved() -> None:
    async def story(fleet: Fleet) -> None:
        move = fleet.move("p")
        fleet.world.delete("p")
        fleet.add("p", nodeSelector={"kubernetes.io/hostname": "a"})
        with pytest.raises(MoveFailedError, match="default/p is gone already: ask for a new plan"):
            await fleet.make(move)
        assert fleet.world.evicted() == [], "a namesake is somebody else"

    told(story)


def test_asked_to_stop_it_opens_the_node_and_ends() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.kubelets_end_pods = False
        making = asyncio.ensure_future(fleet.make(fleet.move("p"), fleet.move("q")))
        await fleet.world.settle(5)
        assert not fleet.is_as_before("a")
        fleet.stop.set()
        with pytest.raises(StoppedError, match="stopped while default/p has not ended"):
            await making
        assert fleet.is_as_before("a")

    told(story)


def test_also_a_task_that_is_cancelled_opens_the_node() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.kubelets_end_pods = False
        making = asyncio.ensure_future(fleet.make(fleet.move("p")))
        await fleet.world.settle(5)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert fleet.is_as_before("a")

    told(story)


def test_where_the_node_cannot_be_opened_again_people_are_told() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.replaces = False
        making = asyncio.ensure_future(fleet.make(fleet.move("p")))
        await fleet.world.settle(5)
        fleet.world.loses("PATCH", "/nodes/a", times=1000)
        with pytest.raises(CordonLeftError, match="`kubectl uncordon a`; before that: after 60 s") as failed:
            await making
        assert isinstance(failed.value, WorldError)
        assert not fleet.is_as_before("a")
        fleet.world.hindrances.clear()
        fleet.replaces = True
        await fleet.make(fleet.move("q"))
        assert "node a was cordoned before by an earlier defragmentation, and stays so" in fleet.told

    told(story)
