"""The page's server on a real API server: rows as they change, details, plans, and what is refused."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.alerts.promtool import all_alerts
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import PODS, scheduler_at_work, why
from tests.scheduler.test_queues_on_a_real_server import add_pod, add_queue
from tests.usage.prometheus.server import free_port
from tests.waiting import until
from tests.web.web_server import Server, Stream, web_server

ENGINE_S = 400.0
"""The first answer of the engine may have to wait for its kernels to be compiled."""

MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def listen() -> int:
    """The port at which the scheduler serves its metrics."""
    return free_port()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, listen: int) -> Iterator[LocalCluster]:
    """Two nodes of four GPUs, a queue, two pods of which one has no room in its quota, and a scheduler."""
    with a_cluster(tmp_path_factory.mktemp("web"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
            add_queue(api, "research", quotas=[{"resource": "gpu", "nominal": 4, "borrowingLimit": 0}])
        with scheduler_at_work(running, f"--listen=127.0.0.1:{listen}"):
            with running.api() as api:
                add_pod(api, "fits", "research", 3)
                add_pod(api, "over", "research", 2)
            yield running


@pytest.fixture(scope="module")
def server(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of the one who started it."""
    with web_server(cluster.kubeconfig, tmp_path_factory.mktemp("own")) as found:
        yield found


def waits_for_quota(stream: Stream) -> bool:
    row = stream.rows.get("work", {}).get("pod/default/over", {})
    return bool(row.get("cause") == "queue-quota")


def test_every_view_comes_and_follows_the_cluster(cluster: LocalCluster, server: Server) -> None:
    with server.logged_in().stream() as stream:
        stream.until(waits_for_quota, ENGINE_S)
        stream.until(lambda one: bool(one.rows["work"]["pod/default/fits"].get("node")))
        node = stream.rows["nodes"][stream.rows["work"]["pod/default/fits"]["node"]]
        assert node["gpus"] == 4
        assert sum(card.get("held_milli", 0) for card in node["cards"]) == 3000
        assert {holder["name"] for card in node["cards"] for holder in card.get("holders", ())} == {"fits"}
        assert node["free_gpus"] == 1
        assert stream.rows["fleet"]["fleet"]["largest_free_block"] == 4
        stream.until(lambda one: one.rows["queues"].get("research", {}).get("pods_waiting") == 1)
        waiting = stream.rows["queues"]["research"]["waiting"]
        assert [(one["name"], one["position"]) for one in waiting] == [("over", 1)]
        assert stream.rows["decisions"]["pod/default/fits"]["what"] == "placed"
        assert stream.source["state"] == "live"
        with cluster.api() as api:
            add_pod(api, "later", "research", 1)
            stream.until(lambda one: bool(one.rows["work"].get("pod/default/later", {}).get("node")))
            api.call("DELETE", f"{PODS}/later?gracePeriodSeconds=0")
            stream.until(lambda one: "pod/default/later" not in one.rows["work"])


def test_a_stream_goes_on_where_it_was_cut(server: Server) -> None:
    browser = server.logged_in()
    with browser.stream() as stream:
        stream.until(waits_for_quota, ENGINE_S)
        stream.until(lambda one: bool(one.last_id))
        last_id = stream.last_id
    with browser.stream(last_id) as again:
        assert again.next().name == "source"
        assert "view" not in {one.name for one in again.seen}


def test_work_and_nodes_have_their_details(server: Server) -> None:
    browser = server.logged_in()
    with browser.stream() as stream:
        stream.until(waits_for_quota, ENGINE_S)
        node = stream.until(lambda one: bool(one.rows["work"]["pod/default/fits"].get("node"))).rows["work"][
            "pod/default/fits"
        ]["node"]
    waits = browser.get("/api/work/pod/default/over")
    assert waits["explanation"]["cause"] == "queue-quota"
    assert waits["row"]["queue"] == "research"
    assert "created" in {one["what"] for one in waits["history"]}
    runs = browser.get("/api/work/pod/default/fits")
    assert [device["node"] for device in runs["devices"]] == [node] * 3
    found = browser.get(f"/api/node/{node}")
    assert {pod["key"] for pod in found["pods"]} == {"pod/default/fits"}
    assert found["use_unknown"]
    assert any(one["type"] == "Ready" for one in found["conditions"])


