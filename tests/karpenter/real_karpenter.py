"""The real Karpenter beside a real control plane and our scheduler; KWOK plays the nodes that it buys.

Nodes have the GPUs that their instance type names, from the moment of their making. Of the two types
that can be bought the one with four GPUs is cheaper.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpufleet.cli import up
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.processes import child
from tests.karpenter import programs
from tests.localkube.cluster import a_cluster
from tests.usage.prometheus.server import free_port
from tests.waiting import until

NAMESPACES, NODES = "/api/v1/namespaces", "/api/v1/nodes"
QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
EVENTS = "/api/v1/namespaces/default/events"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
POOL = "/apis/karpenter.sh/v1/nodepools/gpus"
NODE_CLASS = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default"
TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
TYPES = ("gpu-4x", "gpu-8x")
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
GPU = "nvidia.com/gpu"
QUOTAS = {"default": 24, "small": 4}
"""The GPUs of each namespace's queue."""

PRICES = {8: 10.0, 4: 6.0}
"""By the number of GPUs of a node."""

GPUS_MAX = 1000
"""More than any test buys."""

GOES_S = 180.0
"""Karpenter looks every ten seconds for what can be saved, and judges twice, fifteen seconds apart."""


def instance_type(gpus: int, price: float) -> Object:
    """A type as Karpenter's provider reads it."""
    words = {CAPACITY_TYPE: "on-demand", "topology.kubernetes.io/zone": "zone-a"}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in words.items()]
    resources = {"cpu": str(gpus * 8), "memory": f"{gpus * 64}Gi", GPU: str(gpus), "pods": "110"}
    offering = {"Price": price, "Available": True, "Requirements": requirements}
    its: Object = {"name": f"gpu-{gpus}x", "offerings": [offering], "architecture": "amd64"}
    return its | {"operatingSystems": ["linux"], "resources": resources}


