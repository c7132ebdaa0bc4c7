"""What policies and the webhook of admission add to the creation of a pod, on a real API server.

Two pods are sent in turn over one connection, and tried (dry run): one into a namespace in which nothing is
judged, one into a namespace in which everything is. Each goes first as often as the other, so that what else
the machine does is shared by both. Then each goes alone, and the processor time of the server is counted,
which other work of the machine changes little. First with the policies alone (lint, images, all additions),
then with the webhook alone, which runs as a program of its own, as in the chart.
"""

import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.live.contender import cost
from bench.progress import say
from gpufleet.admission.completion_policies import DEFAULT_RUNTIME_CLASS, completion_policies
from gpufleet.admission.images import image_policies
from gpufleet.admission.policies import lint_policies
from gpufleet.completion.additions import Addition
from gpufleet.kube.meanings.image_policies import IMAGE_POLICY
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options, needed_programs
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.releases import release_of
from gpufleet.model.model_errors import WorldError
from gpufleet.progress.reporting import ToPerson

Object = dict[str, Any]
ROUNDS, PAIRS, WARM_UP, ALONE = 10, 200, 100, 200
"""The slowest hundredth is told of the usual round: a moment in which the machine does other work makes one
round slow, and not the figure. The first pairs compile expressions.
"""

POLICIES_MAX_MS, WEBHOOK_MAX_MS = 5.0, 10.0
"""Targets: what the slowest of a hundred creations may take longer."""

READY_S = 120.0
NAME, NAMESPACE = "gpufleet-admission", "gpufleet-system"
PLAIN, JUDGED = "plain", "judged"
UNJUDGED = {"gpufleet.io/admission": "off"}
"""A namespace without the label is warned of what lint finds."""

RUNTIME_CLASSES, CLASS = "/apis/node.k8s.io/v1/runtimeclasses", DEFAULT_RUNTIME_CLASS
LABELS: dict[str, str] = {
    "gpufleet.io/admission": "deny",
    "gpufleet.io/managed": "true",
    IMAGE_POLICY: "deny",
}
"""All that a namespace can ask for."""

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
DIGEST = "@sha256:" + "a" * 64
NOTES = (
    f"admission: {ROUNDS} rounds of {PAIRS} pairs of creations (dry run), in turn; p99 is the rounds' median",
)


@dataclass(frozen=True)
class Measured:
    """Times of creations by turns, and the processor time of one, without and with admission."""

    plain_s: list[float]
    judged_s: list[float]
    plain_cpu_ms: float
    judged_cpu_ms: float


def figures() -> list[Figure]:
    """The rows of this part."""
    with _server() as (cluster, api):
        for name, labels in ((PLAIN, UNJUDGED), (JUDGED, LABELS)):
            _make_namespace(api, name, labels)
        api.call("POST", RUNTIME_CLASSES, {"metadata": {"name": CLASS}, "handler": CLASS})
        policies = _with_policies(cluster, api)
        webhook = _with_webhook(cluster, api)
    return [*_rows("policies", policies, POLICIES_MAX_MS), *_rows("the webhook", webhook, WEBHOOK_MAX_MS)]


def _make_namespace(api: Api, name: str, labels: dict[str, str]) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    _await(lambda: api.request("GET", account)[0] == 200, f"namespace {name}")


def _rows(what: str, measured: Measured, most_ms: float) -> Iterator[Figure]:
    plain, judged = measured.plain_s, measured.judged_s
    added = _slowest(judged) - _slowest(plain)
    yield figure(f"creation of a pod, p99 without {what}", _slowest(plain), "ms", "lower")
    yield figure(f"added by {what}, p99", added, "ms", "lower", most_ms)
    yield figure(f"added by {what}, median", _at(judged, 0.5) - _at(plain, 0.5), "ms", "lower")
    yield figure(f"processor time of a creation without {what}", measured.plain_cpu_ms, "ms", "lower")
    added_cpu = measured.judged_cpu_ms - measured.plain_cpu_ms
    yield figure(f"processor time added by {what}", added_cpu, "ms", "lower")


def _slowest(values: list[float]) -> float:
    """What the slowest of a hundred takes in the usual round, in milliseconds."""
    rounds = (values[first : first + PAIRS] for first in range(0, len(values), PAIRS))
    return statistics.median(_at(one, 0.99) for one in rounds)


def _at(values: list[float], part: float) -> float:
    """The value below which this part of all is, in milliseconds."""
    return sorted(values)[int(part * (len(values) - 1))] * 1000


