"""A node on which shares are given, with a kubelet, an API server and a container runtime that can fail.

The kubelet is as its device manager works: it allocates while it admits a pod, container by container,
init containers lending their slots to those after them; it keeps what it was answered in memory and in a
record; it asks again before each start. The runtime starts a container only with the CDI file that was
named for it, and then the container prints what it sees.
"""

import itertools
import json
import shutil
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin.cdi import CdiEdits, CdiNode
from gpufleet.agent.device_plugin.open_call_record import OpenCallRecord
from gpufleet.agent.device_plugin.share_allocator import ShareAllocator, ShareInputs
from gpufleet.agent.device_plugin.share_files import ShareFiles
from gpufleet.agent.holders.holder_memory import HolderMemory, SeenHolder
from gpufleet.agent.holders.holder_record import HolderRecord
from gpufleet.agent.kubelet.kubelet_checkpoint import FILE, CheckpointEntry
from gpufleet.agent.reports.node_report import node_report
from gpufleet.agent.state.node_state import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.state_errors import KubeletError, RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.objects.node_devices import Holder
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice
from tests.agent.kubelet_record import record_bytes
from tests.agent.node_values import BOOT, FRACTIONS, SHARE, a_gpu, a_node
from tests.agent.set_clock import SetClock

SLOTS = 40
Place = tuple[str, str]
"""A pod's UID and a container's name."""


class Allocation(msgspec.Struct, frozen=True):
    """What the kubelet remembers of one container."""

    slots: frozenset[str]
    name: str


