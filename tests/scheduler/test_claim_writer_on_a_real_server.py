"""On a real API server two pods get one claim at once, and its devices are free when both are gone."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.claim_writer import ClaimTask, ClaimWriter
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.test_claim_writer import devices
from tests.waiting import until

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A control plane without nodes."""
    with a_cluster(tmp_path_factory.mktemp("claims"), options=Options(kubernetes=KUBERNETES)) as running:
        yield running


def add_claim(api: Api) -> str:
    """A claim of one device; its uid."""
    requests = [{"name": "gpus", "exactly": {"deviceClassName": "gpu"}}]
    spec = {"devices": {"requests": requests}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    return str(api.call("POST", CLAIMS, {**body, "spec": spec})["metadata"]["uid"])


def add_pod(api: Api, name: str) -> PodName:
    """A pod that uses the claim and that no scheduler looks at."""
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    spec = {"schedulerName": "none", "containers": [container], "resourceClaims": claims}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return PodName("default", name, PodUid(api.call("POST", PODS, body)["metadata"]["uid"]))


async def write(cluster: LocalCluster, task: ClaimTask, *pods: PodName) -> None:
    """Prepare the claim for all these pods at once."""
    transport = HttpTransport(find_access(kubeconfig=cluster.kubeconfig), connections=8)
    try:
        client = Client(transport, MachineClock(), random.Random(1))
        writer = ClaimWriter(client, lambda _namespace, _name: None, may_write=lambda: True)
        await asyncio.gather(*(writer.prepare(pod, (task,)) for pod in pods))
    finally:
        await transport.close()


def test_two_pods_share_a_claim_that_is_free_again_when_both_are_gone(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        uid = add_claim(api)
        pods = [add_pod(api, name) for name in ("p", "q")]
        asyncio.run(write(cluster, ClaimTask("c", uid, devices("d0")), *pods))
        found = api.call("GET", f"{CLAIMS}/c")
        assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        (result,) = found["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "d0"
        assert {one["uid"] for one in found["status"]["reservedFor"]} == {pod.uid for pod in pods}
        for pod in pods:
            api.call("DELETE", f"{PODS}/{pod.name}")
        # Kubernetes' own controller takes back what was written as it expects it.
        until(lambda: not api.call("GET", f"{CLAIMS}/c")["metadata"].get("finalizers"))
        assert not api.call("GET", f"{CLAIMS}/c").get("status")
