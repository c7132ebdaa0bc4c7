"""Two ledgers on a real API server, with the chart's rights: the second goes on where the first was ended."""

import asyncio
import datetime as dt
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpufleet.kube import resources
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.kube_errors import KubeError
from gpufleet.ledger import service
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.object_versions import READERS
from gpufleet.ledger.open_months import OpenMonths
from gpufleet.ledger.service import Ledger
from gpufleet.ledger.spent_budgets import BudgetFiles, SpentBudgets
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
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpufleet-ledger"
"""The account of the ledger's pod."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with gpufleet's kinds and the ledger's rights, bound to a user."""
    folder = tmp_path_factory.mktemp("ledger")
    place = folder / "cluster"
    place.mkdir()
    with a_cluster(place) as running:
        with running.api() as api:
            manifests.install(api, definitions(folder / "definitions"))
            objects = rendering.rendered({"ledger": {"enabled": True, "budgets": {"configMap": "budgets"}}})
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            api.request("POST", "/api/v1/namespaces", namespace)
            for kind, path in (
                ("ValidatingAdmissionPolicy", f"{ADMISSION}/validatingadmissionpolicies"),
                ("ValidatingAdmissionPolicyBinding", f"{ADMISSION}/validatingadmissionpolicybindings"),
                ("ClusterRole", f"{RBAC}/clusterroles"),
                ("ClusterRoleBinding", f"{RBAC}/clusterrolebindings"),
                ("Role", f"{RBAC}/namespaces/{NAMESPACE}/roles"),
                ("RoleBinding", f"{RBAC}/namespaces/{NAMESPACE}/rolebindings"),
            ):
                found = rendering.one(objects, kind, "gpufleet-ledger")
                if "subjects" in found:
                    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User"}
                    found = {**found, "subjects": [{**user, "name": name} for name in ("ledger", ACCOUNT)]}
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


def written(folder: Path, amount: str) -> BudgetFiles:
    """A node costs 277.78 EUR a second; its budget holds the queue ``team``."""
    prices, budgets = folder / "prices.csv", folder / "budgets.csv"
    prices.write_text("unit,amount,currency,gpu_amount\nnode-hour,1000000,EUR,1\n", encoding="utf-8")
    heading = "by,name,period,amount,currency,holds\n"
    budgets.write_text(f"{heading}node,dear,month,{amount},EUR,team\n", encoding="utf-8")
    return BudgetFiles((prices,), budgets)


async def hold_and_release(cluster: LocalCluster, folder: Path) -> tuple[Any, Any, Any]:
    """What a queue says while its budget is spent and after it was raised; how another write is refused."""
    choice = ClusterChoice(cluster.kubeconfig_for(ACCOUNT))
    async with (
        connect(ClusterChoice(cluster.kubeconfig)) as admin,
        connect(choice, connections=12) as ours,
    ):

        async def budget() -> Any:
            queue = json.loads(await admin.client.get(resources.FLEET_QUEUES, "team"))
            return queue.get("status", {}).get("budget")

        await admin.client.create(resources.NODES, {"metadata": {"name": "dear"}})
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
        queue = {**kind, "metadata": {"name": "team"}, "spec": {}}
        await admin.client.create(resources.FLEET_QUEUES, queue)
        budgets = SpentBudgets(ours.client, written(folder, "300"))
        ledger = Ledger(ours.client, NAMESPACE, "one", partial(MonthFiles, folder), budgets)
        leading = asyncio.create_task(ledger.run())
        held = await until_there(budget, lambda found: found is not None)
        written(folder, "1000000000")
        released = await until_there(budget, lambda found: found is None)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        refusal = None
        try:
            body = {"status": {"immunePods": ["a"]}}
            await ours.client.patch(resources.FLEET_QUEUES, "team", body, subresource="status")
        except KubeError as error:
            refusal = error
        return held, released, refusal


async def until_there(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> Any:
    """What is read as soon as that holds of it."""
    for _ in range(300):
        found = await read()
        if holds(found):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"still {found}")


def test_a_spent_budget_holds_its_queue_until_it_is_raised_and_no_more_may_be_written(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ROUND_S", ROUND_S)
    monkeypatch.setattr(service, "CHECK_EVERY_S", ROUND_S)
    held, released, refusal = asyncio.run(hold_and_release(cluster, tmp_path))
    assert held["spent"].startswith("node dear, 300.00 EUR until ")
    begun, until = (dt.datetime.fromisoformat(held[key]) for key in ("checkedAt", "heldUntil"))
    assert dt.timedelta(0) < until - begun <= dt.timedelta(hours=1)
    assert released is None
    assert "status.budget of a FleetQueue and nothing else" in str(refusal)


def later(seen: list[Observation], begin_us: int) -> set[tuple[str, int]]:
    """The versions of pods that are younger than a moment."""
    return {(one.uid, one.number) for one in seen if isinstance(one, PodVersion) and one.at_us > begin_us}
