"""`gpufleet check` on a real API server: what is missing is named, what is there is said to be at work."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest

from gpufleet.cli.main import main
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.installation import SCHEDULER_LEASE, InstallationFinding, findings
from gpufleet.kube.lease import micro_time
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.kube.resources import LEASES
from gpufleet.localkube.cluster import LocalCluster
from tests.kube.manifests.real_server import install_all, until
from tests.localkube.cluster import a_cluster

NAMESPACE = DEFAULT_IDENTITY.namespace
TURNS = [{"id": f"GPU-0::{turn}"} for turn in range(4)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with nothing of ours but the namespace."""
    with a_cluster(tmp_path_factory.mktemp("check")) as cluster:
        with cluster.api() as api:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            api.call("POST", "/api/v1/namespaces", body)
            account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
            until(lambda: api.request("GET", account)[0] == 200)
        yield cluster


@pytest.fixture(scope="module")
def installed(bare: LocalCluster) -> LocalCluster:
    """The same with everything that is installed, one node's report and one agent."""
    install_all(bare)
    report = {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "NodeDevices",
        "metadata": {"name": "node-1"},
        "spec": {"devices": [*TURNS, {"id": "GPU-1"}, {"id": "GPU-2", "health": "unhealthy"}]},
    }
    with bare.api() as api:
        api.call("POST", "/apis/gpufleet.io/v1alpha1/nodedevices", report)
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": SCHEDULER_LEASE},
        }
        api.call("POST", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease)
    return bare


@contextlib.asynccontextmanager
async def connected(cluster: LocalCluster) -> AsyncIterator[Client]:
    transport = HttpTransport(find_access(kubeconfig=cluster.kubeconfig), connections=2)
    try:
        yield Client(transport, MachineClock(), random.Random(1))
    finally:
        await transport.close()


async def renew(client: Client) -> None:
    """What a leader does, a little faster."""
    while True:
        spec = {"holderIdentity": "one", "renewTime": micro_time(datetime.now(UTC))}
        await client.patch(LEASES, SCHEDULER_LEASE, {"spec": spec}, namespace=NAMESPACE)
        await asyncio.sleep(0.2)


def found(cluster: LocalCluster, *, led: bool = False) -> dict[str, bool]:
    """What is found, by its sentence."""

    async def look() -> list[InstallationFinding]:
        async with connected(cluster) as client, asyncio.TaskGroup() as group:
            leader = group.create_task(renew(client)) if led else None
            await asyncio.sleep(0.3 if led else 0)
            told = [one async for one in findings(client, NAMESPACE)]
            if leader is not None:
                leader.cancel()
            return told
        raise AssertionError

    return {one.sentence: one.good for one in asyncio.run(look())}


def test_on_a_bare_cluster_everything_is_missing(bare: LocalCluster) -> None:
    said = found(bare)
    assert list(said.values()) == [False, False, False, False, True]
    assert any(
        "would drop NodeDevices, NodeData, FleetQueue, FleetPolicy, GpuProject" in sentence
        for sentence in said
    )
    assert "the kind NodeDevices is not served: install the chart with crds.install=true" in said
    assert any("gpufleet-grant-guard is not in force" in sentence for sentence in said)
    assert any(sentence.startswith("no scheduler leads") for sentence in said)
    assert main(["check", f"--kubeconfig={bare.kubeconfig}"]) == 3


def test_what_is_at_work_is_said(installed: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    until(lambda: "a pod that names its own devices is refused" in found(installed, led=True))
    assert found(installed, led=True) == {
        "NodeDevices are served": True,
        "the cluster's definitions know every field of this release": True,
        "a pod that names its own devices is refused": True,
        "the scheduler 'one' leads": True,
        f"there is no DaemonSet gpufleet-agent in {NAMESPACE}: what nodes report comes from elsewhere": True,
        "1 node reports 3 GPUs, 1 of them out of service": True,
    }
    assert capsys.readouterr().err == ""


def test_a_leader_that_does_not_renew_does_not_lead(
    installed: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpufleet.kube.installation.RENEWED_WITHIN_S", 1.0)
    assert found(installed)["no scheduler leads: 'one' has not renewed its Lease for 1 s"] is False
