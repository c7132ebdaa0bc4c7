"""What surrounds a preparer: claims in an API server, cards, a disk that may fail at a step."""

import asyncio
import errno
import os
import random
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.agent.device_plugin.cdi import CdiEdits, CdiMount, CdiNode
from gpufleet.agent.dra.card_cutter import CardCutter
from gpufleet.agent.dra.claim_files import ClaimFiles
from gpufleet.agent.dra.claim_preparer import ClaimName, ClaimPreparer, ClaimWorld
from gpufleet.agent.dra.device_pools import device_pools, pool_name
from gpufleet.agent.dra.prepared_claims import ClaimRecord, Prepared, PreparedClaim
from gpufleet.agent.dra.slice_publisher import Pools
from gpufleet.agent.kubelet.pod_resources import ClaimUse
from gpufleet.agent.state.disk import MachineDisk
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.transport import Request, Response, ResponseStream
from gpufleet.mig.step_times import StepTimes
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from tests.agent.node_values import NODE, a_node

NVIDIA = "gpu.nvidia.com"
POOL = pool_name(NODE, NVIDIA)


class ClaimServer:
    """An API server that knows single claims; ``asked`` counts the requests."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.asked = 0

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The claim, or 404."""
        del timeout_s
        self.asked += 1
        name = request.target.rpartition("/")[2]
        if request.method == "GET" and name in self.claims:
            return Response(200, {}, msgspec.json.encode(self.claims[name]))
        status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"no {name}"}
        return Response(404, {}, msgspec.json.encode(status))

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch: what is tested here opens none, so one that is opened fails the test."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class LaterClock(MachineClock):
    """The machine's clock, later by a time that a test sets."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        """As Clock."""
        return super().monotonic_s() + self.later_s


class FailingDisk(MachineDisk):
    """A disk on which the step of this number fails, once."""

    def __init__(self) -> None:
        self.steps_left = -1
        self.failed = False
        self._for_good: int | None = None

    def fails_from(self, step: int, problem: int) -> None:
        """From the step of this number on it fails with an error of the system; with 0 it is well again."""
        self.steps_left, self.failed = step or -1, False
        self._for_good = problem if step else None

    def _step(self) -> None:
        self.steps_left -= 1
        if self.steps_left == 0 or (self.failed and self._for_good is not None):
            self.failed = True
            code = self._for_good or errno.ENOSPC
            raise OSError(code, os.strerror(code))

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk, if it does not fail."""
        self._step()
        super().write(path, data, mode)

    def move(self, source: Path, target: Path) -> None:
        """As Disk, if it does not fail."""
        self._step()
        super().move(source, target)

    def remove(self, path: Path) -> None:
        """As Disk, if it does not fail."""
        self._step()
        super().remove(path)


class LoopTopic(Topic[Mapping[tuple[str, str], PreparedClaim]]):
    """Prepared claims, which are told on the thread that made this: its events are of one loop."""

    def __init__(self, first: Mapping[tuple[str, str], PreparedClaim]) -> None:
        super().__init__(first)
        self._thread = threading.get_ident()

    def publish(self, value: Mapping[tuple[str, str], PreparedClaim]) -> None:
        """As Topic."""
        assert threading.get_ident() == self._thread
        super().publish(value)


class NothingIsCut:
    """Cuts no card, and fails the test that asks for it."""

    async def make(self, card: DeviceId, place: MigInstance | None) -> StepTimes:
        """As CardCutter."""
        raise NotImplementedError

    async def remove(self, card: DeviceId, place: MigInstance | None) -> None:
        """As CardCutter."""
        raise NotImplementedError

    async def tidy(self, card: DeviceId) -> None:
        """As CardCutter."""
        raise NotImplementedError


