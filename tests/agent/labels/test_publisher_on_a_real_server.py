"""The same against a real API server: what it keeps of who wrote which label is what we rely on."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.agent.labels.publisher import LabelPublisher
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import Driver
from gpufleet.devices.sharing.plan import TimeSlice
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.transport import Request, Response
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.model.gpu_catalogue import Vendor
from tests.agent.labels.nodes import NODE, a_gpu, a_node
from tests.kube.node_features import DEFINITIONS, FEATURES, NODE_FEATURES
from tests.kube.node_features import NAME as FEATURES_NAME
from tests.localkube.cluster import cluster  # noqa: F401  (a fixture)
from tests.waiting import until

DRIVER = Driver(Vendor.NVIDIA, "550.54.14", "12.4")
PLAIN = a_node(a_gpu(), drivers=(DRIVER,))
SHARED = a_node(a_gpu(0, TimeSlice(4)), drivers=(DRIVER,))
NODE_PATH = f"/api/v1/nodes/{NODE}"
COUNT, PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"
PATIENCE_S = 20.0


@pytest.fixture
def api(cluster: LocalCluster) -> Iterator[Api]:  # noqa: F811  (the fixture above)
    """A server with one node, on which others have written labels."""
    with cluster.api() as api:
        labels = {"team": "a", "nvidia.com/gpu.deploy.driver": "true", COUNT: "77"}
        api.call("POST", "/api/v1/nodes", {"kind": "Node", "metadata": {"name": NODE, "labels": labels}})
        yield api
        api.request("DELETE", NODE_PATH)
        api.request("DELETE", f"{DEFINITIONS}/{FEATURES_NAME}")


class Counted(HttpTransport):
    """A way to the server that counts what is written."""

    writes = 0

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Count, and pass on."""
        self.writes += request.method != "GET"
        return await super().call(request, timeout_s=timeout_s)


def settle(running: LocalCluster, *known: Any) -> int:
    """Let a new process of the agent see these, one after another; how often it wrote."""

    async def story() -> int:
        transport = Counted(find_access(kubeconfig=running.kubeconfig, environment={}))
        client = Client(transport, MachineClock(), random.Random(1))
        one = LabelPublisher(Topic(known[0]), client, random.Random(2), namespace="default")
        try:
            for value in known:
                one.gpus.publish(value)
                await one.reconcile()
        finally:
            await transport.close()
        return transport.writes

    return asyncio.run(story())


def labels_of(api: Api) -> dict[str, str]:
    """The node's labels, without those of Kubernetes itself."""
    found: dict[str, str] = api.call("GET", NODE_PATH)["metadata"]["labels"]
    return {name: value for name, value in found.items() if "kubernetes.io/" not in name}


def test_labels_come_change_move_and_go_and_others_stay(cluster: LocalCluster, api: Api) -> None:  # noqa: F811
    assert settle(cluster, PLAIN) == 1
    assert labels_of(api)[COUNT] == "1"
    assert settle(cluster, PLAIN) == 0
    assert settle(cluster, SHARED) == 1
    assert labels_of(api)[PRODUCT] == "MOCKMODEL-SHARED"

    api.call("POST", DEFINITIONS, NODE_FEATURES)
    until(lambda: api.request("GET", FEATURES)[0] == 200, PATIENCE_S, "NodeFeatures are not served")
    settle(cluster, SHARED)
    foreign = {"team": "a", "nvidia.com/gpu.deploy.driver": "true"}
    assert labels_of(api) == foreign
    feature = api.call("GET", f"{FEATURES}/gpufleet-features-for-{NODE}")
    assert feature["spec"]["labels"][PRODUCT] == "MOCKMODEL-SHARED"
    settle(cluster, a_node(drivers=(DRIVER,)))
    feature = api.call("GET", f"{FEATURES}/gpufleet-features-for-{NODE}")
    assert feature["spec"].get("labels", {}) == {}
