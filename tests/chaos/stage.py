"""A real control plane, replicas of the scheduler behind proxies, users, and the judge over all of it.

async def play(stage: Stage) -> None:
    await stage.endure([fault], lasts_s=3)
    assert not await stage.unrest()

play_on_stage(folder, seed, faults, play)
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from gpufleet.kube.status import NotFound
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.simulated_nodes import SimulatedNodes
from gpufleet.simulation import invariants, pod_facts
from gpufleet.simulation.cluster_recipe import NAMESPACE
from gpufleet.simulation.faults.interference import Fault
from gpufleet.simulation.history import LEASES, NODE_DEVICES, Rules
from gpufleet.simulation.refusal import JsonObject
from tests.chaos.agents import Agents
from tests.chaos.proxy import Proxy
from tests.chaos.recording import LastingRecorder, StageClock
from tests.chaos.replica import Replica
from tests.chaos.traffic import Traffic
from tests.localkube.cluster import a_cluster

START_WITHIN_S = 120.0
SETTLE_WITHIN_S = 60.0
POLL_EVERY_S = 0.5
KUBELETS_LATE_AFTER_S = 15.0
"""KWOK repeats a write that failed after ever longer pauses. A new version of a pod has it look at once."""

ACTS_WITHIN_S = 20.0
"""A fault that lies in wait for a request may meet none in its few seconds where the server is slow."""

FEW_WAITING = 20
"""Nothing that is ever played leaves more pods without a node at rest; the judge is spared a closer look."""

LEASE_S = 5
SCHEDULER_FLAGS = (f"--lease-seconds={LEASE_S}", "--log-format=json")


class Setting(msgspec.Struct, frozen=True):
    """How large the stage is, and how its schedulers are started."""

    nodes: int = 8
    gpus_per_node: int = 8
    replicas: int = 2
    flags: tuple[str, ...] = ()
    gang_deadline_s: float = 5.0
    gang_grace_s: float = 30.0
    reports_every_s: float = 0.3


class LiveFault(Fault):
    """A fault that needs more than the transport: processes, the server, other users."""

    async def act(self, stage: "Stage", lasts_s: float) -> None:  # noqa: ARG002  (for those that override it)
        """Do it, for about so long."""
        await asyncio.sleep(lasts_s)

    async def prepare_stage(self, stage: "Stage") -> None:
        """Before the schedulers start."""


class Stage:
    """Everything a fault may lay hands on."""

    def __init__(
        self, cluster: LocalCluster, folder: Path, seed: int, setting: Setting, faults: Sequence[Fault]
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.random = Random(f"{seed}/stage")
        self.setting = setting
        self.faults = {fault.name: fault for fault in faults}
        self.clock = StageClock()
        user = DEFAULT_IDENTITY
        identity = cluster.kubeconfig_for(user.user, user.groups)
        self.scheduler_user = user.user
        self.scheduler_way = HttpTransport(find_access(kubeconfig=identity, environment={}))
        self.way = HttpTransport(find_access(kubeconfig=cluster.kubeconfig, environment={}))
        self.client = Client(self.way, MachineClock(), Random(f"{seed}/client"))
        self.recorder = LastingRecorder(self.way, self.clock)
        self.traffic = Traffic(self.client, Random(f"{seed}/users"), setting.nodes * setting.gpus_per_node)
        self.agents = Agents(self.client, self.recorder, setting.reports_every_s)
        self.poisoned: set[str] = set()
        self.replicas: list[Replica] = []

    def tell(self, words: str) -> None:
        """A line for the story of a failing run."""
        print(f"{self.clock.monotonic_s():8.2f} s  {words}", flush=True)  # noqa: T201

    @contextlib.asynccontextmanager
    async def set(self) -> AsyncIterator[None]:
        """Furnish the cluster, start everything, and end it all."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.recorder.run()), group.create_task(self.agents.run())]
            try:
                await self._furnish()
                tasks += [group.create_task(replica.keep()) for replica in self.replicas]
                await self.until(lambda: self.leader() is not None, START_WITHIN_S)
                yield
            finally:
                for task in tasks:
                    task.cancel()
                # In threads, because they give the Lease back through their proxies.
                await asyncio.gather(*(asyncio.to_thread(replica.end) for replica in self.replicas))
                for replica in self.replicas:
                    replica.proxy.close_door()
                await self.scheduler_way.close()
                await self.way.close()

    async def _furnish(self) -> None:
        with self.cluster.api() as api:
            manifests.install(api)
        setting = self.setting
        model = simulated_nodes.gpu_model(simulated_nodes.DEFAULT_MODEL)
        simulated_nodes.create(self.cluster, SimulatedNodes(setting.nodes, setting.gpus_per_node, model))
        await self.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}}, name=NAMESPACE)
        async with asyncio.timeout(START_WITHIN_S):
            while not await self._has_account():  # noqa: ASYNC110  (another process makes it)
                await asyncio.sleep(0.05)
            await self.recorder.listed.wait()
        await self.until(lambda: len(self.recorder.now(NODE_DEVICES)) == setting.nodes)
        for fault in self.faults.values():
            if isinstance(fault, LiveFault):
                await fault.prepare_stage(self)
        faults = list(self.faults.values())
        for number in range(setting.replicas):
            proxy = Proxy(self.scheduler_way, faults, self.scheduler_user, self.recorder.note)
            await proxy.open_door()
            flags = (*SCHEDULER_FLAGS, f"--gang-deadline={setting.gang_deadline_s}", *setting.flags)
            replica = Replica(f"replica-{number}", proxy, self.folder, flags)
            self.replicas.append(replica)
            replica.start()

    async def _has_account(self) -> bool:
        try:
            await self.client.get(SERVICE_ACCOUNTS, "default", namespace=NAMESPACE)
        except NotFound:
            return False
        return True

    async def until(self, holds: Callable[[], bool], within_s: float = SETTLE_WITHIN_S) -> None:
        """Wait for something."""
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110  (other processes bring it about)
                await asyncio.sleep(0.02)

    def leader(self) -> Replica | None:
        """The replica whose present life the Lease names."""
        lease = self.recorder.now(LEASES).get(("gpufleet-system", "gpufleet-scheduler"))
        holder = (lease or {"spec": {}})["spec"].get("holderIdentity")
        return next((replica for replica in self.replicas if replica.identity == holder), None)

    def replica_of(self, proxy: Proxy) -> Replica:
        """Whose proxy this is."""
        return next(replica for replica in self.replicas if replica.proxy is proxy)

    def kill_server(self) -> None:
        """SIGKILL the API server; its supervisor starts it again a second later."""
        os.kill(self.cluster.pid("kube-apiserver"), signal.SIGKILL)

    async def await_server(self) -> None:
        """Return when the server answers, after it was killed."""
        async with asyncio.timeout(SETTLE_WITHIN_S):
            while True:
                with contextlib.suppress(KubeError):
                    await self.client.read("/readyz")
                    return
                await asyncio.sleep(0.1)

    async def endure(self, faults: Sequence[Fault], lasts_s: float) -> None:
        """Let faults act, together if they are several, while users come and go."""
        names = " and ".join(fault.name for fault in faults)
        self.tell(f"{names} begins" if len(faults) == 1 else f"{names} begin")
        asked_before = len(self.recorder.requests)
        for fault in faults:
            fault.active = True
        try:
            async with asyncio.TaskGroup() as group:
                enough = asyncio.Event()
                group.create_task(self.traffic.run(enough))
                async with asyncio.TaskGroup() as acting:
                    for fault in faults:
                        live = fault.act(self, lasts_s) if isinstance(fault, LiveFault) else None
                        acting.create_task(live or asyncio.sleep(lasts_s))
                # One that has still not acted then is a broken promise, which the test names.
                with contextlib.suppress(TimeoutError):
                    await self.until(lambda: all(fault.acted for fault in faults), ACTS_WITHIN_S)
                enough.set()
        finally:
            for fault in faults:
                fault.active = False
            for replica in self.replicas:
                replica.go_on()
                replica.proxy.let_pass()
                await replica.proxy.open_door()
        acted = ", ".join(str(fault.acted) for fault in faults)
        self.tell(f"it is over; acted {acted} times; Bindings were answered {self._answers(asked_before)}")

    def _answers(self, asked_before: int) -> str:
        """What became of Bindings, from this request on."""
        asked = (one for one in self.recorder.requests[asked_before:] if one.target.endswith("/binding"))
        codes = Counter(request.code for request in asked)
        return ", ".join(f"{count} x {code or 'nothing'}" for code, count in sorted(codes.items()))

    async def unrest(self, within_s: float = SETTLE_WITHIN_S) -> list[str]:
        """Wait until every promise holds and all is at rest; what is wrong after so long."""
        now_s = self.clock.monotonic_s()
        limit_s, look_again_s = now_s + within_s, now_s + KUBELETS_LATE_AFTER_S
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            wrong = await self.wrong()
            if wrong and self.clock.monotonic_s() > look_again_s:
                look_again_s += KUBELETS_LATE_AFTER_S
                await self._remind_kubelets()
            if not wrong or self.clock.monotonic_s() > limit_s:
                crashes = [crash for replica in self.replicas for crash in replica.crashes]
                return wrong + crashes

    async def _remind_kubelets(self) -> None:
        """Pods that are told to end and have not are shown to the simulated kubelets anew."""
        said = {"metadata": {"annotations": {"chaos.gpufleet.io/at": str(self.clock.monotonic_s())}}}
        for (namespace, name), pod in self.recorder.now().items():
            if "deletionTimestamp" in pod["metadata"] and pod_facts.node_of(pod):
                self.tell(f"{name} has not ended yet: its kubelet is reminded of it")
                with contextlib.suppress(KubeError):
                    await self.client.patch(PODS, name, said, namespace=namespace)

    async def wrong(self) -> list[str]:
        """Everything that is not as it should be, now."""
        pods = self.recorder.now()
        found = self.traffic.complaints(pods)
        found += [
            f"{name[1]} is on its way out"
            for name, pod in pods.items()
            if "deletionTimestamp" in pod["metadata"]
        ]
        waiting = sum(not pod_facts.node_of(pod) for pod in pods.values())
        if waiting > FEW_WAITING:
            found.append(f"{waiting} pods have no node")
        if found:
            return found
        untrue = await self._untrue_metrics(pods)
        if untrue:
            return untrue
        # In a thread, because the proxies must go on: a leader that cannot renew its Lease is none.
        broken = await asyncio.to_thread(invariants.judge, self.recorder.history(self.rules()))
        return [str(one) for one in broken]

    def rules(self) -> Rules:
        """What the judge holds us to; rest is asked for at once, and waited for by ``unrest``."""
        return Rules(
            scheduler_users=frozenset({self.scheduler_user}),
            gang_deadline_s=self.setting.gang_deadline_s,
            gang_grace_s=self.setting.gang_grace_s,
            settle_s=0.0,
            poisoned=frozenset(self.poisoned),
        )

    async def _untrue_metrics(self, pods: dict[tuple[str, str], JsonObject]) -> list[str]:
        """I13: where the leader's own word differs from the API."""
        leader = self.leader()
        if leader is None:
            return ["no process leads"]
        try:
            metrics, ready = await leader.metrics(), await leader.readiness()
        except OSError as error:
            return [f"{leader.identity} serves no metrics: {error}"]
        alive = [pod for pod in pods.values() if not pod_facts.is_over(pod)]
        placed = sum(bool(pod_facts.node_of(pod)) for pod in alive)
        true = {"placed": placed, "not placed": len(alive) - placed}
        states = ("waiting", "held", "gated")
        said = {
            "placed": metrics.get('gpufleet_scheduler_pods{state="placed"}', -1),
            "not placed": sum(metrics.get(f'gpufleet_scheduler_pods{{state="{one}"}}', -1) for one in states),
        }
        found = [] if said == true else [f"{leader.identity} counts {said}, the API has {true}"]
        return found if ready.strip() == "ok" else [*found, f"{leader.identity} is not ready: {ready}"]


def play_on_stage(
    folder: Path,
    seed: int,
    faults: Sequence[Fault],
    play: Callable[[Stage], Awaitable[None]],
    setting: Setting | None = None,
) -> None:
    """A whole play, from an empty folder to nothing left.

    At its end (I8) the event log of each life that ended in order makes every decision again.
    """

    async def main(cluster: LocalCluster) -> None:
        stage = Stage(cluster, folder, seed, setting or Setting(), faults)
        async with stage.set():
            await play(stage)
        last_lives.extend(stage.replicas)

    last_lives: list[Replica] = []
    with a_cluster(folder) as cluster:
        asyncio.run(main(cluster))
    logs = [replica.event_log for replica in last_lives]
    led = [log for log in logs if log.exists() and log.stat().st_size > 0]
    assert led, "no life that led ended in order"
    for log in led:
        command = (sys.executable, "-m", "gpufleet", "rerun", str(log))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"I8: {done.stdout}{done.stderr}"
