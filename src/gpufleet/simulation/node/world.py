"""One node for a simulation: the agent's real code, a kubelet, an API server, a book in place of a scheduler.

The book grants what neither a grant nor the node's report has. ``on_death`` says what becomes of an agent
that died. ``run`` lets random trouble happen here, ``every_death`` tells one story and tries each death in
it, and ``judge`` holds the promises.
"""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gpufleet.agent.assembly import Agent
from gpufleet.agent.machine_access import MachineAccess
from gpufleet.agent.settings import AgentSettings
from gpufleet.devices.simulated.backend import SimulatedBackend
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
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import NODE_DEVICES, PODS
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.node import judge
from gpufleet.simulation.node.claim_manager import ClaimManager
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

ADMINISTRATOR = "system:masters"
LISTEN_EVERY_S = 0.25
"""Virtual time between two questions for events of GPUs. To ask more often is most of the work of a run."""

RUNS_ON_S = 10_000.0
"""How long a pod runs that outlives every run."""


class NodeWorld:
    """One node, its kubelet and its agents, one after another.

    ``name`` seeds all chance of this world. ``on_death`` is called when the agent has died, and answers after
    how many seconds the next one starts.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        name: str,
        folder: Path,
        *,
        shares: bool,
        on_death: Callable[[], float],
        claims: str = "none",
    ) -> None:
        self.loop = loop
        self.name = name
        self.folder = folder
        self.shares = shares
        self.cards_for_claims = claims
        """The cards that the next agent to start leaves to claims, as its setting says it."""
        self.on_death = on_death
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(f"{name}/server"))
        for namespace in ("team", "gpufleet-system"):
            self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        plugins = folder / "kubelet/device-plugins"
        plugins.mkdir(parents=True)
        self.kubelet = SimulatedKubelet(self.server, Random(f"{name}/kubelet"), NODE, plugins, folder / "cdi")
        self.kubelet.on_start = self._started
        self.machine = Machine(read_description(GPUS), loop.time, list, NODE)
        cards = SimulatedBackend(self.machine).fleet().gpus
        files = {path: str(card.uuid) for card in cards for path in card.device_nodes}
        self.claims = ClaimManager(self.kubelet, folder / "cdi", files)
        self.crashes = Crashes(self._died)
        self.crashed: list[str] = []
        self.story: list[str] = []
        self.broken: list[Broken] = []
        self.started = 0
        self.lives = 0
        self.names = itertools.count()
        self.over = False
        self.agent: Agent | None = None
        self.process = SimulatedProcess("agent", loop)
        (folder / "sharing.yaml").write_text(FRACTIONS, encoding="utf-8")

    def note(self, words: str) -> None:
        """One line of the story."""
        self.story.append(f"{self.loop.time():9.3f} s  {words}")

    def start_agent(self) -> None:
        """A new process of the agent, with what the last one left on the disk."""
        self.lives += 1
        self.process = SimulatedProcess(f"agent-{self.lives}", self.loop)
        task = self.process.start(self._live(self.process))
        task.add_done_callback(self._agent_ended)

    async def _live(self, process: SimulatedProcess) -> None:
        random = Random(f"{self.name}/{process.name}")
        way = SimulatedTransport(self.server, AGENT, random)
        client = Client(CrashingTransport(way, self.crashes), self.clock, random)
        link = SimulatedLink(self.kubelet, process, self.crashes)
        settings = AgentSettings(
            NODE,
            config=self.folder / "sharing.yaml" if self.shares else None,
            simulated=self.folder / "machine.yaml",
            kubelet_root=self.folder / "kubelet",
            cdi_folder=self.folder / "cdi",
            machine_type_file=self.folder / "machine-type",
            state_folder=self.folder / "state",
            dra_cards=self.cards_for_claims,
        )

        def library() -> ThreadlessBackend:
            return ThreadlessBackend(self.machine, self.clock, LISTEN_EVERY_S)

        access = MachineAccess(
            "boot-1",
            {self.machine.description.vendor: library},
            lambda vendor: vendor is self.machine.description.vendor,
            link,
            link,
            self.loop.time,
            disk=CrashingDisk(self.crashes),
            new_name=lambda: f"{next(self.names):032x}",
            listens=False,
            claim_socket=self.claims.maker(process, self.crashes),
            claims_in_use=self.claims.in_use,
        )
        self.agent = Agent(settings, client, random, access)
        await self.agent.run()

    def _died(self, what: str) -> None:
        self.note(f"the agent dies {what}")
        self.crashed.append(what)
        self.process.kill()
        # In the loop's own context: in that of the dead process the callback would never run.
        self.loop.call_later(self.on_death(), self.start_agent, context=self.loop.own_context)

    def _agent_ended(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if self.process.alive and not self.over and task.get_name() == self.process.name:
            self.broken.append(Broken("alive", self.loop.time(), 0, f"the agent ended: {error!r}"))

    def delete_by_force(self, pod: JsonObject) -> None:
        """A user takes a pod out of the API while its container may run on."""
        name = pod["metadata"]["name"]
        self.note(f"{name} is deleted by force")
        body = msgspec.json.encode({"gracePeriodSeconds": 0})
        self.server.answer(Request("DELETE", f"/api/v1/namespaces/team/pods/{name}", body), ADMINISTRATOR)

    def living(self) -> list[JsonObject]:
        """The pods that have not ended."""
        return [pod for _, pod in sorted(self.server.store.all(PODS).items()) if not is_over(pod)]

    def free_devices(self, milli: int) -> list[str]:
        """The healthy devices of which so many thousandths are free."""
        return [one for one, left in self.free().items() if left >= milli]

    def bind_granted(self, devices: list[str], milli: int, runs_for_s: float) -> JsonObject:
        """Bind a pod that is granted so many thousandths of each of these devices."""
        kind = GrantKind.SHARE if self.shares else GrantKind.WHOLE
        memory_mib = SHARE_MIB if self.shares else None
        chosen = [GrantedDevice(DeviceId(one), kind, milli, memory_mib) for one in sorted(devices)]
        grant = Grant(1, (ContainerGrant(CONTAINER, tuple(chosen)),))
        return self.bind(grant, len(devices), runs_for_s)

    def free(self) -> dict[str, int]:
        """The thousandths of each healthy device that neither a grant nor the report of the node has."""
        report = self.server.store.get(NODE_DEVICES, ("", NODE))
        if report is None:
            return {}
        spec = report["spec"]
        # A scheduler gives no device away that its node has tainted.
        left = {one["id"]: WHOLE_GPU_MILLI for one in spec["devices"] if not one.get("taints")}
        granted = {pod["metadata"]["uid"]: judge.granted_devices(pod) for pod in self.living()}
        for its in granted.values():
            for device, milli in its:
                left[device] = left.get(device, 0) - milli
        for one in spec.get("holders") or ():
            device, milli = one["device"], one.get("gpuMilli", WHOLE_GPU_MILLI)
            # What is granted was taken off already; a report of it is not a second holder.
            if (device, milli) not in granted.get(one.get("podUID", ""), ()):
                left[device] = left.get(device, 0) - milli
        return left

    def bind(self, grant: Grant | None, size: int, runs_for_s: float) -> JsonObject:
        """Bind a pod that asks for so many devices or shares, with this grant or none."""
        annotations = {RUNS_FOR: str(runs_for_s)}
        if grant is not None:
            annotations[keys.GRANT] = write_grant(grant)
        limits = {keys.GPU_SHARE if self.shares else NVIDIA_GPU: str(size)}
        container = {"name": CONTAINER, "image": "x", "resources": {"limits": limits, "requests": limits}}
        metadata = {"name": f"pod-{next(self.names)}", "namespace": "team", "annotations": annotations}
        self.note(
            f"{metadata['name']} is bound with {None if grant is None else grant.containers[0].devices}"
        )
        spec = {"nodeName": NODE, "containers": [container]}
        return self.server.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, SCHEDULER_USER
        )

    def _started(self, uid: str) -> None:
        self.started += 1
        self.note(f"{uid} starts with {self.kubelet.using[uid]}")
        self.broken += judge.at_start(self.kubelet, uid, self.loop.time())

    def judge_rest(self) -> None:
        """Hold what must be so when nothing has happened for a while."""
        self.broken += judge.at_rest(self.kubelet, self.server, NODE, self.loop.time())
        failed = [one for one in self.agent.problems() if " it failed: " in one] if self.agent else []
        self.broken += (Broken("alive", self.loop.time(), 0, one) for one in failed)

    async def restart_all(self) -> None:
        """At rest each container starts again, and has its own devices."""
        reported = judge.reported_devices(self.server, NODE)
        for uid in sorted(self.kubelet.using):
            if uid in self.kubelet.pods:
                before, told = self.kubelet.using[uid], reported.get(uid, set())
                await self.kubelet.restart_container(uid)
                self.broken += judge.own_devices(self.kubelet, uid, before, told, self.loop.time())

    async def serve_once_more(self, milli: int) -> None:
        """At rest a pod that is granted a free device starts."""
        await asyncio.sleep(5.0)
        free = self.free_devices(milli)
        if free:
            pod = self.bind_granted(free[:1], milli, RUNS_ON_S)
            await asyncio.sleep(30.0)
            self.broken += judge.was_served(self.kubelet, pod, self.loop.time())
