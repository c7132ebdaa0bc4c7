"""One run of a node from a seed: pods come and go, the agent dies at its writes, the kubelet forgets.

Then everything is left alone until all should agree, and the judge looks (``judge``). The same seed gives the
same run. The scheduler here is a book of devices: it grants what neither a grant nor the node's report has.
"""

import asyncio
import itertools
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gpufleet.agent.assembly import Agent
from gpufleet.agent.node_edges import NodeEdges
from gpufleet.agent.settings import AgentSettings
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.transport import Request
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.resource_names import NVIDIA_GPU
from gpufleet.simulation import virtual_loop
from gpufleet.simulation.admission import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import NODE_DEVICES, PODS
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.node import judge
from gpufleet.simulation.node.crashes import Crashes, CrashingDisk, CrashingTransport
from gpufleet.simulation.node.kubelet import CONTAINER, RUNS_FOR, SimulatedKubelet, SimulatedLink
from gpufleet.simulation.node.threadless_backend import ThreadlessBackend
from gpufleet.simulation.pod_facts import is_over
from gpufleet.simulation.process import SimulatedProcess
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop

NODE = "node-1"
AGENT = "system:serviceaccount:gpufleet-system:gpufleet-agent"
GPUS = b"gpus: [{model: H100-80GB, count: 4}]"
FRACTIONS = "version: gpufleet.io/v1alpha1\npools: {default: [{gpus: rest, fractions: {maxShares: 4}}]}\n"
SHARE_MIB = 10_000
"""An eighth of the card: four shares leave memory, so that only their number limits them."""

LEARNS_WITHIN_S = 10.0
"""So long after its folder was lost, an agent has started again and knows the pods that run."""

FOLDER_LOST = 0.1
"""How often the agent's folder is lost with its process."""

STARTS_AGAIN_WITHIN_S = (0.5, 4.0)
ADMINISTRATOR = "system:masters"


class NodePlan(msgspec.Struct, frozen=True):
    """How a run goes: trouble from ``trouble_from_s`` for ``trouble_for_s``, then calm until all agree."""

    trouble_from_s: float = 5.0
    trouble_for_s: float = 90.0
    calm_s: float = 120.0
    crash_one_in: int = 25
    """The agent dies at one of so many of its writes."""


