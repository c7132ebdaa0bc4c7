"""A fleet in which something happens, as a real Prometheus scraped it.

Cluster east is a real API server, our scheduler and a real node with eight simulated GPUs, whose pods really
run. Cluster west is two agents with eight simulated GPUs each. Beside them a page with the names of vLLM's
metrics is served for one of the pods, as no engine runs here. First all is well; then a queue fills, work is
taken back, and cards fail.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gpufleet.agent.gpus.simulation_control import tell
from gpufleet.devices.simulated.orders import AnyOrder, FailRemap, Lose, RaiseXid, SetReading
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node import images
from gpufleet.localkube.node.agent_program import agent_folder
from gpufleet.localkube.node_agent import METRICS_PORT, await_resource, machine_of, start_agent
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.test_process import an_agent
from tests.alerts.test_faults_on_a_real_agent import count, port_of, rules
from tests.localkube.cluster import a_cluster
from tests.scheduler.real_scheduler import scheduler_at_work
from tests.usage.prometheus.server import free_port, prometheus
from tests.waiting import until

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
EIGHT = SimulatedNodes(0, 8, gpu_model("H100-80GB"))
NOMINAL = {"vision": 4, "speech": 2, "product": 2}
BUSY_LABEL = "gpufleet.io/simulated-busy-percent"
SCRAPE_S = 1
"""Often, so that a story of minutes has as many samples as an hour of a fleet."""
SERVED = 6
"""Pages that are scraped: one twice."""


@dataclass(frozen=True)
class Work:
    """A pod: its namespace, which is its queue, its GPUs, and how busy it keeps them."""

    namespace: str
    name: str
    gpus: int
    busy_pct: int


WELL = (
    Work("vision", "train-0", 2, 92),
    Work("vision", "train-1", 1, 85),
    Work("speech", "notebook-0", 1, 2),
    Work("product", "serve-0", 1, 55),
)
"""What runs from the beginning."""
MORE = (
    Work("speech", "asr-0", 2, 95),
    Work("speech", "asr-1", 1, 95),
    Work("speech", "asr-2", 2, 95),
    Work("speech", "too-large", 16, 95),
)
"""What fills a queue: the first two borrow, the third waits, the fourth never fits."""
OWED = Work("product", "serve-1", 1, 60)
"""Takes back what is borrowed."""
EAST: tuple[AnyOrder, ...] = (RaiseXid("7", 95), SetReading("6", "celsius", 93))
WEST: tuple[tuple[AnyOrder, ...], ...] = (
    (
        Lose("0"),
        RaiseXid("1", 79),
        SetReading("2", "throttle-hw-thermal", 40),
        SetReading("3", "uncorrected-errors", 2),
        FailRemap("4"),
        SetReading("5", "nvlink-replay", 30),
    ),
    (RaiseXid("3", 13), SetReading("4", "pcie-replays", 40), SetReading("5", "pcie-width", 8)),
)
"""What happens to the cards of each agent."""
LATER: tuple[tuple[AnyOrder, ...], ...] = (
    (SetReading("3", "uncorrected-errors", 4), SetReading("5", "nvlink-replay", 90)),
    (SetReading("4", "pcie-replays", 160),),
)
"""Counters go on growing."""


@dataclass(frozen=True)
class Fleet:
    """What a story is told with."""

    prometheus: str
    cluster: LocalCluster
    west: Sequence[Path]
    begun_s: float

    def add(self, *work: Work) -> None:
        """Create pods."""
        with self.cluster.api() as api:
            for one in work:
                add_pod(api, one)

    def happen_to_cards(self, orders: Sequence[Sequence[AnyOrder]], east: Sequence[AnyOrder] = ()) -> None:
        """Tell the simulated cards of west, then those of east."""
        for folder, its in zip(self.west, orders, strict=True):
            for order in its:
                tell(folder / "state", order)
        for order in east:
            tell(agent_folder(self.cluster.folder), order)

    def trouble(self, pause_s: float) -> None:
        """A queue fills, borrowed GPUs are taken back, cards fail; with a pause after each."""
        self.add(*MORE)
        time.sleep(pause_s)
        self.add(OWED)
        time.sleep(pause_s)
        self.happen_to_cards(WEST, EAST)
        time.sleep(pause_s)
        self.happen_to_cards(LATER)
        time.sleep(pause_s)


def add_pod(api: Api, work: Work) -> None:
    """A pod on the real node that sleeps, and is said to compute."""
    container: Object = {
        "name": "main",
        "image": images.BUSYBOX,
        "command": ["sh", "-c", "exec sleep 100000"],
        "resources": {"limits": {NVIDIA_GPU: str(work.gpus)}},
    }
    spec: Object = {
        "schedulerName": "gpufleet",
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
    }
    metadata: Object = {"name": work.name, "labels": {BUSY_LABEL: str(work.busy_pct)}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    api.call("POST", f"/api/v1/namespaces/{work.namespace}/pods", body)


def add_queues(api: Api) -> None:
    """A company of three teams, each with a namespace of its name."""
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    api.call("POST", QUEUES, {**kind, "metadata": {"name": "company"}, "spec": {}})
    for name, gpus in NOMINAL.items():
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.call("POST", "/api/v1/namespaces", space)
        quotas = [{"resource": "gpu", "nominal": gpus}]
        spec = {"parent": "company", "namespaces": [name], "quotas": quotas}
        api.call("POST", QUEUES, {**kind, "metadata": {"name": name}, "spec": spec})


def engine_page(since_s: float) -> str:
    """A page with the names of vLLM's metrics; counters grow by the second."""
    age_s = time.monotonic() - since_s
    labels = 'model_name="llama-3.1-8b",engine="0"'
    waiting = max(0.0, 6 * ((age_s % 60) - 30) / 30)
    first = "vllm:time_to_first_token_seconds"
    buckets = {"0.1": 2.0, "0.5": 3.5, "1.0": 4.0, "+Inf": 4.0}
    lines = [
        f"vllm:num_requests_running{{{labels}}} {8 + age_s % 5:.0f}",
        f"vllm:num_requests_waiting{{{labels}}} {waiting:.0f}",
        f"vllm:kv_cache_usage_perc{{{labels}}} {0.5 + 0.004 * (age_s % 90):.3f}",
        "# TYPE vllm:generation_tokens counter",
        f"vllm:generation_tokens_total{{{labels}}} {850 * age_s:.0f}",
        f"vllm:num_preemptions_total{{{labels}}} {age_s // 20:.0f}",
        *(f'{first}_bucket{{{labels},le="{le}"}} {rate * age_s:.0f}' for le, rate in buckets.items()),
        f"{first}_count{{{labels}}} {buckets['+Inf'] * age_s:.0f}",
    ]
    return "\n".join(line for line in lines if not line.startswith("#")) + "\n"


