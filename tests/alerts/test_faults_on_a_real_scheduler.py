"""Faults of queues, of the scheduler, of agents and of credentials on real parts: each gives its alert alone.

A real scheduler serves a real API server, and a real Prometheus scrapes it and real agents. Time is as short
as in ``test_faults_on_a_real_agent``, which says how late an alert may be, and so are the ages that rules
compare with. Nodes are simulated: what their agents would say of themselves is served in their place, but for
two whose agents run.
"""

import base64
import datetime as dt
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.agent.test_process import NOWHERE, an_agent
from tests.alerts.inhibition import sent
from tests.alerts.test_faults_on_a_real_agent import (
    BUILDS_UP_S,
    WAIT_S,
    count,
    firing,
    is_late,
    port_of,
    rules,
)
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.gang_sources import definition
from tests.scheduler.real_scheduler import PODS, START_WAIT_S, leads, node_of
from tests.usage.prometheus.server import free_port, prometheus
from tests.waiting import until

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
REPORTS = "/apis/gpufleet.io/v1alpha1/nodedevices"
MERGE = "application/merge-patch+json"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
BARRED = "barred-"
PIPE_BYTES = 4096
"""A dozen lines of the log."""
POOLS = {"share": 4, "reserve": 2, "band": 2, "foreign": 2, "reject": 8, "dark": 2, "one": 1, "two": 1}
"""Pools of one node each, and its GPUs; the last two have real agents."""
SPARE = 4
"""More nodes, so that one agent of all is less than a tenth."""
DARK = "dark-001"
"""The node whose agent has said that it watches its GPUs, and whose report is away."""
WATCHES = "gpufleet.io/GPUHealthy"
"""The condition by which an agent says so."""

Alert = tuple[str, str]
"""Name of the alert, and what it is about: a queue, node, kind, holder or reason."""
ABOUT = ("queue", "node", "kind", "holder", "reason", "credential")

SCHEDULER: set[Alert] = {
    ("QueueStarved", "lender"),
    ("GangStuck", "band"),
    ("PodNeverFits", "wide"),
    ("QuotaNeverSuffices", "small"),
    ("ReservationOverdue", "reserve"),
    ("ObjectsUnreadable", "podgroups.scheduling.x-k8s.io"),
    ("GPUsHeldWithoutGrant", "pod"),
    ("NodesUnreported", ""),
    ("BindFailures", ""),
    ("KubeletRejections", "OutOfcpu"),
}
CREDENTIALS: set[Alert] = {
    ("CredentialEnds", "client-certificate"),
    ("CredentialEndsSoon", "client-certificate"),
    ("TokenNotRenewed", ""),
}

FOLLOWS: set[Alert] = {("QueueStarved", "reserve"), ("SchedulerDecisionsSlow", "")}
"""The gang whose reservation is overdue is owed the GPUs that it waits for; and where other tests have the
cores of the machine, decisions are slow indeed.
"""

EARLIER = SCHEDULER | CREDENTIALS | FOLLOWS | {("SchedulerBindingsFail", "")}
"""What may be told again while later faults are tried: Bindings are sent again, more are refused until
the log is full, and what waits does so while nobody leads."""


