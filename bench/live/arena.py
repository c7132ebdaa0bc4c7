"""The API server on which both run: its nodes, its policies, and the pods of a trial.

etcd and kube-apiserver as `gpufleet up` starts them, with gpufleet's admission policies and an audit
log of both schedulers; of the controllers only those that pods need in order to be created. Nodes are plain
objects, or KWOK plays their kubelets, and then it is in the log too.
"""

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.live import audit
from bench.live.contender import BOTH
from bench.live.objects import GPUS_PER_NODE, MODEL, NAMESPACE, Object, plain_nodes
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.resources import Kind
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import CLIENTS, Options, needed_programs
from gpufleet.localkube.processes.process_errors import ClusterError
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.releases import DEFAULT_KUBERNETES, release_of
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.model_errors import WorldError
from gpufleet.progress.reporting import ToPerson

AT_ONCE = 24
KWOK_USER = CLIENTS["kwok"][0]
CONTROLLERS = "serviceaccount-controller,podgroup-protection-controller"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS_PATH = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
EVENT_PATHS = (
    f"/api/v1/namespaces/{NAMESPACE}/events",
    f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
)
AT_NOW = {"gracePeriodSeconds": 0}
KINDS: Mapping[str, Kind] = {
    "ResourceClaim": resources.RESOURCE_CLAIMS,
    "ResourceSlice": resources.RESOURCE_SLICES,
    "Node": resources.NODES,
    "Pod": resources.PODS,
    "PodGroup": resources.POD_GROUPS_V1BETA1,
}
EMPTY_WAIT_S = 600.0


class Arena:
    """A running server with so many nodes."""

    def __init__(self, cluster: LocalCluster, kube_scheduler: Path, log: Path) -> None:
        self.cluster = cluster
        self.kube_scheduler = kube_scheduler
        self._log = log
        self.listener = audit.Listener(log)

    def another_listener(self) -> audit.Listener:
        """A second reader of the log, from now on."""
        found = audit.Listener(self._log)
        found.skip()
        return found

    def create(self, objects: Iterable[Object], *, per_s: float | None = None) -> dict[str, float]:
        """Create objects, over many connections or at a steady rate; when each was sent, by name.

        A pod can be bound before the answer to its creation is here: only the sending surely comes before.
        """
        return asyncio.run(self._create(list(objects), per_s))

    async def _create(self, objects: list[Object], per_s: float | None) -> dict[str, float]:
        transport = HttpTransport(find_access(kubeconfig=self.cluster.kubeconfig), connections=AT_ONCE)
        client = Client(transport, MachineClock(), random.Random(1))
        sent_s: dict[str, float] = {}
        turn = asyncio.Semaphore(AT_ONCE)
        began_s = time.monotonic()

        async def one(number: int, body: Object) -> None:
            if per_s is not None:
                await asyncio.sleep(began_s + number / per_s - time.monotonic())
            async with turn:
                metadata = body["metadata"]
                sent_s[metadata["name"]] = time.time()
                await client.create(KINDS[body["kind"]], body, namespace=metadata.get("namespace", ""))

        try:
            async with asyncio.TaskGroup() as group:
                for number, body in enumerate(objects):
                    group.create_task(one(number, body))
        finally:
            await transport.close()
        return sent_s

    def clear(self) -> None:
        """Remove the pods, gangs and Events of the trial before.

        A server that cannot remove all of them within its limit for one request is asked again.
        """
        end_s = time.monotonic() + EMPTY_WAIT_S
        for path in (PODS_PATH, GROUPS_PATH, *EVENT_PATHS):
            while True:
                try:
                    with self.cluster.api() as api:
                        if not _some(api, path):
                            break
                        api.call("DELETE", path, AT_NOW)
                except ClusterError:
                    if time.monotonic() > end_s:
                        raise
                if time.monotonic() > end_s:
                    raise WorldError(f"{path} was not empty after {EMPTY_WAIT_S:.0f} s")
                time.sleep(0.2)


def _some(api: Api, path: str) -> bool:
    return bool(api.call("GET", f"{path}?limit=1")["items"])


@contextmanager
def arena(nodes: int, *, kubelets: bool = False, others: Sequence[str] = ()) -> Iterator[Arena]:
    """A server with so many nodes for the length of the block; with ``kubelets`` pods run on them.

    ``others`` are users whose requests are in the log beside those of the schedulers.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as text:
        folder = Path(text)
        users = [KWOK_USER, *(who.user for who in BOTH), *others]
        (folder / "audit-policy.json").write_text(json.dumps(audit.policy(users)))
        log = folder / "audit.log"
        api_server = (
            f"--audit-policy-file={folder / 'audit-policy.json'}",
            f"--audit-log-path={log}",
            "--audit-log-maxsize=100000",
            # It taints every new node as not ready, and nobody is here who would take that back.
            "--disable-admission-plugins=TaintNodesByCondition",
        )
        flags = {
            "kube-apiserver": api_server,
            "kube-controller-manager": (f"--controllers={CONTROLLERS}",),
        }
        options = Options(simulated_nodes=kubelets, flags=flags)
        wanted = {
            name: release_of(name, DEFAULT_KUBERNETES)
            for name in (*needed_programs(options), "kube-scheduler")
        }
        paths = binaries.paths(binaries.find(wanted, ToPerson("bench: ")))
        with LocalCluster.start(folder / "cluster", "bench", paths, options) as cluster:
            here = Arena(cluster, paths["kube-scheduler"], log)
            _furnish(here)
            if kubelets:
                model = gpu_model(MODEL)
                simulated_nodes.create(cluster, SimulatedNodes(nodes, GPUS_PER_NODE, model))
            else:
                here.create(plain_nodes(nodes))
            yield here


def _furnish(here: Arena) -> None:
    with here.cluster.api() as api:
        manifests.install(api)
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        end_s = time.monotonic() + EMPTY_WAIT_S
        while api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")[0] != 200:
            if time.monotonic() > end_s:
                raise WorldError(f"no service account in {NAMESPACE} after {EMPTY_WAIT_S:.0f} s")
            time.sleep(0.1)
