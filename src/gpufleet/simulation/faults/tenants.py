"""Tenants that say one thing to get in and another once they run."""

import asyncio

from gpufleet.simulation import pod_facts
from gpufleet.simulation.actors import SimulatedWorkload
from gpufleet.simulation.cluster_recipe import NAMESPACE, USER, pod
from gpufleet.simulation.faults.interference import Fault
from gpufleet.simulation.history import PODS
from gpufleet.simulation.pod_facts import GANG, GANG_MIN, QUEUE
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.world import World

NARROW = "narrow"
NARROW_GPUS = 2
NARROW_PODS = 6
"""The queue has pods that wait for its quota as long as others of it run: leaving it would free some."""

PAUSE_S = (0.5, 3.0)
WORDS: tuple[tuple[str, str, tuple[str | None, ...]], ...] = (
    ("labels", QUEUE, ("nowhere", "team-0", "team-1", None)),
    ("annotations", "gpufleet.io/run-time", ("1s", "10h", None)),
    ("annotations", "gpufleet.io/interruptible", ("true", "false", "perhaps", None)),
    ("annotations", "gpufleet.io/checkpointed-at", ("2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z", None)),
    ("annotations", "gpufleet.io/gang-stale-after", ("-1", "5m", None)),
    ("annotations", GANG, ("another", None)),
    ("annotations", GANG_MIN, ("1", "50", None)),
)
"""What a tenant may write on its running pods: where, which key, and the words to choose from."""


class LyingTenant(Fault):
    """Running pods are given other queues, gangs, run times and promises than those they were bound with."""

    name = "lying-tenant"

    async def prepare(self, world: World) -> None:
        """A queue that may hold two GPUs, and pods of it that want more."""
        quota = {"resource": "gpu", "nominal": 0, "hardLimit": NARROW_GPUS}
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
        spec = {"parent": "fleet", "quotas": [quota]}
        world.server.add({**kind, "metadata": {"name": NARROW}, "spec": spec})
        for number in range(NARROW_PODS):
            template = pod(f"narrow-{number}", 1, world.plan.recipe)
            template["metadata"]["labels"] = {QUEUE: NARROW}
            world.actors.add_workload(SimulatedWorkload(f"narrow-{number}", template, 1))

    async def drive(self, world: World) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(*PAUSE_S))
            running = [one for _, one in sorted(world.server.store.all(PODS).items()) if _runs(one)]
            if running:
                self._lie(world, self.random.choice(running))

    def _lie(self, world: World, one: JsonObject) -> None:
        where, key, words = self.random.choice(WORDS)
        word = self.random.choice(words)
        namespace, name = one["metadata"]["namespace"], one["metadata"]["name"]
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        code = world.actors.ask(USER, "PATCH", path, {"metadata": {where: {key: word}}})
        if code == 200:
            self.acted += 1
            world.note(f"{namespace}/{name} says {key}: {word}")


def _runs(one: JsonObject) -> bool:
    placed = pod_facts.node_of(one) and one["metadata"]["namespace"] == NAMESPACE
    return bool(placed) and not pod_facts.is_over(one) and not pod_facts.is_leaving(one)