class Pages:
    """The pages of agents that are not there: each node's name and no more."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes

    def text(self) -> str:
        """All of them in one."""
        return "".join(f'gpufleet_agent_info{{node="{node}",version="1"}} 1\n' for node in self.nodes)


@contextmanager
def served(pages: Pages) -> Iterator[int]:
    """The port at which they are served."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A scrape is not worth a line."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class Scheduler:
    """The scheduler, whose log is taken from it as long as somebody wants it."""

    def __init__(self, kubeconfig: Path, listen: int) -> None:
        options = (f"--kubeconfig={kubeconfig}", "--lease-seconds=60", f"--listen=127.0.0.1:{listen}")
        self.process = subprocess.Popen(
            (sys.executable, "-m", "gpufleet", "scheduler", *options, "--log-format=json"),
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        self._pipe = self.process.stderr
        self._log = self._pipe.fileno()
        fcntl.fcntl(self._log, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._is_read = threading.Event()
        self._is_read.set()
        self.lines = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while self._is_read.is_set():
            text = os.read(self._log, 65536)
            if not text:
                return
            self.lines += text

    def leave_its_log(self) -> None:
        """Whoever takes the log hangs: once the pipe is full the scheduler stands still at its next line."""
        self._is_read.clear()

    def end(self) -> None:
        """It is killed, and leaves its Lease behind."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        self._pipe.close()


@contextmanager
def a_scheduler(cluster: LocalCluster, listen: int, kubeconfig: Path | None = None) -> Iterator[Scheduler]:
    """A scheduler that leads; ``kubeconfig`` is another way to the cluster than its own."""
    own = kubeconfig or cluster.kubeconfig_for(DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups)
    scheduler = Scheduler(own, listen)
    try:
        with cluster.api() as api:
            until(lambda: leads(api) or scheduler.process.poll() is not None, START_WAIT_S)
        assert scheduler.process.poll() is None, scheduler.lines.decode()
        yield scheduler
    finally:
        scheduler.end()


def pod(name: str, gpus: int, queue: str = "", pool: str = "", **annotations: str) -> Object:
    """A pod of a queue for the node of a pool."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    spec: Object = {
        "schedulerName": "gpufleet",
        "containers": [{"name": "main", "image": "example.com/none", "resources": {"limits": limits}}],
        "automountServiceAccountToken": False,
    }
    if pool:
        spec["nodeSelector"] = {"kubernetes.io/hostname": f"{pool}-001"}
    labels = {"gpufleet.io/queue": queue} if queue else {}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def gang(name: str) -> dict[str, str]:
    """The annotations of a gang of two."""
    return {"gpufleet.io/gang": name, "gpufleet.io/gang-min-members": "2"}


def add_queue(api: Api, name: str, nominal: int | None = None, **spec: Any) -> None:
    if nominal is not None:
        spec["quotas"] = [{"resource": "gpu", "nominal": nominal}]
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    api.call("POST", QUEUES, {**kind, "metadata": {"name": name}, "spec": spec})


def bar_bindings(api: Api) -> None:
    """The API server refuses Bindings of pods whose names begin so."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    message = {"expression": f"!object.metadata.name.startsWith('{BARRED}')", "message": "barred by the test"}
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [message]}
    api.call(
        "POST", f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": "barred"}, "spec": spec}
    )
    binding = {"policyName": "barred", "validationActions": ["Deny"]}
    path = f"{POLICIES}/validatingadmissionpolicybindings"
    api.call("POST", path, {"metadata": {"name": "barred"}, "spec": binding})


def furnish(cluster: LocalCluster) -> list[str]:
    """Nodes, queues and rules of a cluster that is well, and the names of its nodes."""
    with cluster.api() as api:
        manifests.install(api)
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        api.call("POST", crds, definition("scheduling.x-k8s.io/v1alpha1", "PodGroup"))
        bar_bindings(api)
        add_queue(api, "company")
        # What lender does not use is borrowed; it takes nothing back.
        add_queue(api, "lender", 2, parent="company", preemption={"reclaim": "Never"})
        add_queue(api, "borrower", 2, parent="company")
        add_queue(api, "reserve", reserveAfter="0s")
        add_queue(api, "small", 1)
        for name in ("band", "wide"):
            add_queue(api, name)
    h100 = gpu_model("H100-80GB")
    for pool, gpus in POOLS.items():
        simulated_nodes.create(cluster, SimulatedNodes(1, gpus, h100, prefix=f"{pool}-"))
    simulated_nodes.create(cluster, SimulatedNodes(SPARE, 1, h100, prefix="spare-"))
    return [*(f"{pool}-001" for pool in POOLS), *(f"spare-{one:03}" for one in range(1, SPARE + 1))]


def runs(api: Api, *names: str) -> bool:
    return all(node_of(api, name) for name in names)


def begin_work(api: Api) -> None:
    """What runs while all is well."""
    for number in range(4):
        api.call("POST", PODS, pod(f"borrows-{number}", 1, "borrower", "share"))
    for number in range(2):
        api.call("POST", PODS, pod(f"band-{number}", 1, "band", "band", **gang("band")))
    for number in range(8):
        api.call("POST", PODS, pod(f"rejected-{number}", 1, "", "reject"))
    api.call("POST", PODS, pod("old", 1, "reserve", "reserve", **{"gpufleet.io/run-time": "25s"}))
    names = [f"borrows-{number}" for number in range(4)] + ["band-0", "band-1", "old"]
    until(lambda: runs(api, *names, *(f"rejected-{number}" for number in range(8))))


def break_things(api: Api) -> None:
    """All faults of queues and objects, at once."""
    for number in range(2):
        api.call("POST", PODS, pod(f"train-{number}", 1, "reserve", "reserve", **gang("train")))
    api.call("POST", PODS, pod("owed", 2, "lender", "share"))
    api.call("DELETE", f"{PODS}/band-1?gracePeriodSeconds=0")
    api.call("POST", PODS, pod("too-wide", 16, "wide"))
    api.call("POST", PODS, pod("too-much", 2, "small"))
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "odd"}}
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    api.call("POST", groups, {**group, "spec": {"minMember": "many"}})
    let_in_a_stranger(api)
    darken(api)
    # More than ten that fail, and with their retries fewer than the hundred of a service level.
    for number in range(12):
        api.call("POST", PODS, pod(f"{BARRED}{number}", 0))
    turned_away = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "not enough"}}
    for number in range(8):
        api.request("PATCH", f"{PODS}/rejected-{number}/status", turned_away, MERGE)


def let_in_a_stranger(api: Api) -> None:
    """Another scheduler places a pod, and its node's agent reports what it holds."""
    body = pod("foreign", 1)
    body["spec"]["schedulerName"] = "another"
    uid = api.call("POST", PODS, body)["metadata"]["uid"]
    target = {"apiVersion": "v1", "kind": "Node", "name": "foreign-001"}
    api.call("POST", f"{PODS}/foreign/binding", {"metadata": {"name": "foreign"}, "target": target})
    report = f"{REPORTS}/foreign-001"
    device = api.call("GET", report)["spec"]["devices"][0]["id"]
    holders = [{"device": device, "podUID": uid, "foreign": "default/foreign"}]
    status, answer = api.request("PATCH", report, {"spec": {"holders": holders}}, MERGE)
    assert status == 200, answer


def darken(api: Api) -> None:
    """A node's report goes away, though its agent has said that it watches."""
    found = api.call("GET", f"/api/v1/nodes/{DARK}")["status"]["conditions"]
    told = {"type": WATCHES, "status": "True", "reason": "Healthy", "message": "all are well"}
    body = {"status": {"conditions": [*found, told]}}
    api.request("PATCH", f"/api/v1/nodes/{DARK}/status", body, MERGE)
    api.call("DELETE", f"{REPORTS}/{DARK}")


def certificate(lasts: dt.timedelta) -> tuple[str, str]:
    """A client's certificate and its key, in base64 as a kubeconfig has them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=30))
        .not_valid_after(now + lasts)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return base64.b64encode(made.public_bytes(pem)).decode(), base64.b64encode(plain).decode()


def token(lasts_s: float) -> str:
    """A token of a service account that nobody would take; only its dates are read."""

    def part(value: Object) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")

    now_s = time.time()
    return f"{part({'alg': 'none'})}.{part({'iat': now_s - 3500, 'exp': now_s + lasts_s})}.x"


def user(**fields: str) -> str:
    """A kubeconfig with these credentials, of a cluster that is away."""
    text = NOWHERE.replace("http://", "https://")
    return text.replace("user: {}", f"user: {json.dumps(fields)}")


def kubeconfigs() -> dict[str, str]:
    """Credentials that end soon, by a name."""
    days, hours = (certificate(lasts) for lasts in (dt.timedelta(days=3), dt.timedelta(hours=12)))
    return {
        "ends": user(**{"client-certificate-data": days[0], "client-key-data": days[1]}),
        "ends-soon": user(**{"client-certificate-data": hours[0], "client-key-data": hours[1]}),
        "token": user(token=token(100)),
    }


SILENT_S = round(BUILDS_UP_S["SchedulerWatchSilent"])
"""A watch that is well says something each minute."""


def hurried() -> bytes:
    """The rules in a hurry, ages too; the scheduler's rounds are five seconds apart even so."""
    found: dict[str, Any] = msgspec.yaml.decode(rules())
    for rule in (rule for group in found["groups"] for rule in group["rules"]):
        for age_s in (900, 1200, 1800):
            rule["expr"] = rule["expr"].replace(f"> {age_s}", f"> {age_s / 120}")
        if rule.get("alert") == "SchedulerStalled":
            rule["expr"] = rule["expr"].replace("[5000ms]", "[15s]")
        if rule.get("alert") == "SchedulerWatchSilent":
            rule["expr"] = rule["expr"].replace("> 120", f"> {SILENT_S}")
    return msgspec.yaml.encode(found)


def config(folder: Path, listen: int, agents: list[int]) -> str:
    """Scrapes all each second, and evaluates the rules as often."""
    file = folder / "rules.yaml"
    file.write_bytes(hurried())
    jobs = {"scheduler": [listen], "agents": agents}
    return json.dumps(
        {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file)],
            "scrape_configs": [
                {
                    "job_name": job,
                    "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
                }
                for job, ports in jobs.items()
            ],
        }
    )


