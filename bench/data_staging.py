"""What it brings that data is copied to a node while a place there is kept: gangs in virtual time.

The real scheduler and the real stagers of the nodes' agents run against a simulated API server. Small work
with known run times fills the nodes, and gangs of whole nodes come that read one of ``MODELS``. A copy takes
its bytes at the rate by which the engine counts. What a pod finds incomplete it copies itself, and its GPUs
idle for so long. The same work is played twice: with stagers, and with nodes that stage nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from bench.figures import Figure, figure, publish
from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.data_folders import FoundData
from gpufleet.agent.data.node_data_writer import NodeDataWriter
from gpufleet.agent.data.stager import Stager
from gpufleet.agent.data.staging_cache import Lacking
from gpufleet.agent.data.staging_errors import CopyStoppedError
from gpufleet.agent.data.wishes import Wishes
from gpufleet.cluster.settings import LeaseTimes, Settings
from gpufleet.engine.state.data_copies import COPY_BYTES_PER_S
from gpufleet.kube.client import Client
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.kube.transport import Request
from gpufleet.model.data import DataAsk
from gpufleet.scheduler.service import run as run_scheduler
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import Delays, SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

GB = 10**9
NODES, GPUS, MODELS, GANGS = 8, 8, 12, 12
SIZES_GB = (15, 141, 812)
"""Weights in BF16 of 8, 70 and 405 billion parameters."""

GANG_EVERY_S, LOOK_EVERY_S = 900.0, 5.0
GANG_RUNS_S = 1200
SMALL_EVERY_S = 90.0
SMALL_RUN_S = (600, 1200, 1800)
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""One run is a minute of a quiet processor, and is played twice."""
COMPLETE_PCT, SAVED_PCT = 80.0, 50.0
"""Limits: reserved gangs that start with their data complete, GPU time in loading saved."""

ADMIN = "system:masters"
PODS = "/api/v1/namespaces/default/pods"

Object = dict[str, Any]


class Outcome(msgspec.Struct):
    """What came of one run: gangs that held a reservation, those whose data was there, and GPU time lost."""

    reserved: int = 0
    complete: int = 0
    started: int = 0
    loading_gpu_s: float = 0.0
    by_size_gb: dict[int, list[bool]] = {}
    """Of reserved gangs, by the size of what they read: whether all of it was there."""


class NodeDisk:
    """The models of a node, as bytes that are there; what a stager asks of it takes its time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.there: dict[str, int] = {}

    def missing_bytes(self, model: str) -> int:
        """What a pod would have to copy."""
        return size_of(model) - self.there.get(model, 0)

    async def found(self) -> FoundData:
        """What NodeData tells."""
        return FoundData(tuple(entry_of(name, size) for name, size in self.there.items()))

    async def lacking(self, asks: Sequence[DataAsk]) -> Lacking:
        """What the store has and the node has not whole."""
        names = [ask.name.removeprefix("model/") for ask in asks]
        return Lacking(tuple(entry_of(name, size_of(name)) for name in names if self.missing_bytes(name)))

    async def note_named(self, asks: Sequence[DataAsk], anew: frozenset[DataAsk]) -> None:
        """Nothing leaves here."""

    async def make_room(self, wanted: DataEntry, asks: Sequence[DataAsk] | None) -> list[DataEntry]:  # noqa: ARG002
        """There is room for all models."""
        return []

    async def tidy(self, wanted: Sequence[DataEntry]) -> None:
        """What broke off stays."""

    async def copy(self, wanted: DataEntry, still_wanted: Callable[[], bool]) -> int:
        """A second's worth of bytes a second. Raises CopyStoppedError."""
        while self.missing_bytes(wanted.name):
            if not still_wanted():
                raise CopyStoppedError("the copy is not wanted any more")
            await self.clock.sleep(1.0)
            there = self.there.get(wanted.name, 0) + COPY_BYTES_PER_S
            self.there[wanted.name] = min(there, size_of(wanted.name))
        return wanted.size_bytes


def size_of(model: str) -> int:
    """The bytes of a model, by its number."""
    return SIZES_GB[int(model.rpartition("-")[2]) % len(SIZES_GB)] * GB


def entry_of(model: str, size_bytes: int) -> DataEntry:
    """What is there of a model."""
    return DataEntry("model", model, size_bytes, size_bytes == size_of(model), "/store")


