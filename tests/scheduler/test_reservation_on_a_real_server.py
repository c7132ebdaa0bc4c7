"""Reservations on a real server: a gang waits, only work that ends before it or makes room for it runs, and
the gang starts.
"""

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.explain.answer import Answer
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import PODS, node_of, scheduler_at_work
from tests.waiting import until

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with one node of two GPUs and a queue whose work reserves at once."""
    with a_cluster(tmp_path_factory.mktemp("reserving"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            api.call("POST", QUEUES, {**kind, "metadata": {"name": "team"}, "spec": {"reserveAfter": "0s"}})
        simulated_nodes.create(running, SimulatedNodes(1, 2, gpu_model("H100-80GB")))
        yield running


def add_pod(api: Api, name: str, **annotations: str) -> None:
    """A pod of the team that wants one GPU."""
    container = {
        "name": "c",
        "image": "example.com/none",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"schedulerName": "gpufleet", "containers": [container], "automountServiceAccountToken": False}
    metadata = {"name": name, "labels": {"gpufleet.io/queue": "team"}, "annotations": annotations}
    api.call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def end(api: Api, name: str) -> None:
    """A pod has done its work."""
    api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


def end_all(api: Api) -> None:
    """Nothing is left of an earlier test."""
    for pod in api.call("GET", PODS)["items"]:
        end(api, pod["metadata"]["name"])


def is_gone(api: Api, name: str) -> bool:
    return all(pod["metadata"]["name"] != name for pod in api.call("GET", PODS)["items"])


def reservation(api: Api) -> dict[str, Any]:
    """What the queue's status tells of a reservation."""
    found: dict[str, Any] = api.call("GET", f"{QUEUES}/team").get("status", {}).get("reservation", {})
    return found


def explained(cluster: LocalCluster, name: str) -> Answer:
    """``gpufleet explain``."""

    async def work() -> Answer:
        transport = HttpTransport(find_access(kubeconfig=cluster.kubeconfig), connections=8)
        try:
            client = Client(transport, MachineClock(), random.Random(1))
            return await ask(client, Settings(identity="explain"), name, "default", lambda _: None)
        finally:
            await transport.close()

    return asyncio.run(work())


def test_a_gang_waits_with_a_reservation_that_a_new_leader_holds_on_and_then_starts(
    cluster: LocalCluster,
) -> None:
    with cluster.api() as api:
        with scheduler_at_work(cluster):
            add_pod(api, "old", **{"gpufleet.io/run-time": "2h"})
            until(lambda: node_of(api, "old") != "")
            for name in ("gang-0", "gang-1"):
                add_pod(api, name, **GANG)
            # What was made in one second goes by name; the gang is to be the elder.
            time.sleep(1.1)
            add_pod(api, "quick", **{"gpufleet.io/run-time": "30m"})
            add_pod(api, "slow")
            until(lambda: node_of(api, "quick") != "")
            until(lambda: len(reservation(api).get("waitsFor", [])) == 2)
            before = reservation(api)
            assert (before["name"], len(before["places"])) == ("gang/default/train", 2)
        with scheduler_at_work(cluster):
            end(api, "quick")
            until(lambda: explained(cluster, "slow").cause == "reservation")
            assert "gang default/train of queue team holds a reservation" in explained(cluster, "slow").why
            until(lambda: len(reservation(api).get("waitsFor", [])) == 1)
            assert node_of(api, "slow") == ""
            after = reservation(api)
            assert (after["since"], after["places"]) == (before["since"], before["places"])
            end(api, "old")
            until(lambda: node_of(api, "gang-0") != "" and node_of(api, "gang-1") != "")
            assert node_of(api, "slow") == ""


def test_a_guest_runs_where_a_gang_will_start_and_makes_room_for_it(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        end_all(api)
        with scheduler_at_work(cluster):
            add_pod(api, "elder")
            until(lambda: node_of(api, "elder") != "")
            for name in ("band-0", "band-1"):
                add_pod(api, name, **{**GANG, "gpufleet.io/gang": "band"})
            until(lambda: reservation(api).get("name") == "gang/default/band")
            add_pod(api, "visitor", **{"gpufleet.io/interruptible": "true"})
            until(lambda: node_of(api, "visitor") != "")
            until(lambda: len(reservation(api).get("waitsFor", [])) == 2)
            (note,) = explained(cluster, "visitor").notes
            assert note.startswith("it may be interrupted, and is evicted when gang default/band of queue")
            end(api, "elder")
            until(lambda: is_gone(api, "visitor"))
            until(lambda: node_of(api, "band-0") != "" and node_of(api, "band-1") != "")