def told(address: str) -> set[Alert]:
    """What a person is told."""
    return {
        (one["alertname"], next((one[label] for label in ABOUT if label in one), ""))
        for one in sent(firing(address, unless={"Heartbeat"}))
    }


def told_until(address: str, wanted: set[Alert]) -> set[Alert]:
    """What is told that was not before, until each of these alerts was; fails where one is not."""
    limit_s, before = time.monotonic() + WAIT_S, told(address)
    ever = set(before)
    while not wanted <= ever:
        assert time.monotonic() < limit_s, f"missing: {wanted - ever}, told: {ever}"
        time.sleep(0.5)
        ever |= told(address)
    return ever - (before - wanted)


@contextmanager
def agents_with(folder: Path, credentials: dict[str, tuple[str, int]]) -> Iterator[None]:
    """Agents with these kubeconfigs, on nodes of another cluster, that serve at these ports."""
    with ExitStack() as stack:
        for name, (kubeconfig, port) in credentials.items():
            own = folder / name
            own.mkdir()
            (own / "credentials").write_text(kubeconfig, encoding="utf-8")
            flags = (f"--node-name={name}", f"--kubeconfig={own / 'credentials'}")
            stack.enter_context(an_agent(own, *flags, f"--metrics-address=127.0.0.1:{port}"))
        yield