@contextmanager
def an_engine() -> Iterator[int]:
    """The port at which the page of an engine is served."""
    since_s = time.monotonic()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = engine_page(since_s).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A scrape is not worth a line."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def config(folder: Path, scheduler: int, east: str, west: Sequence[int], engine: int) -> str:
    """Scrapes all of them each second, one agent twice, with the rules that ship in a hurry."""
    file = folder / "rules.yaml"
    file.write_bytes(rules())
    serves: list[tuple[str, list[str], dict[str, str]]] = [
        ("scheduler", [f"127.0.0.1:{scheduler}"], {"cluster": "east"}),
        ("agent", [east], {"cluster": "east"}),
        ("again", [east], {"cluster": "east"}),
        ("agents", [f"127.0.0.1:{port}" for port in west], {"cluster": "west"}),
        ("engine", [f"127.0.0.1:{engine}"], {"cluster": "east", "namespace": "product", "pod": "serve-0"}),
    ]
    each = f"{SCRAPE_S}s"
    # JSON is YAML.
    return json.dumps(
        {
            "global": {"scrape_interval": each, "evaluation_interval": each},
            "rule_files": [str(file)],
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": True,
                    "static_configs": [{"targets": targets, "labels": labels}],
                }
                for job, targets, labels in serves
            ],
        }
    )


@contextmanager
def a_fleet(folder: Path) -> Iterator[Fleet]:
    """The fleet while all is well: its first work runs, and Prometheus scrapes."""
    with ExitStack() as stack:
        west = [folder / f"west-{number}" for number in (1, 2)]
        for one in west:
            one.mkdir(parents=True)
            flags = (f"--node-name={one.name}", "--sample-every-s=1")
            stack.enter_context(an_agent(one, *flags))
        cluster = stack.enter_context(a_cluster(folder, "boards", real_node=True))
        with cluster.api() as api:
            manifests.install(api)
        listen = free_port()
        stack.enter_context(scheduler_at_work(cluster, f"--listen=127.0.0.1:{listen}"))
        start_agent(cluster, machine_of(EIGHT), ["--sample-every-s=1"])
        await_resource(cluster, NVIDIA_GPU, 8)
        with cluster.api() as api:
            add_queues(api)
        text = config(
            folder,
            listen,
            f"{cluster.node.address}:{METRICS_PORT}",
            [port_of(one) for one in west],
            stack.enter_context(an_engine()),
        )
        address = stack.enter_context(prometheus(folder, config=text))
        until(lambda: count(address, "up==1") == SERVED)
        fleet = Fleet(address, cluster, west, time.time())
        # What a counter counts before the first scrape in the time shown is no growth.
        time.sleep(3 * SCRAPE_S)
        fleet.add(*WELL)
        yield fleet


def runs(fleet: Fleet, *work: Work) -> bool:
    """Whether all of these pods run."""
    with fleet.cluster.api() as api:
        for one in work:
            found = api.call("GET", f"/api/v1/namespaces/{one.namespace}/pods/{one.name}")
            if found["status"].get("phase") != "Running":
                return False
    return True


def settle(fleet: Fleet, pause_s: float) -> None:
    """Return when the first work runs and has been scraped for a while."""
    until(lambda: runs(fleet, *WELL), 120.0)
    time.sleep(pause_s)