def test_a_plan_is_only_asked(server: Server) -> None:
    browser = server.logged_in()
    plan = browser.get("/api/plans?set_quota=research.gpu=8")
    assert [work["name"] for work in plan["starts"]] == ["over"]
    refused = browser.ask("/api/plans?add_nodes=many")
    assert refused.status == 400
    assert refused.document["field"] == "--add-nodes"
    assert browser.ask("/api/plans").status == 400
    assert browser.ask("/api/plans?submit=x").document["value"] == "submit"


def test_problems_are_those_of_the_doctor(cluster: LocalCluster, server: Server) -> None:
    with cluster.api() as api:
        api.call("PATCH", "/api/v1/nodes/gpu-002", {"spec": {"unschedulable": True}}, MERGE)
        found = server.logged_in().get("/api/problems")
        command = [sys.executable, "-m", "gpufleet", "doctor", "-o", "json"]
        told = subprocess.run(
            [*command, f"--kubeconfig={cluster.kubeconfig}"], capture_output=True, check=False, timeout=120
        )
        api.call("PATCH", "/api/v1/nodes/gpu-002", {"spec": {"unschedulable": False}}, MERGE)
    causes = json.loads(told.stdout)["causes"]
    assert found["is_healthy"] is not bool(causes)
    assert found.get("causes", []) == causes
    assert "Prometheus" in found["alerts_unknown"]


def notes(api: Api, name: str) -> list[str]:
    """What Events say of a pod."""
    events = api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [str(one["note"]) for one in events if one["regarding"]["name"] == name]


def asked_of(cluster: LocalCluster, *words: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "gpufleet", *words, f"--kubeconfig={cluster.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=ENGINE_S).stdout


WORDS = "waits for quota: queue research uses 3 GPUs of the 4 GPUs, and it needs 2 GPUs"
"""docs/explain.md: what is said of the cause `queue-quota`."""


def test_one_case_has_the_same_words_everywhere(cluster: LocalCluster, server: Server, listen: int) -> None:
    """Condition, Event, ``explain``, page, terminal, and the metrics that alerts are made of."""
    browser = server.logged_in()
    with browser.stream() as stream:
        stream.until(waits_for_quota, ENGINE_S)
        row = stream.rows["work"]["pod/default/over"]
    with cluster.api() as api:
        condition = why(api, "over")
        until(lambda: condition in notes(api, "over"))
    explained = json.loads(asked_of(cluster, "explain", "over", "-o", "json"))
    lines = json.loads(asked_of(cluster, "top", "pod", "-o", "json"))["lines"]
    (line,) = (one for one in lines if one["name"] == "over")
    assert WORDS in condition
    assert row["why"] == line["why"] == condition
    assert explained["why"].startswith(WORDS)
    assert browser.get("/api/work/pod/default/over")["explanation"] == explained
    assert {one["cause"] for one in (row, line, explained)} == {"queue-quota"}
    with urllib.request.urlopen(f"http://127.0.0.1:{listen}/metrics") as answer:
        page = answer.read().decode()
    told = re.findall(r'gpufleet_scheduler_oldest_wait_seconds{cause="([^"]+)",queue="research"}', page)
    assert told == ["queue-quota"]
    (alert,) = (rule["expr"] for rule in all_alerts() if rule["alert"] == "QuotaNeverSuffices")
    (asked_for,) = set(re.findall(r'cause=~"([^"]+)"', alert))
    assert re.fullmatch(asked_for, "queue-quota")