def test_each_fault_gives_its_alert_and_no_other(tmp_path: Path) -> None:
    listen = free_port()
    credentials = {name: (text, free_port()) for name, text in kubeconfigs().items()}
    real = [tmp_path / f"{pool}-001" for pool in ("one", "two")]
    with ExitStack() as stack:
        cluster = stack.enter_context(a_cluster(tmp_path, "faults", Options(kubernetes=KUBERNETES)))
        nodes = furnish(cluster)
        agents = []
        for folder in real:
            folder.mkdir()
            agents.append(stack.enter_context(an_agent(folder, f"--node-name={folder.name}")))
        scheduler = stack.enter_context(a_scheduler(cluster, listen))
        others = stack.enter_context(served(Pages([one for one in nodes if one[:3] not in {"one", "two"}])))
        ports = [others, *(port_of(folder) for folder in real), *(port for _, port in credentials.values())]
        address = stack.enter_context(prometheus(tmp_path, config=config(tmp_path, listen, ports)))
        until(lambda: count(address, "gpufleet_scheduler_leader==1") == 1 and not told(address))
        with cluster.api() as api:
            begin_work(api)
            assert told(address) == set()
            broken_at_s = time.time()
            break_things(api)
        ends_at_s = time.time()
        stack.enter_context(agents_with(tmp_path, credentials))
        wanted = SCHEDULER | CREDENTIALS
        assert told_until(address, wanted) - FOLLOWS == wanted
        assert [alert for alert, _ in SCHEDULER if is_late(address, alert, broken_at_s)] == []
        assert [alert for alert, _ in CREDENTIALS if is_late(address, alert, ends_at_s)] == []
        for agent, silence in zip(agents, (("AgentSilent", "one-001"), ("AgentsSilent", "")), strict=True):
            killed_at_s = time.time()
            agent.kill()
            assert told_until(address, {silence}) - EARLIER == {silence}
            assert not is_late(address, silence[0], killed_at_s)
        stands_at_s = time.time()
        scheduler.leave_its_log()
        with cluster.api() as api:
            for number in range(40):
                api.call("POST", PODS, pod(f"{BARRED}more-{number}", 0))
        stalled, gone = ("SchedulerStalled", ""), ("SchedulerNoLeader", "")
        assert told_until(address, {stalled}) - EARLIER == {stalled}
        assert not is_late(address, "SchedulerStalled", stands_at_s)
        ended_at_s = time.time()
        scheduler.end()
        assert told_until(address, {gone}) - EARLIER == {gone}
        assert not is_late(address, "SchedulerNoLeader", ended_at_s)
