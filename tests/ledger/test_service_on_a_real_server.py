"""Two ledgers on a real API server, with the chart's rights: the second goes on where the first was ended."""

import asyncio
import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.ledger import service
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.object_versions import READERS
from gpufleet.ledger.open_months import OpenMonths
from gpufleet.ledger.service import Ledger
from gpufleet.ledger.versions import Followed, Gone, NodeVersion, Observation, PodVersion
from gpufleet.localkube import manifests
from gpufleet.localkube.cluster import LocalCluster
from tests.chart import rendering
from tests.ledger.recording import Line, Story, definitions, observed, record
from tests.localkube.cluster import a_cluster
from tests.operator.real_server import until

NAMESPACE = "gpufleet-system"
ROUND_S = 0.3
"""Rounds of a test: a story takes some seconds."""

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with gpufleet's kinds and the ledger's rights, bound to a user."""
    folder = tmp_path_factory.mktemp("ledger")
    place = folder / "cluster"
    place.mkdir()
    with a_cluster(place) as running:
        with running.api() as api:
            manifests.install(api, definitions(folder / "definitions"))
            objects = rendering.rendered({"ledger": {"enabled": True}})
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            api.request("POST", "/api/v1/namespaces", namespace)
            for kind, path in (
                ("ClusterRole", f"{RBAC}/clusterroles"),
                ("ClusterRoleBinding", f"{RBAC}/clusterrolebindings"),
                ("Role", f"{RBAC}/namespaces/{NAMESPACE}/roles"),
                ("RoleBinding", f"{RBAC}/namespaces/{NAMESPACE}/rolebindings"),
            ):
                found = rendering.one(objects, kind, "gpufleet-ledger")
                if "subjects" in found:
                    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ledger"}
                    found = {**found, "subjects": [user]}
                if "namespace" in found["metadata"]:
                    found = {**found, "metadata": {**found["metadata"], "namespace": NAMESPACE}}
                status, answer = api.request("POST", path, found)
                assert status == 201, answer
        yield running


def follows_all(ledger: Ledger) -> bool:
    return ledger.leading is not None and all(one.known_until_us for one in ledger.leading.followers)


async def until_leading(ledger: Ledger) -> None:
    """It follows every kind."""
    await until(lambda: follows_all(ledger), "leads and follows")


async def play(cluster: LocalCluster, folder: Path) -> list[Line]:
    """The story, with the first ledger ended in the midst of it; what an independent watch heard."""
    heard: list[Line] = []
    choice = ClusterChoice(cluster.kubeconfig_for("ledger", ()))
    async with (
        connect(ClusterChoice(cluster.kubeconfig), connections=8) as admin,
        connect(choice, connections=12) as ours,
    ):
        first, second = (
            Ledger(ours.client, NAMESPACE, name, partial(MonthFiles, folder)) for name in ("first", "second")
        )
        hearing = [asyncio.create_task(record(admin.client, kind, heard)) for kind in READERS]
        leading = asyncio.create_task(first.run())
        await until_leading(first)
        follower = asyncio.create_task(second.run())
        story = asyncio.create_task(Story(admin.client).play())
        await asyncio.sleep(random.Random(1).uniform(2.0, 3.0))
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await until_leading(second)
        await story
        await asyncio.sleep(3 * ROUND_S)
        for one in (follower, *hearing):
            one.cancel()
        await asyncio.gather(follower, *hearing, return_exceptions=True)
    return heard


def test_a_ledger_and_its_follower_know_what_an_independent_watch_heard(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ROUND_S", ROUND_S)
    heard = asyncio.run(play(cluster, tmp_path))
    with cluster.api() as api:
        status, system = api.request("GET", "/api/v1/namespaces/kube-system", None)
    assert status == 200, system
    kept = list(OpenMonths(MonthFiles(tmp_path, json.loads(system)["metadata"]["uid"])).log.seen())
    expected = [one for line in heard for one in observed(line)]
    pods = {one.uid for one in expected if isinstance(one, PodVersion) and one.node}
    assert pods <= {one.uid for one in kept if isinstance(one, PodVersion)}
    assert {one.uid for one in expected if isinstance(one, NodeVersion)} <= {
        one.uid for one in kept if isinstance(one, NodeVersion)
    }
    # What the second one followed has every version that the independent watch heard meanwhile.
    begins = max(one.from_us for one in kept if isinstance(one, Followed))
    told = [one for line in heard if line.type in {"ADDED", "MODIFIED"} for one in observed(line)]
    assert later(told, begins) <= later(kept, 0)
    assert {one.uid for one in expected if isinstance(one, Gone) and one.at_us > begins} <= {
        one.uid for one in kept if isinstance(one, Gone)
    }


def later(seen: list[Observation], begin_us: int) -> set[tuple[str, int]]:
    """The versions of pods that are younger than a moment."""
    return {(one.uid, one.number) for one in seen if isinstance(one, PodVersion) and one.at_us > begin_us}
