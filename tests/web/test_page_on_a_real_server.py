"""The page in Chromium over ``gpufleet web`` on a real API server: its login, rows that come, and a scheduler
that is killed and comes back.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.chromium import chromium, needs_chromium
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import scheduler_at_work, started
from tests.scheduler.test_queues_on_a_real_server import add_pod, add_queue
from tests.web.watched_page import WatchedPage, address, watched
from tests.web.web_server import Server, web_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium
WAIT_MS = 90_000
RUNS = re.compile("placed|runs")
SINCE = re.compile(r"renewed its Lease last [0-9]+ s ago: nothing starts")
"""The words of the banner: since when nothing is decided."""

LEASE_S = 15
"""The Lease of a scheduler that is killed ends after so long."""

VIEWS = (
    address("fleet"),
    address("queue", "research"),
    address("work", "pod", "default", "over"),
    address("decisions"),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes of four GPUs and a queue; no scheduler yet."""
    with a_cluster(tmp_path_factory.mktemp("page"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
            add_queue(api, "research", quotas=[{"resource": "gpu", "nominal": 4, "borrowingLimit": 0}])
        yield running


@pytest.fixture(scope="module")
def server(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with web_server(cluster.kubeconfig, tmp_path_factory.mktemp("own")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as launched:
        yield launched


def has_words(seen: WatchedPage, words: str) -> None:
    """Wait until the view has these words."""
    seen.page.locator("main", has_text=words).wait_for(timeout=WAIT_MS)


def test_the_page_follows_a_cluster_and_tells_of_a_scheduler_that_is_killed_and_comes_back(
    browser: "Browser", cluster: LocalCluster, server: Server
) -> None:
    with (
        watched(browser, f"http://127.0.0.1:{server.port}/", has_clock=True) as seen,
        ExitStack() as scheduler,
    ):
        seen.page.goto(f"http://127.0.0.1:{server.port}/")
        has_words(seen, "open the URL that `gpufleet web` printed".capitalize())
        seen.complaints.clear()
        seen.page.goto(server.url)
        killed = started(cluster, f"--lease-seconds={LEASE_S}")
        scheduler.callback(killed.stop)
        with cluster.api() as api:
            add_pod(api, "fits", "research", 3)
            add_pod(api, "over", "research", 2)
        has_words(seen, "3 of 8 GPUs held")
        for view in VIEWS:
            seen.look_at(view)
            assert seen.violations() == []
        seen.look_at(address("work", "pod", "default", "over"))
        has_words(seen, "queue-quota")
        seen.look_at(address("plans"))
        seen.page.get_by_role("combobox").first.select_option("set_quota")
        seen.page.get_by_label("QUEUE.RESOURCE=VALUE").fill("research.gpu=8")
        seen.page.get_by_role("button", name="Ask").click()
        has_words(seen, "1 pod would start")
        seen.look_at(address("work"))
        before = seen.rows()
        # Its Lease stays, and ends by itself.
        killed.process.kill()
        banner = seen.page.locator(".banner", has_text=SINCE)
        banner.wait_for(timeout=WAIT_MS)
        assert seen.rows() == before
        assert seen.violations() == []
        with cluster.api() as api:
            add_pod(api, "late", "research", 1)
        seen.page.locator(".notice span", has_text="1 new row").wait_for(timeout=WAIT_MS)
        seen.page.get_by_role("button", name="Show").click()
        late = seen.page.locator("tr[data-key='pod/default/late']")
        late.wait_for(timeout=WAIT_MS)
        scheduler.enter_context(scheduler_at_work(cluster))
        late.filter(has_text=RUNS).wait_for(timeout=WAIT_MS)
        seen.page.locator(".banner").wait_for(state="hidden", timeout=WAIT_MS)
        assert seen.complaints == []