class Fleet:
    """Nodes, their disks, their kubelets, and the work that comes."""

    def __init__(self, loop: VirtualLoop, seed: int, *, stages: bool) -> None:
        self.clock, self.random = VirtualClock(loop), Random(seed)
        self.server = ApiServer(self.clock, Random(seed + 1))
        self.stages = stages
        self.outcome = Outcome()
        self.disks = {f"n{number}": NodeDisk(self.clock) for number in range(NODES)}
        self.reserved: set[str] = set()
        self.begun: dict[str, int] = {}
        self._seen: set[str] = set()
        self._gangs: dict[str, int] = {}
        self._sizes_gb: dict[str, int] = {}

    async def play(self) -> Outcome:
        """Everything, until all gangs have started or a day is over."""
        system = {"metadata": {"name": "gpufleet-system"}}
        self.server.add({"apiVersion": "v1", "kind": "Namespace", **system})
        queue = {"metadata": {"name": "team"}, "spec": {"reserveAfter": "0s"}}
        self.server.add({"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", **queue})
        for name in self.disks:
            self._node(name)
        settings = Settings(identity="bench", lease=LeaseTimes(15, 10.0, 2.0))
        parts: list[Coroutine[Any, Any, None]] = [
            run_scheduler(self._way(SCHEDULER_USER), self.clock, Random(1), settings)
        ]
        for name, disk in self.disks.items():
            parts += self._agent(name, disk)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in (*parts, self._small_work(), self._gang_work())]
            for _ in range(int(86_400 / LOOK_EVERY_S)):
                await self.clock.sleep(LOOK_EVERY_S)
                self._look(group)
                if self.outcome.started == GANGS:
                    break
            for task in tasks:
                task.cancel()
        return self.outcome

    def _way(self, user: str) -> SimulatedTransport:
        return SimulatedTransport(self.server, user, self.random, Delays(rare_one_in=0))

    def _agent(self, name: str, disk: NodeDisk) -> list[Coroutine[Any, Any, None]]:
        client = Client(self._way(ADMIN), self.clock, Random(self.random.random()))
        writer = NodeDataWriter(client, name, disk.found, stages=self.stages)
        if not self.stages:
            return [writer.run()]
        wishes = Wishes(client, name)
        stager = Stager(wishes, client.clock, disk, writer.report_now, CopyRate())
        return [writer.run(), wishes.run(), stager.run()]

    def _node(self, name: str) -> None:
        amounts = {"cpu": "640", "memory": "5Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        node = {"metadata": metadata, "status": {"allocatable": amounts}}
        self.server.add({"apiVersion": "v1", "kind": "Node", **node})
        listed = [
            {
                "id": f"GPU-{name}-{index}",
                "vendor": "nvidia",
                "model": "NVIDIA-H100-80GB-HBM3",
                "memoryMiB": 81559,
                "usableMemoryMiB": 80000,
                "sharing": "whole",
                "health": "healthy",
            }
            for index in range(GPUS)
        ]
        report = {"metadata": {"name": name}, "spec": {"devices": listed}}
        self.server.add({"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices", **report})

    def _pod(self, name: str, gpus: int, run_s: int, **annotations: str) -> None:
        limits = {"nvidia.com/gpu": str(gpus)}
        container = {"name": "main", "image": "x", "resources": {"limits": limits}}
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": {"gpufleet.io/queue": "team"},
            "annotations": {"gpufleet.io/run-time": f"{run_s}s", **annotations},
        }
        spec = {"schedulerName": "gpufleet", "containers": [container]}
        self.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def _small_work(self) -> None:
        """Enough that all nodes are busy, with pods of a few GPUs."""
        for number in range(10**6):
            self._pod(f"small-{number}", self.random.choice((1, 2, 4)), self.random.choice(SMALL_RUN_S))
            await self.clock.sleep(self.random.expovariate(1 / SMALL_EVERY_S))

    async def _gang_work(self) -> None:
        for number in range(GANGS):
            await self.clock.sleep(GANG_EVERY_S)
            members, model = self.random.choice((2, 3)), self.random.randrange(MODELS)
            self._gangs[f"gang-{number}"] = members
            self._sizes_gb[f"gang-{number}"] = size_of(f"bench-{model}") // GB
            for member in range(members):
                words = {
                    "gpufleet.io/gang": f"gang-{number}",
                    "gpufleet.io/gang-min-members": str(members),
                    "gpufleet.io/data": f"model/bench-{model}",
                    "gpufleet.io/data-size": str(size_of(f"bench-{model}")),
                }
                self._pod(f"gang-{number}-{member}", GPUS, GANG_RUNS_S, **words)

    def _look(self, group: asyncio.TaskGroup) -> None:
        """As the kubelets and an onlooker: what was bound begins, and what is reserved is noted."""
        answer = self.server.answer(Request("GET", PODS), ADMIN)
        for pod in msgspec.json.decode(answer.body)["items"]:
            name = pod["metadata"]["name"]
            conditions = pod["status"].get("conditions", [])
            if any("holds a reservation" in one.get("message", "") for one in conditions):
                self.reserved.add(name.rpartition("-")[0])
            if pod["spec"].get("nodeName") and name not in self._seen:
                self._seen.add(name)
                group.create_task(self._runs(name, pod))

    async def _runs(self, name: str, pod: Object) -> None:
        """Copies what the pod lacks, runs it, and ends it."""
        words, loading_s = pod["metadata"]["annotations"], 0.0
        model = words.get("gpufleet.io/data", "").removeprefix("model/")
        if model:
            disk = self.disks[pod["spec"]["nodeName"]]
            missing = disk.missing_bytes(model)
            self._count(name.rpartition("-")[0], missing)
            loading_s = missing / COPY_BYTES_PER_S
            await self.clock.sleep(loading_s)
            disk.there[model] = size_of(model)
        self._say(name, "Running")
        # Work says how long it runs with the time in which it loads.
        await self.clock.sleep(float(words["gpufleet.io/run-time"].removesuffix("s")) - loading_s)
        self._say(name, "Succeeded")
        self.server.answer(Request("DELETE", f"{PODS}/{name}", b'{"gracePeriodSeconds": 0}'), ADMIN)

    def _count(self, gang: str, missing: int) -> None:
        """A member of a gang has begun; the gang has its data if every member found it."""
        self.outcome.loading_gpu_s += missing / COPY_BYTES_PER_S * GPUS
        members, most = self.begun.get(f"{gang} members", 0) + 1, max(self.begun.get(gang, 0), missing)
        self.begun[gang], self.begun[f"{gang} members"] = most, members
        if members == self._gangs[gang]:
            self.outcome.started += 1
            self.outcome.reserved += gang in self.reserved
            self.outcome.complete += gang in self.reserved and most == 0
            if gang in self.reserved:
                self.outcome.by_size_gb.setdefault(self._sizes_gb[gang], []).append(most == 0)

    def _say(self, name: str, phase: str) -> None:
        body = msgspec.json.encode({"status": {"phase": phase}})
        request = Request("PATCH", f"{PODS}/{name}/status", body, content_type="application/merge-patch+json")
        self.server.answer(request, ADMIN)


