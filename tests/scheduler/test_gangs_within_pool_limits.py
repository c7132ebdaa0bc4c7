"""Gangs come and go at random below the limit of a pool: no part of one is bought where not all may be.

A small stand-in for Karpenter buys nodes of eight GPUs for single pods, as far as the limit allows, and takes
back those that stay empty. Nodes that were bought for one gang may be taken by another.
"""

import asyncio
from random import Random

import pytest

from tests.scheduler.test_node_pool_limits import GPU, buys, gang, pool
from tests.scheduler.world import Object, World, in_world

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
LIMIT_NODES = 4
EMPTY_S = 60.0
GANGS = 12


class Buyer:
    """One node for one pod.

    ``partial`` are the moments when some nodes were bought of those that the shown pods needed, and ``stuck``
    is for how many scans in a row, at most, they needed more than was allowed.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.made = 0
        self.most = 0
        self.joins_at_s: dict[str, float] = {}
        self.empty_since_s: dict[str, float] = {}
        self.partial: list[str] = []
        self.stuck = 0
        self._stuck_now = 0

    async def run(self) -> None:
        """Scan until cancelled."""
        while True:
            await asyncio.sleep(5)
            self.scan()

    def scan(self) -> None:
        """One round."""
        now_s = self.world.clock.monotonic_s()
        pods = self.world.objects(PODS)
        used = {one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName")}
        shown = [
            one["metadata"]["name"] for one in pods if not one["spec"].get("nodeName") and _is_shown(one)
        ]
        there = {one["metadata"]["name"] for one in self.world.objects(NODES)} - {"full"}
        self._join(now_s, there)
        free = (there | self.joins_at_s.keys()) - used
        self._take_back(now_s, sorted(free & there), spare=len(free) - len(shown))
        missing, allowed = len(shown) - len(free), LIMIT_NODES - len(there) - len(self.joins_at_s)
        if 0 < allowed < missing:
            self.partial.append(f"{now_s:.0f} s: {shown} with {sorted(free)} free, {allowed} may be bought")
        self._stuck_now = self._stuck_now + 1 if missing > max(0, allowed) else 0
        self.stuck = max(self.stuck, self._stuck_now)
        for _ in range(max(0, min(missing, allowed))):
            self.made += 1
            self.joins_at_s[f"bought-{self.made}"] = now_s + self.random.uniform(10, 100)
        self._count()

    def _join(self, now_s: float, there: set[str]) -> None:
        for name in [name for name, at_s in self.joins_at_s.items() if at_s <= now_s]:
            del self.joins_at_s[name]
            self.world.node(name, gpus=8, labels={"karpenter.sh/nodepool": "gpus"})
            there.add(name)

    def _take_back(self, now_s: float, free: list[str], *, spare: int) -> None:
        self.empty_since_s = {name: self.empty_since_s.get(name, now_s) for name in free}
        for name in free[: max(0, spare)]:
            if now_s - self.empty_since_s[name] >= EMPTY_S:
                assert self.world.request("DELETE", f"{NODES}/{name}") == 200
                self.world.request("DELETE", f"/apis/gpufleet.io/v1alpha1/nodedevices/{name}")

    def _count(self) -> None:
        nodes = len(self.world.objects(NODES)) - 1 + len(self.joins_at_s)
        self.most = max(self.most, nodes)
        buys(self.world, {GPU: str(8 * nodes)})


def _is_shown(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


@pytest.mark.parametrize("seed", [0, 3])
def test_no_part_of_a_gang_is_bought_and_every_gang_runs(seed: int) -> None:
    async def story(world: World) -> None:
        random = Random(seed)
        world.add(pool(limits={GPU: str(8 * LIMIT_NODES)}))
        world.node("full", gpus=1)
        buyer = Buyer(world, random)
        world.also(buyer.run())
        ended: set[str] = set()

        async def life(name: str, members: int, run_s: float) -> None:
            names = gang(world, name, members)
            while not all(map(world.node_of, names)):  # noqa: ASYNC110
                await asyncio.sleep(7)
            await asyncio.sleep(run_s)
            for one in names:
                world.delete(one)
            ended.add(name)

        for number in range(GANGS):
            world.also(life(f"g{number}", random.randint(1, 4), random.uniform(50, 300)))
            await world.settle(random.uniform(1, 90))
        for _ in range(100):
            if len(ended) == GANGS:
                break
            await world.settle(60)
        assert buyer.partial == []
        # Gangs whose nodes were taken are gone through as soon as the Bindings are made.
        assert buyer.stuck <= 1
        assert len(ended) == GANGS
        assert buyer.most <= LIMIT_NODES

    in_world(story, seed=seed + 1)
