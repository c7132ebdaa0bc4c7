"""``gpufleet top`` and the page on a real API server while their Prometheus lies or hangs: the fleet stays,
and what is wrong with its use is said.
"""

import subprocess
from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.top.test_on_a_real_server import TOP, environment
from tests.usage.prometheus.lying_server import NODE, Lie, lying
from tests.web.web_server import web_server

SAID = {
    Lie.HANGS: "did not answer within 10 s|no whole answer within 8 s",
    Lie.GARBAGE: "does not answer as Prometheus does",
    Lie.CACHED: "answers about another time than it was asked for",
    Lie.NOT_A_NUMBER: "has no metrics of gpufleet's agents",
    Lie.OTHER_CLUSTER: f"tells of other GPUs than those of {NODE}: is it another cluster's?",
    Lie.TWO_CLUSTERS: "has series of 2 clusters (east, west); name one of them (--prometheus-cluster)",
}
ALL = pytest.mark.parametrize("lie", SAID, ids=lambda lie: lie.name.lower())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes, and nothing that schedules."""
    with a_cluster(tmp_path_factory.mktemp("liar"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 2, gpu_model("H100-80GB")))
        yield running


@ALL
def test_the_table_has_all_nodes_and_the_reason_stands_beside_it(lie: Lie, cluster: LocalCluster) -> None:
    with lying(lie) as server:
        command = (*TOP, "node", f"--prometheus={server.url}")
        engine_report = subprocess.run(
            command,
            env=dict(environment(cluster.kubeconfig)),
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
    lines = [line.split() for line in engine_report.stdout.splitlines()[1:]]
    assert [line[0] for line in lines] == [NODE, "gpu-002"]
    assert all("?" in line for line in lines)
    assert any(sentence in engine_report.stderr for sentence in SAID[lie].split("|"))


def test_the_page_tells_why_and_shows_no_use(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("web")
    with (
        lying(Lie.GARBAGE) as prometheus,
        web_server(cluster.kubeconfig, folder, f"--prometheus={prometheus.url}") as server,
    ):
        browser = server.logged_in()
        with browser.stream() as stream:
            stream.until(lambda one: set(one.rows.get("nodes", ())) == {NODE, "gpu-002"})
        for lie in (Lie.GARBAGE, Lie.CACHED, Lie.OTHER_CLUSTER, Lie.TWO_CLUSTERS, Lie.HANGS):
            prometheus.lie = lie
            engine_report = browser.get(f"/api/node/{NODE}")
            assert "use" not in engine_report
            sentence = "use was not measured within 5 s" if lie is Lie.HANGS else SAID[lie]
            assert sentence in engine_report["use_unknown"]
        asked = prometheus.asked
        # Who looks next does not wait for it.
        assert "not measured within 5 s" in browser.get("/api/node/gpu-002")["use_unknown"]
        assert prometheus.asked == asked