class NodeOutcome(msgspec.Struct, frozen=True):
    """What came of a run."""

    seed: int
    shares: bool
    broken: tuple[Broken, ...]
    crashes: tuple[str, ...]
    kubelet_starts: int
    started: int
    refused: int
    steps: int
    story: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether every promise held."""
        return not self.broken


class NodeRun:
    """The world of one node."""

    def __init__(self, loop: VirtualLoop, seed: int, folder: Path, plan: NodePlan) -> None:
        self.loop = loop
        self.seed = seed
        self.folder = folder
        self.plan = plan
        self.random = Random(f"{seed}/node")
        self.shares = bool(self.random.getrandbits(1))
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(f"{seed}/server"))
        for name in ("team", "gpufleet-system"):
            self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.plugins = folder / "kubelet/device-plugins"
        self.plugins.mkdir(parents=True)
        self.kubelet = SimulatedKubelet(
            self.server, Random(f"{seed}/kubelet"), NODE, self.plugins, folder / "cdi"
        )
        self.kubelet.on_start = self._started
        self.machine = Machine(read_description(GPUS), loop.time, list, NODE)
        self.crashes = Crashes(self._crash)
        self.crashed: list[str] = []
        self.story: list[str] = []
        self.broken: list[Broken] = []
        self.started = 0
        self.lives = 0
        self.names = itertools.count()
        self.over = False
        self.remembers_from_s = 0.0
        self.agent: Agent | None = None
        self.process = SimulatedProcess("agent", loop)
        (folder / "sharing.yaml").write_text(FRACTIONS, encoding="utf-8")

    def tell(self, words: str) -> None:
        """One line of the story."""
        self.story.append(f"{self.loop.time():9.3f} s  {words}")

    async def run(self) -> NodeOutcome:
        """The whole run."""
        acting = [self.loop.create_task(self.kubelet.run())]
        self.start_agent()
        await asyncio.sleep(self.plan.trouble_from_s)
        troubles = [
            self.loop.create_task(one) for one in (self._place(), self._forget(), self._crash_often())
        ]
        await asyncio.sleep(self.plan.trouble_for_s)
        for one in troubles:
            one.cancel()
        await asyncio.gather(*troubles, return_exceptions=True)
        self.crashes.left = None
        if not self.kubelet.up:
            self.kubelet.restart(forgets=False)
        await asyncio.sleep(self.plan.calm_s)
        self.broken += judge.at_rest(self.kubelet, self.server, NODE, self.loop.time())
        await self._restart_all()
        await self._place_once_more()
        failed = [one for one in self.agent.problems() if " it failed: " in one] if self.agent else []
        self.broken += (Broken("alive", self.loop.time(), 0, one) for one in failed)
        self.over = True
        for one in acting:
            one.cancel()
        return NodeOutcome(
            self.seed,
            self.shares,
            tuple(self.broken),
            tuple(self.crashed),
            self.kubelet.starts,
            self.started,
            len(self.kubelet.failed),
            self.crashes.steps,
            tuple(self.story),
        )

    def start_agent(self) -> None:
        """A new process of the agent, with what the last one left on the disk."""
        self.lives += 1
        self.process = SimulatedProcess(f"agent-{self.lives}", self.loop)
        task = self.process.start(self._live(self.process))
        task.add_done_callback(self._agent_ended)

    async def _live(self, process: SimulatedProcess) -> None:
        random = Random(f"{self.seed}/{process.name}")
        way = SimulatedTransport(self.server, AGENT, random)
        client = Client(CrashingTransport(way, self.crashes), self.clock, random)
        link = SimulatedLink(self.kubelet, process)
        settings = AgentSettings(
            NODE,
            config=self.folder / "sharing.yaml" if self.shares else None,
            simulated=self.folder / "machine.yaml",
            kubelet_root=self.folder / "kubelet",
            cdi_folder=self.folder / "cdi",
            machine_type_file=self.folder / "machine-type",
            state_folder=self.folder / "state",
        )
        edges = NodeEdges(
            "boot-1",
            {self.machine.description.vendor: lambda: ThreadlessBackend(self.machine, self.clock)},
            lambda vendor: vendor is self.machine.description.vendor,
            link,
            link,
            self.loop.time,
            disk=CrashingDisk(self.crashes),
            new_name=lambda: f"{next(self.names):032x}",
            listens=False,
        )
        self.agent = Agent(settings, client, random, edges)
        await self.agent.run()

    def _crash(self, what: str) -> None:
        self.tell(f"the agent dies {what}")
        self.crashed.append(what)
        self.process.kill()
        # Of pods that left the API while their containers run, the folder is the only memory.
        vanished = self.kubelet.using.keys() - self.kubelet.pods.keys()
        if self.random.random() < FOLDER_LOST and not vanished:
            self.tell("its folder is lost")
            shutil.rmtree(self.folder / "state", ignore_errors=True)
            self.remembers_from_s = self.loop.time() + LEARNS_WITHIN_S
        delay_s = self.random.uniform(*STARTS_AGAIN_WITHIN_S)
        self.loop.call_later(delay_s, self.start_agent, context=self.loop.own_context)

    def _agent_ended(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if self.process.alive and not self.over and task.get_name() == self.process.name:
            self.broken.append(Broken("alive", self.loop.time(), 0, f"the agent ended: {error!r}"))

    async def _crash_often(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 6.0))
            if self.crashes.left is None and self.process.alive:
                self.crashes.left = self.random.randrange(self.plan.crash_one_in)

    async def _forget(self) -> None:
        """The kubelet restarts now and then, and may lose its checkpoint; a container starts again."""
        while True:
            await asyncio.sleep(self.random.uniform(5.0, 25.0))
            if self.random.random() < 0.5 and self.kubelet.using:
                uid = self.random.choice(sorted(self.kubelet.using))
                if uid in self.kubelet.pods:
                    self.tell(f"the container of {uid} ends")
                    self.kubelet.end_container(uid)
                continue
            forgets = self.random.random() < 0.4
            self.tell(f"the kubelet restarts{' without its checkpoint' if forgets else ''}")
            self.kubelet.stop()
            await asyncio.sleep(self.random.uniform(0.5, 4.0))
            self.kubelet.restart(forgets=forgets)

    async def _place(self) -> None:
        """Pods are bound, and some are deleted by force."""
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 4.0))
            living = [pod for pod in self.living() if pod["metadata"]["uid"] in self.kubelet.using]
            if living and self.random.random() < 0.1 and self.loop.time() >= self.remembers_from_s:
                name = self.random.choice(living)["metadata"]["name"]
                self.tell(f"{name} is deleted by force")
                body = msgspec.json.encode({"gracePeriodSeconds": 0})
                self.server.answer(
                    Request("DELETE", f"/api/v1/namespaces/team/pods/{name}", body), ADMINISTRATOR
                )
                continue
            self.place()

    def living(self) -> list[JsonObject]:
        """The pods that have not ended."""
        return [pod for _, pod in sorted(self.server.store.all(PODS).items()) if not is_over(pod)]

    def place(self) -> JsonObject | None:
        """Grant what is free and bind a pod; None where too little is free."""
        if not self.shares and self.random.random() < 0.15:
            return self._bind(None, NVIDIA_GPU, 1)
        size = 1 if self.shares else self.random.choice((1, 1, 2))
        milli = self.random.choice((250, 500)) if self.shares else WHOLE_GPU_MILLI
        free = [one for one, left in self.free().items() if left >= milli]
        if len(free) < size:
            return None
        kind = GrantKind.SHARE if self.shares else GrantKind.WHOLE
        memory_mib = SHARE_MIB if self.shares else None
        chosen = [
            GrantedDevice(DeviceId(one), kind, milli, memory_mib)
            for one in sorted(self.random.sample(free, size))
        ]
        grant = Grant(1, (ContainerGrant(CONTAINER, tuple(chosen)),))
        return self._bind(grant, keys.GPU_SHARE if self.shares else NVIDIA_GPU, size)

    def free(self) -> dict[str, int]:
        """The thousandths of each healthy device that neither a grant nor the report of the node has."""
        report = self.server.store.get(NODE_DEVICES, ("", NODE))
        if report is None:
            return {}
        spec = report["spec"]
        left = {one["id"]: WHOLE_GPU_MILLI for one in spec["devices"] if not one.get("taints")}
        granted = {pod["metadata"]["uid"]: judge.granted_devices(pod) for pod in self.living()}
        for its in granted.values():
            for device, milli in its:
                left[device] = left.get(device, 0) - milli
        for one in spec.get("holders") or ():
            device, milli = one["device"], one.get("gpuMilli", WHOLE_GPU_MILLI)
            if (device, milli) not in granted.get(one.get("podUID", ""), ()):
                left[device] = left.get(device, 0) - milli
        return left

    def _bind(self, grant: Grant | None, resource: str, size: int) -> JsonObject:
        annotations = {RUNS_FOR: str(self.random.choice((5.0, 20.0, 60.0, 10_000.0)))}
        if grant is not None:
            annotations[keys.GRANT] = write_grant(grant)
        limits = {resource: str(size)}
        container = {"name": CONTAINER, "image": "x", "resources": {"limits": limits, "requests": limits}}
        metadata = {"name": f"pod-{next(self.names)}", "namespace": "team", "annotations": annotations}
        self.tell(
            f"{metadata['name']} is bound with {None if grant is None else grant.containers[0].devices}"
        )
        spec = {"nodeName": NODE, "containers": [container]}
        return self.server.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, SCHEDULER_USER
        )

    def _started(self, uid: str) -> None:
        self.started += 1
        self.tell(f"{uid} starts with {self.kubelet.using[uid]}")
        self.broken += judge.at_start(self.kubelet, uid, self.loop.time())

    async def _restart_all(self) -> None:
        """At rest each container starts again, and has its own devices."""
        reported = judge.reported_devices(self.server, NODE)
        for uid in sorted(self.kubelet.using):
            if uid in self.kubelet.pods:
                before, told = self.kubelet.using[uid], reported.get(uid, set())
                await self.kubelet.restart_container(uid)
                self.broken += judge.own_devices(self.kubelet, uid, before, told, self.loop.time())

    async def _place_once_more(self) -> None:
        """At rest a pod that is granted free devices starts."""
        await asyncio.sleep(5.0)
        made = self.place()
        await asyncio.sleep(30.0)
        if made is not None:
            self.broken += judge.was_served(self.kubelet, made, self.loop.time())


def run_node(seed: int, plan: NodePlan | None = None) -> NodeOutcome:
    """Run one seed. Raises SimulationError where the run itself fails."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-node-") as folder:

        async def work(loop: VirtualLoop) -> NodeOutcome:
            return await NodeRun(loop, seed, Path(folder), plan or NodePlan()).run()

        return virtual_loop.run(work, seed, threads=True)
