"""The page while parts of a cluster are away: a killed scheduler, an API server, a token that ends."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import leads
from tests.scheduler.test_queues_on_a_real_server import add_pod
from tests.waiting import until
from tests.web.people import account, bind
from tests.web.web_server import web_server

AWAY_S = 90.0
LEASE_S = 5
KILLED_AGAIN_S = 0.1
"""The supervisor starts a program again a second after its end."""


@contextlib.contextmanager
def away(cluster: LocalCluster, program: str) -> Iterator[None]:
    """Kill a program as often as it is started again, during the block."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(KILLED_AGAIN_S):
            with contextlib.suppress(OSError):
                os.kill(cluster.pid(program), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node, and nothing that schedules."""
    with a_cluster(tmp_path_factory.mktemp("faults"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(1, 4, gpu_model("H100-80GB")))
        yield running


def test_a_scheduler_that_is_killed_is_told_and_the_rows_stay(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kubeconfig = cluster.kubeconfig_for(DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups)
    command = [sys.executable, "-m", "gpufleet", "scheduler", f"--lease-seconds={LEASE_S}"]
    scheduler = subprocess.Popen(
        [*command, f"--kubeconfig={kubeconfig}", "--listen=127.0.0.1:0"], stderr=subprocess.DEVNULL
    )
    try:
        with cluster.api() as api:
            until(lambda: leads(api), 300)
        with (
            web_server(cluster.kubeconfig, tmp_path_factory.mktemp("web")) as server,
            server.logged_in().stream() as stream,
        ):
            stream.until(lambda one: bool(one.rows.get("nodes")) and not one.source.get("problems"))
            scheduler.kill()
            scheduler.wait(30)
            stream.until(lambda one: "no gpufleet scheduler leads" in str(one.source.get("problems")))
            assert stream.source["state"] == "live"
            assert set(stream.rows["nodes"]) == {"gpu-001"}
            with cluster.api() as api:
                add_pod(api, "after", "nowhere", 1)
            stream.until(lambda one: "pod/default/after" in one.rows["work"])
    finally:
        scheduler.kill()
        scheduler.wait(30)


def test_an_api_server_that_is_away_is_told_with_the_time_and_found_again(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        web_server(cluster.kubeconfig, tmp_path_factory.mktemp("web")) as server,
        server.logged_in().stream() as stream,
    ):
        stream.until(lambda one: bool(one.rows.get("nodes")) and one.source["state"] == "live")
        with away(cluster, "kube-apiserver"):
            stream.until(lambda one: one.source["state"] == "away", AWAY_S)
            assert stream.source["as_of"]
            assert stream.source["why"]
            assert set(stream.rows["nodes"]) == {"gpu-001"}
        stream.until(lambda one: one.source["state"] == "live", AWAY_S)
        with cluster.api() as api:
            add_pod(api, "after", "nowhere", 1)
        stream.until(lambda one: "pod/default/after" in one.rows["work"], AWAY_S)


def test_a_token_that_ends_ends_the_stream(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with cluster.api() as api:
        account(api, "leaves")
        bind(api, "leaves", "gpufleet-explain")
        path = "/api/v1/namespaces/default/serviceaccounts/leaves"
        token = api.call("POST", f"{path}/token", {"spec": {"expirationSeconds": 600}})["status"]["token"]
        with web_server(cluster.kubeconfig, tmp_path_factory.mktemp("web"), "--login=cluster") as server:
            browser = server.browser(token=str(token))
            with browser.stream() as stream:
                stream.until(lambda one: bool(one.rows.get("nodes")))
                # A token of an account that is gone has ended.
                api.call("DELETE", path)
                began_s = time.monotonic()
                stream.until(lambda one: one.ended is not None, 150)
                assert stream.ended["login"]
                assert time.monotonic() - began_s < 130
            assert browser.ask("/api/about").status == 401