def played(seed: int, *, stages: bool) -> Outcome:
    """One run."""
    found: list[Outcome] = []

    async def work(loop: VirtualLoop) -> None:
        found.append(await Fleet(loop, seed, stages=stages).play())

    run(work, seed)
    return found[0]


def figures() -> Iterator[Figure]:
    """Gangs that hold a reservation, with their data staged and without."""
    staged = [played(seed, stages=True) for seed in SEEDS]
    unstaged = [played(seed, stages=False) for seed in SEEDS]
    reserved, complete = sum(one.reserved for one in staged), sum(one.complete for one in staged)
    title = f"reserved gangs that start with their data complete ({complete} of {reserved})"
    yield figure(title, 100 * complete / reserved, "%", "higher", COMPLETE_PCT)
    for size_gb in SIZES_GB:
        found_whole = [whole for one in staged for whole in one.by_size_gb.get(size_gb, ())]
        title = f"the same of {size_gb} GB ({sum(found_whole)} of {len(found_whole)})"
        yield figure(title, 100 * sum(found_whole) / max(1, len(found_whole)), "%", "higher")
    found = sum(one.complete for one in unstaged) / sum(one.reserved for one in unstaged)
    yield figure("the same without staging", 100 * found, "%", "higher")
    saved = 1 - sum(one.loading_gpu_s for one in staged) / sum(one.loading_gpu_s for one in unstaged)
    yield figure("GPU time in loading that staging saves", 100 * saved, "%", "higher", SAVED_PCT)


if __name__ == "__main__":
    publish("data_staging", list(figures()))