def _pod(name: str) -> Object:
    resources = {"limits": {"nvidia.com/gpu": "2", "memory": "64Gi"}}
    container: Object = {"name": "main", "image": f"example.com/train:1{DIGEST}", "resources": resources}
    # /dev/shm, which a rule of the webhook misses, is completed by a policy or stands here.
    container |= {"volumeMounts": [{"name": "shared", "mountPath": "/dev/shm"}]}  # noqa: S108
    volume = {"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    spec = {"containers": [container], "volumes": [volume]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _measured(api: Api, *pids: int) -> Measured:
    plain_s, judged_s = _in_turn(api)
    plain, judged = 0.0, 0.0
    # Each goes first as often as the other.
    for order in ((PLAIN, JUDGED), (JUDGED, PLAIN)):
        for namespace in order:
            spent_ms = _cpu_ms(api, namespace, pids) / 2
            plain, judged = (plain + spent_ms, judged) if namespace == PLAIN else (plain, judged + spent_ms)
    return Measured(plain_s, judged_s, plain, judged)


def _cpu_ms(api: Api, namespace: str, pids: tuple[int, ...]) -> float:
    """The processor time that these processes spend on one creation."""
    began_s = sum(cost(pid).cpu_s for pid in pids)
    for number in range(ALONE):
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", _pod(f"pod-{number}"))
    return (sum(cost(pid).cpu_s for pid in pids) - began_s) / ALONE * 1000


def _in_turn(api: Api) -> tuple[list[float], list[float]]:
    found: dict[str, list[float]] = {PLAIN: [], JUDGED: []}
    for number in range(WARM_UP + ROUNDS * PAIRS):
        order = (PLAIN, JUDGED) if number % 2 else (JUDGED, PLAIN)
        for namespace in order:
            path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
            began_s = time.perf_counter()
            api.call("POST", path, _pod(f"pod-{number}"))
            if number >= WARM_UP:
                found[namespace].append(time.perf_counter() - began_s)
    return found[PLAIN], found[JUDGED]


def _with_policies(cluster: LocalCluster, api: Api) -> Measured:
    say("admission: policies")
    taints = ("nvidia.com/gpu",)
    objects = [*lint_policies(), *image_policies(), *completion_policies(Addition, pool_taints=taints)]
    for one in objects:
        api.apply(f"{ADMISSION}/{PLURALS[one['kind']]}/{one['metadata']['name']}", one)
    _await(lambda: _made(api)["spec"]["schedulerName"] == "gpufleet", "the policies")
    found = _measured(api, cluster.pid("kube-apiserver"))
    for one in reversed(objects):
        api.call("DELETE", f"{ADMISSION}/{PLURALS[one['kind']]}/{one['metadata']['name']}")
    _await(lambda: _made(api)["spec"]["schedulerName"] == "default-scheduler", "the end of the policies")
    return found


def _made(api: Api) -> Object:
    return api.call("POST", f"/api/v1/namespaces/{JUDGED}/pods?dryRun=All", _pod("probe"))


def _with_webhook(cluster: LocalCluster, api: Api) -> Measured:
    say("admission: the webhook")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": NAME}})
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    service = {"metadata": {"name": NAME}, "spec": spec}
    api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/services", service)
    for kind, body in _configurations(port).items():
        api.call("POST", f"{ADMISSION}/{kind}", body)
    command = [sys.executable, "-m", "gpufleet", "admission", "serve", f"--listen=127.0.0.1:{port}"]
    command += [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}", "--log-level=warning"]
    process = subprocess.Popen(command)
    try:
        _await(lambda: _made(api)["spec"]["schedulerName"] == "gpufleet", "the webhook")
        return _measured(api, cluster.pid("kube-apiserver"), process.pid)
    finally:
        process.terminate()
        process.wait(20)


def _configurations(port: int) -> dict[str, Object]:
    """As in the chart: a pod is judged by the rules, then completed, each by one call."""

    def webhook(path: str, name: str, label: str, value: str) -> Object:
        service = {"name": NAME, "namespace": NAMESPACE, "path": path, "port": port}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        return {
            "name": f"{name}.admission.gpufleet.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 2,
            "clientConfig": {"service": service},
            "namespaceSelector": {"matchLabels": {label: value}},
            "rules": [rule],
        }

    judges = webhook("/judge/deny", "deny", "gpufleet.io/admission", "deny")
    completes = webhook("/complete", "complete", "gpufleet.io/managed", "true")
    return {
        "validatingwebhookconfigurations": {"metadata": {"name": NAME}, "webhooks": [judges]},
        "mutatingwebhookconfigurations": {"metadata": {"name": NAME}, "webhooks": [completes]},
    }


@contextlib.contextmanager
def _server() -> Iterator[tuple[LocalCluster, Api]]:
    options = Options(simulated_nodes=False)
    wanted = {name: release_of(name, options.kubernetes) for name in needed_programs(options)}
    paths = binaries.paths(binaries.find(wanted, ToPerson("bench: ")))
    with (
        tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder,
        LocalCluster.start(Path(folder) / "cluster", "bench", paths, options) as cluster,
        cluster.api() as api,
    ):
        yield cluster, api


def _await(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + READY_S
    while not holds():
        if time.monotonic() > end_s:
            raise WorldError(f"{what} did not come within {READY_S:.0f} s")
        time.sleep(0.2)