class World:
    """A node with cards, whose preparer may be made anew as after a restart."""

    def __init__(self, folder: Path, *cards: Gpu, boot_id: str = "boot-1") -> None:
        self.folder = folder
        self.clock = LaterClock()
        self.server = ClaimServer()
        self.disk = FailingDisk()
        self.gpus: Topic[NodeGpus] = Topic(a_node(*cards, boot_id=boot_id))
        self.pools: Topic[Pools] = Topic(device_pools(self.gpus.value, lambda _: True))
        self.held: Mapping[DeviceId, str] = {}
        self.libraries: tuple[CdiMount, ...] | None = ()
        self.in_use: Collection[ClaimUse] | None = ()
        self.told_made: list[tuple[str, str]] = []
        self.preparer = self.started(boot_id)

    def started(self, boot_id: str = "boot-1", *, loaded: bool = True) -> ClaimPreparer:
        """Another process of the agent; one that is not ``loaded`` reads the records once it runs."""
        self.client = Client(self.server, self.clock, random.Random(1))
        prepared = LoopTopic({})
        world = ClaimWorld(
            *(NODE, boot_id, self.gpus, self.pools, prepared),
            *(self._edits, lambda: self.held, self.cutter(prepared)),
            *(self._tell_made, self._asked_in_use),
        )
        record = ClaimRecord(self.folder / "claims", self.disk)
        self.preparer = ClaimPreparer(self.client, world, record, ClaimFiles(self.folder / "cdi", self.disk))
        if loaded:
            self.preparer.take(record.load())
            asyncio.run(self.preparer.find_lost())
        return self.preparer

    async def _asked_in_use(self) -> Collection[ClaimUse]:
        """What the kubelet says that pods have of claims; it may not answer."""
        if self.in_use is None:
            raise KubeletError("the kubelet does not tell the holders of devices: UNAVAILABLE")
        return self.in_use

    def used(self, claim: ClaimName, *devices: str) -> None:
        """A pod runs with these devices of a claim."""
        uses = [ClaimUse(claim.namespace, claim.name, NVIDIA, POOL, device) for device in devices]
        self.in_use = (*(self.in_use or ()), *uses)

    async def _tell_made(self, claim: ClaimName, note: str) -> None:
        """What the pods of a claim are told of what was made for it."""
        self.told_made.append((claim.name, note))

    def cutter(self, prepared: Prepared) -> CardCutter:
        """What cuts cards: none, as none is cut here."""
        del prepared
        return NothingIsCut()

    def install(self, version: str) -> None:
        """The driver's files are of this version; they are being replaced with an empty one."""
        path = f"/usr/lib64/libcuda.so.{version}"
        self.libraries = (CdiMount(path, path, ("ro",)),) if version else None

    def _edits(self, gpu: Gpu, instance: str) -> CdiEdits | None:
        """A node of each card, one of each instance, named after it, and the driver's files."""
        if self.libraries is None:
            return None
        paths = [*gpu.facts.device_nodes, *([f"/dev/{instance}"] if instance else [])]
        return CdiEdits(device_nodes=tuple(CdiNode(path) for path in paths), mounts=self.libraries)

    def allocated(self, name: str, *devices: str, uid: str = "", **more: Any) -> ClaimName:
        """A claim that was given these devices; ``more`` are fields of the results, or the configurations."""
        uid = uid or f"uid-{name}"
        config = more.pop("config", [])
        results = [
            {"request": "gpu", "driver": NVIDIA, "pool": POOL, "device": device, **more} for device in devices
        ]
        self.server.claims[name] = {
            "metadata": {"name": name, "namespace": "team", "uid": uid},
            "spec": {},
            "status": {"allocation": {"devices": {"results": results, "config": config}}},
        }
        return ClaimName("team", uid, name)

    def prepare(self, claim: ClaimName) -> list[str]:
        """Prepare it; the devices that it has."""
        made = asyncio.run(self.preparer.prepare(NVIDIA, claim))
        return [one.device for one in made.devices]

    def unprepare(self, claim: ClaimName) -> None:
        """Take it back."""
        asyncio.run(self.preparer.unprepare(NVIDIA, claim.uid))

    def files(self) -> list[str]:
        """The CDI files of claims."""
        return sorted(path.name for path in (self.folder / "cdi").glob("*.json"))

    def mounts_of(self, claim: ClaimName) -> list[str]:
        """The driver's files that a container with the claim gets."""
        path = self.folder / "cdi" / f"gpufleet.io-claim-{claim.uid}-{NVIDIA}.json"
        spec = msgspec.json.decode(path.read_bytes())
        mounts = [one for device in spec["devices"] for one in device["containerEdits"].get("mounts", ())]
        return [str(one["hostPath"]) for one in mounts]

    def nodes_of(self, claim: ClaimName) -> list[str]:
        """The device nodes that a container with the claim gets, by its CDI file."""
        path = self.folder / "cdi" / f"gpufleet.io-claim-{claim.uid}-{NVIDIA}.json"
        spec = msgspec.json.decode(path.read_bytes())
        return [
            node["path"] for device in spec["devices"] for node in device["containerEdits"]["deviceNodes"]
        ]