def node_pool(*types: str, unneeded_s: int = 2, gpus_max: int = GPUS_MAX) -> Object:
    """Nodes of these types; what is empty or more than is needed goes after ``unneeded_s``."""
    node_class = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    one_of = {"key": TYPE, "operator": "In", "values": list(types)}
    # With both kinds allowed Karpenter would replace a node by spot capacity alone, of which no type has any.
    on_demand = {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    template = {
        "metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
        "spec": {"expireAfter": "Never", "nodeClassRef": node_class, "requirements": [one_of, on_demand]},
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": f"{unneeded_s}s",
        "budgets": [{"nodes": "100%"}],
    }
    metadata = {"name": "gpus"}
    spec = {"template": template, "disruption": disruption, "limits": {GPU: str(gpus_max)}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Fleet:
    """A cluster without nodes, whose Karpenter buys; ``api`` is for one thread."""

    cluster: LocalCluster
    api: Api
    log: Path

    def pod(self, name: str, gpus: int, gang: int = 0, namespace: str = "default", of: str = "train") -> None:
        """Create a pod for our scheduler, with ``gang`` as one of so many members of the gang ``of``."""
        words = {"gpufleet.io/gang": of, "gpufleet.io/gang-min-members": str(gang)} if gang else {}
        container = {"name": "c", "image": "example.com/none", "resources": {"limits": {GPU: str(gpus)}}}
        spec = {"schedulerName": "gpufleet", "containers": [container], "automountServiceAccountToken": False}
        metadata = {"name": name, "annotations": words}
        self.api.call("POST", pods(namespace), {"metadata": metadata, "spec": spec})

    def found(self, name: str, namespace: str = "default") -> Object:
        """The pod as it is."""
        return self.api.call("GET", f"{pods(namespace)}/{name}")

    def reason(self, name: str, namespace: str = "default") -> str:
        """Why the pod waits."""
        conditions = self.found(name, namespace).get("status", {}).get("conditions", [])
        return next((str(one.get("reason", "")) for one in conditions if one["type"] == "PodScheduled"), "")

    def until_waits(self, reason: str, name: str, namespace: str = "default") -> None:
        """Wait until the pod says that it waits for this reason."""
        until(lambda: self.reason(name, namespace) == reason, 60, f"{name} does not say {reason}")

    def until_run(self, *names: str, namespace: str = "default") -> None:
        """Wait until these pods run."""

        def waiting() -> list[str]:
            return [one for one in names if self.found(one, namespace)["status"]["phase"] != "Running"]

        try:
            until(lambda: not waiting(), 120)
        except AssertionError as error:
            error.add_note(f"{waiting()} wait; Karpenter: {self.story()}")
            raise

    def left(self, *names: str) -> list[str]:
        """Which of these pods of the first namespace are still there."""
        there = {one["metadata"]["name"] for one in self.api.call("GET", pods("default"))["items"]}
        return [name for name in names if name in there]

    def claims(self) -> list[str]:
        """The nodes that Karpenter has bought or is buying, by the name of their claim."""
        return [one["metadata"]["name"] for one in self.api.call("GET", CLAIMS)["items"]]

    def types(self) -> list[str]:
        """The types of the nodes."""
        return sorted(one["metadata"]["labels"][TYPE] for one in self.api.call("GET", NODES)["items"])

    def gpus_of_nodes(self) -> list[int]:
        """The GPUs of each node."""
        return [int(one["status"]["capacity"][GPU]) for one in self.api.call("GET", NODES)["items"]]

    def may_buy(self, *types: str, gpus_max: int = GPUS_MAX) -> None:
        """From now on nodes of these types can be bought, with so many GPUs together."""
        self.api.apply(POOL, node_pool(*types, gpus_max=gpus_max))

    def blocked(self, claim: str) -> bool:
        """Whether Karpenter says that it leaves a node for the sake of a pod's annotation."""
        return any(
            one["reason"] == "DisruptionBlocked"
            and one["involvedObject"]["name"] == claim
            and DO_NOT_DISRUPT in one["message"]
            for one in self.api.call("GET", EVENTS)["items"]
        )

    def emptied(self) -> None:
        """End all pods, and wait until Karpenter has given every node back."""
        for namespace in QUOTAS:
            self.api.request("DELETE", pods(namespace))
        until(lambda: not self.claims(), GOES_S, f"nodes stay: {self.claims()}")

    def story(self) -> str:
        """The end of what Karpenter said."""
        return self.log.read_text(encoding="utf-8")[-3000:]


def queue(namespace: str, gpus: int) -> Object:
    """The queue of a namespace, which has so many GPUs and can borrow none."""
    spec = {"namespaces": [namespace], "quotas": [{"resource": "gpu", "nominal": gpus}]}
    its: Object = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    return its | {"metadata": {"name": namespace}, "spec": spec}


def pods(namespace: str) -> str:
    """Where the pods of a namespace are."""
    return f"{NAMESPACES}/{namespace}/pods"


@contextmanager
def running_fleet(folder: Path, options: Options | None = None) -> Iterator[Fleet]:
    """Control plane, our scheduler and Karpenter; no node."""
    program, definitions = programs.program(), programs.definitions()
    parts = up.components()
    types = folder / "types.json"
    types.write_bytes(msgspec.json.encode([instance_type(gpus, price) for gpus, price in PRICES.items()]))
    with a_cluster(folder, options=options, components=parts) as cluster, cluster.api() as api:
        manifests.install(api)
        manifests.install(api, definitions[0].parent)
        for namespace, gpus in QUOTAS.items():
            api.apply(
                f"{NAMESPACES}/{namespace}",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            )
            api.apply(f"{QUEUES}/{namespace}", queue(namespace, gpus))
        cluster.furnished()
        node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass"}
        api.apply(NODE_CLASS, {**node_class, "metadata": {"name": "default"}, "spec": {}})
        api.apply(POOL, node_pool(*TYPES))
        settings = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            "SYSTEM_NAMESPACE": "kube-system",
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(free_port()),
            "INSTANCE_TYPES_FILE_PATH": str(types),
            "KUBERNETES_MIN_VERSION": "1.19.0-0",
        }
        log = folder / "karpenter.log"
        karpenter = child.start("karpenter", [str(program)], log, environment={**os.environ, **settings})
        try:
            for part in parts:
                cluster.await_component(part)
            yield Fleet(cluster, api, log)
        finally:
            karpenter.stop()
