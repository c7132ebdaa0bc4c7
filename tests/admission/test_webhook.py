"""On a real API server: the webhook judges what policies cannot say, and without it every request passes."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.kube.keys import NAMESPACE_NAME
from tests.admission.judging_server import ADMISSION, JudgingServer, a_pod
from tests.chart.rendering import NAMESPACE, rendered
from tests.waiting import until

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpufleet-admission"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
PLURALS = {
    "Secret": "secrets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}
# More GPUs than it has: GPU025, which reads command lines.
TOO_WIDE: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "vllm/vllm-openai:v0.9.1",
            "args": ["--model=/models/m", "--tensor-parallel-size=4"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
    ]
}
EVENTS = "/apis/events.k8s.io/v1/namespaces/asks-deny/events"
NAMESPACES = ["asks-audit", "asks-deny", "asks-warn"]
"""Those of the tests here: others are judged without the webhook."""


class Webhook:
    """The server with the rights and configurations of the chart, and the program on this machine."""

    def __init__(self, server: JudgingServer, folder: Path) -> None:
        self.server = server
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        server.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        # A server of this version completes by policies; the webhook's own way is tried all the same.
        objects = rendered({"admission.webhook.enabled": True}, version="1.35.0")
        for one in objects:
            if one["metadata"]["name"] == "gpufleet-admission" and one["kind"] in PLURALS:
                self._apply(one)
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self._port}]}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "gpufleet-admission"},
            "spec": spec,
        }
        server.api.apply(f"/api/v1/namespaces/{NAMESPACE}/services/gpufleet-admission", service)

    def _apply(self, one: dict[str, Any]) -> None:
        for webhook in one.get("webhooks", ()):
            webhook["clientConfig"]["service"]["port"] = self._port
            ours = {"key": NAMESPACE_NAME, "operator": "In", "values": NAMESPACES}
            webhook["namespaceSelector"]["matchExpressions"].append(ours)
        namespace = one["metadata"].get("namespace")
        where = f"namespaces/{namespace}/" if namespace else ""
        root = "/api/v1" if one["apiVersion"] == "v1" else f"/apis/{one['apiVersion']}"
        self.server.api.apply(f"{root}/{where}{PLURALS[one['kind']]}/{one['metadata']['name']}", one)

    def remove(self) -> None:
        """Take its configurations away."""
        for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            self.server.api.call("DELETE", f"{ADMISSION}/{kind}/gpufleet-admission")

    def start(self) -> None:
        """Start the program with the rights of the chart."""
        kubeconfig = self.server.cluster.kubeconfig_for(ACCOUNT, GROUPS)
        command = [sys.executable, "-m", "gpufleet", "admission", "serve", f"--kubeconfig={kubeconfig}"]
        command += [f"--listen=127.0.0.1:{self._port}", f"--namespace={NAMESPACE}"]
        with (self._folder / "webhook.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def log(self) -> str:
        """What it said."""
        return (self._folder / "webhook.log").read_text()[-3000:]

    def stop(self) -> int:
        """End it; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(20)


@pytest.fixture(scope="module")
def webhook(server: JudgingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    for name in NAMESPACES:
        action = name.removeprefix("asks-")
        server.namespace(name, {"gpufleet.io/admission": action, "gpufleet.io/managed": "true"})
    server.namespace("asks-nothing", {"gpufleet.io/admission": "off"})
    found = Webhook(server, tmp_path_factory.mktemp("webhook"))
    found.start()
    try:
        until(lambda: server.create(a_pod("one", TOO_WIDE), "asks-deny").status == 403, 60)
    except AssertionError as error:
        error.add_note(found.log())
        raise
    yield found
    found.stop()
    found.remove()


def events(webhook: Webhook) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = webhook.server.api.call("GET", EVENTS)["items"]
    return [one for one in found if one["reason"] == "GpuRule"]


def test_what_policies_cannot_say_is_refused_or_warned_of(webhook: Webhook) -> None:
    refused = webhook.server.create(a_pod("one", TOO_WIDE), "asks-deny")
    assert "GPU025" in refused.body["message"]
    warned = webhook.server.create(a_pod("one", TOO_WIDE), "asks-warn")
    assert (warned.status, ["GPU025" in one for one in warned.warnings]) == (201, [True])
    for namespace in ("asks-audit", "asks-nothing"):
        said = webhook.server.create(a_pod("one", TOO_WIDE), namespace)
        assert (said.status, said.warnings) == (201, ())


def test_an_exception_counts_until_its_day(webhook: Webhook) -> None:
    key = "ignore.lint.gpufleet.io/GPU025"
    said = webhook.server.create(a_pod("one", TOO_WIDE, **{key: "until 2999-01-31: why"}), "asks-deny")
    assert said.status == 201
    ended = webhook.server.create(a_pod("one", TOO_WIDE, **{key: "until 2020-01-31: why"}), "asks-deny")
    assert ended.status == 403


def test_the_owner_of_a_pod_is_told_by_an_event_and_a_trial_makes_none(webhook: Webhook) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    pod = a_pod("owned", TOO_WIDE)
    pod["metadata"]["ownerReferences"] = [owner]
    assert webhook.server.create(pod, "asks-deny").status == 403
    assert events(webhook) == []
    assert webhook.server.create(pod, "asks-deny", dry_run=False).status == 403
    until(lambda: len(events(webhook)) == 1, 20, webhook.log())
    (event,) = events(webhook)
    assert (event["regarding"]["name"], "GPU025" in event["note"]) == ("train", True)


def test_a_pod_is_completed_for_servers_without_policies_that_do(webhook: Webhook) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [{"name": "main", "image": "example.com/train:1", **limits}]}
    said = webhook.server.create(a_pod("one", spec), "asks-audit")
    assert said.body["spec"]["schedulerName"] == "gpufleet"
    assert {"key": "gpufleet.io/shared", "operator": "Exists"} in said.body["spec"]["tolerations"]
    share = a_pod("one", {"containers": [{"name": "main", "image": "example.com/train:1"}]})
    share["metadata"]["annotations"] = {"gpufleet.io/gpu-fraction": "0.5"}
    (container,) = webhook.server.create(share, "asks-audit").body["spec"]["containers"]
    assert container["resources"]["limits"] == {"gpufleet.io/gpu-share": "1"}


def test_with_the_program_down_no_request_is_blocked_and_it_comes_back_with_its_certificates(
    webhook: Webhook,
) -> None:
    """Last: it ends the program."""
    assert webhook.stop() == 0
    for namespace in (*NAMESPACES, "asks-nothing"):
        assert webhook.server.create(a_pod("one", TOO_WIDE), namespace).status == 201
    webhook.start()
    until(lambda: webhook.server.create(a_pod("one", TOO_WIDE), "asks-deny").status == 403, 60, webhook.log())