class SharedNode:
    """The node; everything that may fail is an attribute."""

    def __init__(self, folder: Path, *gpus: Gpu) -> None:
        self.folder = folder
        self.cdi = folder / "cdi"
        self.record = folder / "kubelet"
        self.record.mkdir()
        self.numbers = itertools.count()
        self.gpus: Topic[NodeGpus] = Topic(
            a_node(*(gpus or (a_gpu("GPU-0", FRACTIONS), a_gpu("GPU-1", FRACTIONS))))
        )
        self.api: NodePods = {}
        self.names: dict[str, str] = {}
        self.ended: set[str] = set()
        self.copy: Topic[NodePods] = Topic({})
        self.holders: Topic[Holders] = Topic(())
        self.allocations: dict[Place, Allocation] = {}
        self.running: dict[Place, dict[str, str]] = {}
        self.slots: dict[Place, frozenset[str]] = {}
        self.api_down = self.kubelet_silent = self.record_stuck = False
        self.report: tuple[Holder, ...] = ()
        self.reads = 0
        self.now_s = 0.0
        self.allocator = self.new_process()

    def new_process(self) -> ShareAllocator:
        """The agent starts anew, with what is on the disk."""
        world = ShareInputs(
            gpus=self.gpus,
            pods=self.copy,
            holders=self.holders,
            ask_pods=self._ask_pods,
            ask_holders=self._ask_holders,
            edits=lambda gpu: CdiEdits(
                ("NVIDIA_VISIBLE_DEVICES=void",), tuple(CdiNode(path) for path in gpu.facts.device_nodes)
            ),
            look=self._look,
            new_name=lambda: f"{next(self.numbers):032x}",
            memory=HolderMemory(SetClock(self), HolderRecord(self.folder / "state", BOOT)),
            whole=lambda: self.sure,
        )
        self.sure = not self.report
        self.memory = world.memory
        self.memory.report_said(self.report)
        self.allocator = ShareAllocator(world, ShareFiles(self.cdi), self.checkpoint(), self.record)
        return self.allocator

    def lose_folder(self) -> None:
        """What the agent wrote is gone; what it reported is read when it starts."""
        self.report = node_report(self.gpus.value, self.joined(), self.api).holders
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        (self.folder / "checkpoint.json").unlink(missing_ok=True)

    def checkpoint(self) -> OpenCallRecord:
        """The agent's file."""
        return OpenCallRecord(self.folder / "checkpoint.json", BOOT)

    def bind(self, name: str, epoch: int = 1, **containers: tuple[GrantedDevice, ...]) -> str:
        """The scheduler places a pod; containers named init_* end before the others start. Its UID."""
        uid = f"uid-{name}-{next(self.numbers)}"
        parts = tuple(ContainerGrant(container, its) for container, its in containers.items())
        requests = {container: {SHARE: len(its)} for container, its in containers.items()}
        lenders = frozenset(container for container in containers if container.startswith("init"))
        self.api[uid] = NodePod(uid, "team", name, requests, Grant(epoch, parts), lenders=lenders)
        self.names[uid] = name
        return uid

    def add(self, pod: NodePod) -> None:
        """A pod that another scheduler placed."""
        self.api[pod.uid] = pod
        self.names[pod.uid] = pod.name

    def sync(self) -> None:
        """The agent's copies are what is so."""
        self.copy.publish(dict(self.api))
        self.holders.publish(self.joined())

    def joined(self) -> Holders:
        """What the kubelet lists, and what the agent remembers."""
        self.sure = True
        return self.memory.joined(self._held(), SeenHolder(self.gpus.value, self.api, ended=self.ended))

    def tell(self, uid: str) -> None:
        """The API server learns which containers of a pod started and run."""
        running = frozenset(container for owner, container in self.running if owner == uid)
        pod = self.api[uid]
        self.api[uid] = msgspec.structs.replace(pod, running=running, started=pod.started | running)

    async def kubelet_forgets(self) -> None:
        """It is restarted without its record, and admits anew the pods of which nothing runs."""
        admitted = dict.fromkeys(uid for uid, _ in self.allocations)
        self.allocations.clear()
        self.write_record()
        for uid in admitted:
            if uid not in self.ended and not any(owner == uid for owner, _ in self.running):
                await self.admit(uid)

    async def admit(self, uid: str, *, answer_lost: bool = False) -> bool:
        """The kubelet allocates for all containers of a pod; one that it cannot serve fails."""
        self._collect()
        lent: frozenset[str] = frozenset()
        for container, wanted in self.api[uid].requests.items():
            try:
                slots = await self._slots(wanted[SHARE], lent)
                given = await self.allocator.allocate(sorted(slots))
            except RefusedError:
                self.finish(uid)
                return False
            if answer_lost:
                self.finish(uid)
                return False
            self.slots[uid, container] = slots
            name = given.cdi_devices[0].removeprefix("gpufleet.io/share=")
            self.allocations[uid, container] = Allocation(slots, name)
            lent = lent | slots if container.startswith("init") else lent - slots
            self.write_record()
        return True

    async def prepare(self, uid: str, container: str = "main") -> None:
        """The kubelet is about to start a container. Raises RefusedError."""
        await self.allocator.prepare(sorted(self.allocations[uid, container].slots))

    def run(self, uid: str, container: str = "main") -> dict[str, str]:
        """The runtime starts it; what it prints. Raises FileNotFoundError where it cannot."""
        name = self.allocations[uid, container].name
        file = json.loads((self.cdi / f"gpufleet.io-share-{name}.json").read_text(encoding="utf-8"))
        device = file["devices"][0]
        assert (file["kind"], device["name"]) == ("gpufleet.io/share", name)
        edits = device["containerEdits"]
        printed = dict(line.split("=", 1) for line in edits["env"])
        printed["nodes"] = ",".join(node["path"] for node in edits["deviceNodes"])
        self.running[uid, container] = printed
        return printed

    async def start(self, uid: str, container: str = "main") -> dict[str, str]:
        """Both, as the kubelet does it."""
        await self.prepare(uid, container)
        return self.run(uid, container)

    def finish(self, uid: str) -> None:
        """All containers of a pod ended, and the kubelet says so."""
        self.api[uid] = msgspec.structs.replace(self.api[uid], finished=True)
        self.ended.add(uid)
        for place in [place for place in self.running if place[0] == uid]:
            del self.running[place]

    def remove(self, uid: str) -> None:
        """A pod is gone from the API server; the kubelet ended it before."""
        self.finish(uid)
        del self.api[uid]

    def write_record(self) -> None:
        """The kubelet writes down what it gave, unless an older version lands last."""
        if self.record_stuck:
            return
        entries = [
            CheckpointEntry(uid, container, SHARE, one.slots, (f"gpufleet.io/share={one.name}",))
            for (uid, container), one in self.allocations.items()
        ]
        (self.record / FILE).write_bytes(record_bytes(*entries))

    def _look(self) -> None:
        self.reads += 1

    def _collect(self) -> None:
        """Before it allocates, the kubelet forgets pods that ended."""
        self.allocations = {
            place: one for place, one in self.allocations.items() if place[0] not in self.ended
        }

    async def _slots(self, count: int, lent: frozenset[str]) -> frozenset[str]:
        taken = {slot for one in self.allocations.values() for slot in one.slots}
        free = (f"share-{number}" for number in range(SLOTS))
        required = sorted(lent)[:count]
        available = [*required, *(slot for slot in free if slot not in taken)]
        return frozenset(await self.allocator.prefer(available, required, count))

    def _held(self) -> Holders:
        """As the pod resources API tells it: no init containers."""
        return tuple(
            Held("team", self.names[uid], container, SHARE, tuple(sorted(one.slots)), uid)
            for (uid, container), one in sorted(self.allocations.items())
            if uid not in self.ended and not container.startswith("init")
        )

    async def _ask_pods(self) -> NodePods:
        if self.api_down:
            raise TransportError("connection refused", reached=False)
        return dict(self.api)

    async def _ask_holders(self) -> Holders:
        if self.kubelet_silent:
            raise KubeletError("connection refused")
        return self.joined()
