"""Pages of exporters scraped by a real Prometheus, which makes the labels as it does in a cluster."""

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.devices.sharing.plan import TimeSlice
from gpufleet.model.model_errors import InputError
from gpufleet.usage.prometheus.access import read_access
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.gpu_use import gpu_use
from gpufleet.usage.prometheus.pod_samples import GpuUse
from gpufleet.usage.prometheus.window import window_until
from tests.agent.exporter.builders import CUT_H100, Node, holds, memory, node_of, pod, sample
from tests.usage.prometheus.server import prometheus

GIVE_UP_S = 60
H100 = "model: H100-80GB"


def page_of_dcgm_exporter() -> str:
    """One card that a pod holds, one that nobody does, as dcgm-exporter writes them."""
    card = 'modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
    held = f'gpu="0",UUID="GPU-8",{card},container="main",namespace="team-a",pod="train"'
    idle = f'gpu="1",UUID="GPU-9",{card}'
    return "".join(
        f"{metric}{{{labels}}} {value}\n"
        for metric, values in (("DCGM_FI_DEV_GPU_UTIL", (33, 0)), ("DCGM_FI_DEV_FB_USED", (4000, 0)))
        for labels, value in zip((held, idle), values, strict=True)
    )


def page_of_the_agent() -> str:
    """The same node as gpufleet's agent tells of it."""
    node = Node(node_of(H100, H100))
    node.has(pod("train"))
    node.gave(holds("train", node.card()))
    node.reads(0, sample(gpu_busy_pct=33, memory=memory(4000)))
    node.reads(1, sample(gpu_busy_pct=0, memory=memory(0)))
    return node.scrape().text


def page_of_a_cut_card() -> str:
    """A pod on a MIG instance of the agent's node."""
    gpus = node_of(CUT_H100)
    node = Node(gpus)
    instance = gpus.gpus[0].facts.mig[0].uuid
    node.has(pod("train"))
    node.gave(holds("train", instance))
    node.reads(0, sample(memory=memory(9)), {instance: sample(memory=memory(400))})
    return node.scrape().text


def page_of_a_shared_card() -> str:
    """Two pods on replicas of one card, each told by itself."""
    node = Node(node_of(H100, modes={0: TimeSlice(2)}), ExporterOptions(virtual_gpus=True))
    node.has(pod("train"), pod("other"))
    node.gave(holds("train", f"{node.card()}::0"), holds("other", f"{node.card()}::1"))
    node.reads(0, sample(gpu_busy_pct=80, memory=memory(4000)))
    return node.scrape().text


@contextmanager
def serving(page: str) -> Iterator[int]:
    """The port on which this page is served."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Silence."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def on_node(page: str, name: str) -> str:
    """The page of another node, with its own cards and pods."""
    page = page.replace('UUID="', f'UUID="{name}-').replace('Hostname="n1"', f'Hostname="{name}"')
    return page.replace('pod="train"', f'pod="train-{name}"').replace('pod="other"', f'pod="other-{name}"')


def test_with_and_without_honoured_labels_exporters_tell_the_same(tmp_path: Path) -> None:
    pages = {
        "dcgm": page_of_dcgm_exporter(),
        "agent": page_of_the_agent(),
        "cut": page_of_a_cut_card(),
        "shared": page_of_a_shared_card(),
    }
    use = scraped(tmp_path, pages)
    names = {f"{kind}-{honored}" for kind in ("dcgm", "agent") for honored in ("true", "false")}
    assert {(one.namespace, one.pod, one.node, one.gpu_milli, one.memory_mib) for one in use.samples} == {
        ("team-a", f"train-{name}", name, 330, 4000) for name in names
    }
    assert {card.host for card in use.cards if card.is_free} == names
    cut, shared = (next(note for note in use.notes if word in note) for word in ("MIG", "together"))
    assert cut.startswith("team-a/train-cut-false, team-a/train-cut-true run on parts of cards")
    assert shared.startswith(
        "team-a/other-shared-false, team-a/other-shared-true, team-a/train-shared-false and 1"
    )


def scraped(folder: Path, pages: dict[str, str]) -> GpuUse:
    """What is made of these pages, each scraped as two nodes: with and without honouring labels."""
    config = "scrape_configs:\n"
    with ExitStack() as servers:
        for kind, page in pages.items():
            for honored in ("true", "false"):
                name = f"{kind}-{honored}"
                port = servers.enter_context(serving(on_node(page, name)))
                config += (
                    f"  - job_name: {name}\n    scrape_interval: 1s\n    honor_labels: {honored}\n"
                    f'    static_configs:\n      - targets: ["127.0.0.1:{port}"]\n'
                    "        labels: {namespace: gpu-operator, pod: exporter-x, container: exporter}\n"
                )
        url = servers.enter_context(prometheus(folder, None, config))
        return _when_all_are_there(url, 2 * len(pages))


def _when_all_are_there(url: str, nodes: int) -> GpuUse:
    give_up = time.monotonic() + GIVE_UP_S
    while True:
        try:
            use = gpu_use(Prometheus(read_access(url)), window_until(int(time.time()), 60, 2))
        except InputError:
            use = None
        if use is not None and len({card.host for card in use.cards}) == nodes:
            return use
        assert time.monotonic() < give_up
        time.sleep(0.2)
