"""A node whose kubelet loses its memory, whose agent is started anew, and whose report is deleted.

The kubelet is as its device manager works: it allocates while it admits a pod, init containers lending their
units to those after them; it takes our preference or not; after a restart it admits anew what does not run
(what runs has its devices already); before it starts a container of which it knows no devices it asks again.
``using`` is what is true: which containers run, with which units.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpufleet.agent.device_plugin.delivery import BY_CDI, Delivery
from gpufleet.agent.device_plugin.whole_device_allocator import AllocatorInputs, WholeDeviceAllocator
from gpufleet.agent.holders.holder_memory import HolderMemory, SeenHolder
from gpufleet.agent.holders.holder_record import HolderRecord
from gpufleet.agent.reports.node_report import node_report
from gpufleet.agent.state.node_state import Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import node_units
from gpufleet.kube.objects.node_devices import Holder
from tests.agent.plugin_world import SIMULATED
from tests.agent.set_clock import SetClock

Place = tuple[str, str]
"""A pod's UID and a container's name."""

Units = frozenset[str]
Value = TypeVar("Value")
Choose = Callable[[list[str]], list[str]]
"""An order of what the kubelet may take where it does not follow our preference."""


class MemoryDisk:
    """Files in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[Path, bytes] = {}

    def read(self, path: Path) -> bytes:
        """As Disk."""
        if path not in self.files:
            raise FileNotFoundError
        return self.files[path]

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk."""
        assert mode
        self.files[path] = data

    def sync(self, path: Path) -> None:
        """As Disk."""

    def move(self, source: Path, target: Path) -> None:
        """As Disk."""
        self.files[target] = self.files.pop(source)

    def remove(self, path: Path) -> None:
        """As Disk."""
        self.files.pop(path, None)


class ForgetfulNode:
    """The node; ``api`` is what the API server knows, which learns of containers later (``tell``)."""

    def __init__(self, gpus: NodeGpus, resource: str, folder: Path) -> None:
        self.gpus = gpus
        self.resource = resource
        self.folder = folder
        self.disk = MemoryDisk()
        self.loop = asyncio.Runner()
        self.now_s = 100.0
        self.api: NodePods = {}
        self.listed: dict[Place, tuple[str, ...]] = {}
        self.using: dict[Place, Units] = {}
        self.ended: set[Place] = set()
        self.admitted: list[str] = []
        self.runs_until_s: dict[str, float] = {}
        self.report: tuple[Holder, ...] | None = None
        self.new_agent()

    def close(self) -> None:
        """No call is made any more."""
        self.loop.close()

    def new_agent(self) -> None:
        """The agent starts with what is on its disk, and reads its report."""
        self.memory = HolderMemory(SetClock(self), HolderRecord(self.folder, "boot-1", self.disk))
        self.memory.report_said(self.report or ())
        self.sure = False
        self.holders: Topic[Holders] = Topic(())
        known = AllocatorInputs(
            Topic(self.gpus),
            Topic(self.api),
            self.holders,
            self._ask_pods,
            self.look,
            self.memory,
            SetClock(self),
            whole=lambda: self.sure,
        )
        delivery = Delivery(SIMULATED, BY_CDI)
        self.allocator = WholeDeviceAllocator(self.resource, known, delivery, node_units(self.gpus))

    async def look(self) -> Holders:
        """The agent asks the kubelet."""
        listed = tuple(
            Held("team", self.api[uid].name, container, self.resource, units, uid)
            for (uid, container), units in sorted(self.listed.items())
            if uid in self.api and not self.api[uid].finished
        )
        found = self.memory.joined(listed, SeenHolder(self.gpus, self.api))
        await self.memory.keep()
        self.sure = True
        self.holders.publish(found)
        return found

    def reads(self) -> None:
        """The agent asks the kubelet and reports."""
        found = self.wait(self.look())
        self.report = node_report(self.gpus, found, self.api).holders

    def wait(self, call: Coroutine[Any, Any, Value]) -> Value:
        """The answer of a call."""
        return self.loop.run(call)

    def bind(self, pod: NodePod) -> None:
        """A scheduler places a pod."""
        self.api = self.api | {pod.uid: pod}

    def alive(self, uid: str) -> bool:
        """Whether a pod is there and not finished."""
        return uid in self.api and not self.api[uid].finished

    def finish(self, uid: str) -> None:
        """All of its containers ended, the API server knows, and the kubelet takes back what it held."""
        self._change(uid, finished=True, running=frozenset())
        for place in [place for place in self.using if place[0] == uid]:
            del self.using[place]
        for place in [place for place in self.listed if place[0] == uid]:
            del self.listed[place]

    def delete_by_force(self, uid: str) -> None:
        """A pod goes from the API and from the kubelet's memory at once; its containers take their grace."""
        self.runs_until_s[uid] = self.now_s + self.api[uid].grace_s
        self.api = {other: pod for other, pod in self.api.items() if other != uid}
        self.listed = {place: units for place, units in self.listed.items() if place[0] != uid}

    def wait_for(self, seconds: float) -> None:
        """Time passes, and containers of pods that went are over when their grace is."""
        self.now_s += seconds
        over = {uid for uid, end_s in self.runs_until_s.items() if end_s <= self.now_s}
        self.using = {place: units for place, units in self.using.items() if place[0] not in over}

    def tell(self, uid: str) -> None:
        """The API server learns which containers started and run."""
        running = frozenset(container for owner, container in self.using if owner == uid)
        ended = {container for owner, container in self.ended if owner == uid}
        self._change(uid, running=running, started=self.api[uid].started | running | ended)

    def admit(self, uid: str, choose: Choose | None = None, *, lost: bool = False) -> bool:
        """The kubelet allocates for each container that does not run; a pod that it cannot serve fails.

        With ``lost`` the kubelet dies before it takes note of the last answer.
        """
        lent: list[str] = []
        containers = list(self.api[uid].requests)
        for container in containers:
            if (uid, container) not in self.using and (uid, container) not in self.listed:
                try:
                    units = self._allocated(uid, container, lent, choose)
                except RefusedError:
                    self.finish(uid)
                    return False
                if lost and container == containers[-1]:
                    return True
                self.listed[uid, container] = units
            if container == "init":
                lent = list(self.listed.get((uid, container), ()))
        if uid not in self.admitted:
            self.admitted.append(uid)
        return True

    def start(self, uid: str, container: str) -> bool:
        """A container starts, for the first time or again; whether it could."""
        place = uid, container
        if place not in self.listed:
            try:
                self.listed[place] = self._allocated(uid, container, [], None)
            except RefusedError:
                return False
        self.using[place] = frozenset(self.listed[place])
        return True

    def end(self, uid: str, container: str) -> None:
        """A container ends, and its pod goes on."""
        del self.using[uid, container]
        self.ended.add((uid, container))

    def kubelet_forgets(self) -> None:
        """It is restarted without its record."""
        self.listed.clear()
        for uid in list(self.admitted):
            if self.alive(uid):
                self.admit(uid)

    def _allocated(
        self, uid: str, container: str, lent: Sequence[str], choose: Choose | None
    ) -> tuple[str, ...]:
        """What the kubelet takes for a container. Raises RefusedError."""
        size = self.api[uid].requests[container][self.resource]
        required = sorted(lent)[:size]
        in_use = {unit for units in self.listed.values() for unit in units}
        free = [name for name, unit in self.allocator.units.items() if unit.resource == self.resource]
        available = [*required, *(name for name in free if name not in in_use)]
        if len(available) < size:
            raise RefusedError("not enough")
        if len(required) == size:
            units = required
        elif choose is None:
            units = self.wait(self.allocator.prefer(available, required, size))
            assert set(required) <= set(units) <= set(available)
        else:
            units = [*required, *choose([name for name in available if name not in required])][:size]
        self.wait(self.allocator.allocate(units))
        return tuple(sorted(units))

    def _change(self, uid: str, **fields: object) -> None:
        self.api = self.api | {uid: msgspec.structs.replace(self.api[uid], **fields)}

    async def _ask_pods(self) -> NodePods:
        return self.api
