"""The view at a real terminal, with what a real Prometheus scraped of a real agent's page."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import NODE_DEVICES, SimulatedNodes, gpu_model
from tests.agent.test_process import an_agent, fetched
from tests.alerts.test_faults_on_a_real_agent import count, port_of
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.top.pty_terminal import PtyTerminal
from tests.top.test_on_a_real_server import TOP, environment
from tests.usage.prometheus.server import prometheus
from tests.waiting import until

NODE = "gpu-001"
MEASURED = re.compile(rf"^{NODE} .* ready .* \d+%  +\d+%  +\d+W  +\d+C ", re.MULTILINE)
SGR = re.compile(r"\x1b\[[0-9;]*m")


class Fleet(NamedTuple):
    """Where a view looks."""

    kubeconfig: Path
    prometheus: str


def cards_of(agent: Path) -> list[str]:
    """The UUIDs on the agent's page."""
    _, page = fetched(agent, "/metrics")
    return sorted(set(re.findall(r'gpufleet_gpu_busy_ratio\{[^}]*uuid="([^"]+)"', page)))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two nodes in an API server; the first has an agent, whose page Prometheus scrapes each second."""
    folder = tmp_path_factory.mktemp("top")
    agent = folder / "agent"
    agent.mkdir()
    with (
        a_cluster(folder / "cluster", options=Options(kubernetes=KUBERNETES)) as running,
        an_agent(agent, f"--node-name={NODE}", "--sample-every-s=1"),
    ):
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 8, gpu_model("H100-80GB")))
            # The agent measures card by card: its first page may have some of them.
            until(lambda: len(cards_of(agent)) == 8)
            # The simulated cards are those that the agent tells of.
            report = api.call("GET", f"{NODE_DEVICES}/{NODE}")
            for device, uuid in zip(report["spec"]["devices"], cards_of(agent), strict=True):
                device["id"] = uuid
            api.call("PUT", f"{NODE_DEVICES}/{NODE}", report)
        scrape = (
            "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: agents\n  honor_labels: true\n"
            f'  static_configs: [{{targets: ["127.0.0.1:{port_of(agent)}"]}}]\n'
        )
        with prometheus(folder, None, scrape) as address:
            until(lambda: count(address, "gpufleet_gpu_busy_ratio") == 8)
            yield Fleet(running.kubeconfig, address)


def terminal(fleet: Fleet, *arguments: str, width: int = 80, **more: str) -> PtyTerminal:
    command = (*TOP, *arguments, "--prometheus", fleet.prometheus)
    return PtyTerminal(command, {**environment(fleet.kubeconfig), **more}, width=width)


def shows_all(screen: str) -> bool:
    """The first node's use is shown, and nothing is being read any more."""
    plain = SGR.sub("", screen)
    return bool(MEASURED.search(plain)) and plain.splitlines()[0].endswith("live")


def test_eighty_columns_show_what_was_scraped_of_one_node_and_nothing_of_the_other(fleet: Fleet) -> None:
    with terminal(fleet) as seen:
        # Use may be there before the engine has judged, and the header says "reading" until both are.
        screen = SGR.sub("", seen.until(shows_all))
        assert max(map(len, screen.splitlines())) <= 80
        other = next(line for line in screen.splitlines() if line.startswith("gpu-002"))
        assert other.split()[-5:-1] == ["?", "?", "?", "?"]
        seen.press("q")
        assert seen.ended() == 0
        assert seen.is_restored()


@pytest.mark.parametrize("keys", ["q", "\x1b[21~", "\x03"], ids=["q", "F10", "Ctrl-C"])
def test_each_key_that_ends_it_restores_the_terminal(fleet: Fleet, keys: str) -> None:
    with terminal(fleet, NO_COLOR="1") as seen:
        seen.until(lambda screen: bool(MEASURED.search(SGR.sub("", screen))))
        assert set(SGR.findall(seen.written)) <= {"\x1b[0m"}
        seen.press(keys)
        assert seen.ended() == 0
        assert seen.is_restored()


def fills(width: int, height: int, screen: str) -> bool:
    rows = SGR.sub("", screen).splitlines()
    return len(rows) == height and max(map(len, rows)) <= width


def test_another_size_is_filled_and_the_numbers_stay(fleet: Fleet) -> None:
    with terminal(fleet, width=160) as seen:
        seen.until(lambda screen: "MODEL" in screen and bool(MEASURED.search(SGR.sub("", screen))))
        for width, height in ((80, 24), (60, 12), (200, 40)):
            seen.resize(width, height)
            screen = seen.until(partial(fills, width, height))
            assert NODE in screen
        seen.press("q")
        assert seen.ended() == 0
