"""Users of the cluster under test: work that comes and goes, by a seed, for as long as it is asked to.

Gangs and shares stand under a ReplicaSet, so that whatever is lost is made anew by a real controller; bare
pods stand for themselves and must never vanish by themselves.
"""

import asyncio
import contextlib
from random import Random
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import PODS, Kind
from gpufleet.kube.status import AlreadyExists, NotFound
from gpufleet.simulation import cluster_recipe
from gpufleet.simulation.cluster_recipe import NAMESPACE, Recipe
from gpufleet.simulation.refusal import JsonObject

REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
RECIPE = Recipe()
AGAIN_AFTER_S = 0.3


class Wanted(msgspec.Struct):
    """A ReplicaSet of ours, and the GPUs that it takes."""

    replicas: int
    gpus: float


class Traffic:
    """What users want, and their hands."""

    def __init__(self, client: Client, random: Random, gpus: int) -> None:
        self.client = client
        self.random = random
        self.gpus = gpus
        self.sets: dict[str, Wanted] = {}
        self.bare: dict[str, str] = {}
        """Bare pods by name, with their uids."""
        self.number = 0

    @property
    def load(self) -> float:
        """The part of all GPUs that is asked for."""
        return (sum(wanted.gpus for wanted in self.sets.values()) + len(self.bare)) / self.gpus

    async def run(self, enough: asyncio.Event) -> None:
        """Come and go until it is enough; no wish is left half said."""
        while not enough.is_set():
            await self.one()
            await asyncio.sleep(self.random.uniform(0.1, 0.4))

    async def one(self) -> None:
        """One wish."""
        if self.load > 0.8 or (self.load > 0.4 and self.random.random() < 0.4):
            await self.remove_something()
            return
        self.number += 1
        choice = self.random.random()
        if choice < 0.45:
            await self.gang(f"gang-{self.number}", self.random.randint(2, 5), self.random.randint(1, 2))
        elif choice < 0.75:
            template = cluster_recipe.pod(f"set-{self.number}", self.random.choice((0.25, 0.5, 1.0)), RECIPE)
            await self.replica_set(f"set-{self.number}", self.random.randint(1, 3), template, gpus=1)
        else:
            await self.pod(cluster_recipe.pod(f"bare-{self.number}", 1, RECIPE))

    async def gang(self, name: str, members: int, gpus: int) -> None:
        """A gang that needs all its members, under a ReplicaSet."""
        template = cluster_recipe.gang_template(name, members, gpus, RECIPE)
        await self.replica_set(name, members, template, gpus)

    async def replica_set(self, name: str, replicas: int, template: JsonObject, gpus: float) -> None:
        """Pods that a controller keeps at a number."""
        self.sets[name] = Wanted(replicas, gpus * replicas)
        labels = {"app": name}
        metadata = {"labels": labels, "annotations": template["metadata"]["annotations"]}
        spec: dict[str, Any] = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": template["spec"]},
        }
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}
        await self._create(REPLICA_SETS, name, body)

    async def pod(self, body: JsonObject) -> None:
        """A bare pod."""
        name = body["metadata"]["name"]
        await self._create(PODS, name, body)
        made = msgspec.json.decode(await self.client.get(PODS, name, namespace=NAMESPACE))
        self.bare[name] = made["metadata"]["uid"]

    async def remove_something(self) -> None:
        """Somebody has enough of something."""
        names = [*self.sets, *self.bare]
        if names:
            await self.remove(self.random.choice(names))

    async def remove(self, name: str) -> None:
        """Delete a ReplicaSet or a bare pod, whichever has this name."""
        kind = REPLICA_SETS if name in self.sets else PODS
        self.sets.pop(name, None)
        self.bare.pop(name, None)
        await self._delete(kind, name)

    async def remove_all(self) -> None:
        """Leave the cluster empty."""
        for name in [*self.sets, *self.bare]:
            await self.remove(name)

    async def _create(self, kind: Kind, name: str, body: JsonObject) -> None:
        while True:
            try:
                await self.client.create(kind, body, name=name, namespace=NAMESPACE)
            except AlreadyExists:
                return
            except KubeError:
                # The server is away; an unknown outcome shows itself at the next try.
                await asyncio.sleep(AGAIN_AFTER_S)
                continue
            return

    async def _delete(self, kind: Kind, name: str) -> None:
        while True:
            with contextlib.suppress(NotFound):
                try:
                    await self.client.delete(kind, name, namespace=NAMESPACE, propagation="Background")
                except NotFound:
                    return
                except KubeError:
                    await asyncio.sleep(AGAIN_AFTER_S)
                    continue
            return

    def complaints(self, pods: dict[tuple[str, str], JsonObject]) -> list[str]:
        """What users would miss: pods that nobody replaced, bare pods that are gone."""
        found = []
        living: dict[str, int] = {}
        for pod in pods.values():
            if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in {
                "Failed",
                "Succeeded",
            }:
                continue
            for owner in pod["metadata"].get("ownerReferences", ()):
                living[owner["name"]] = living.get(owner["name"], 0) + 1
        for name, wanted in self.sets.items():
            if living.get(name, 0) != wanted.replicas:
                found.append(f"{name} has {living.get(name, 0)} of {wanted.replicas} pods")
        uids = {pod["metadata"]["uid"] for pod in pods.values()}
        found += [f"the bare pod {name} is gone" for name, uid in self.bare.items() if uid not in uids]
        return found
