"""`gpufleet expander` beside a real API server, with the rights of the chart.

The autoscaler sends v1.Node and v1.Pod as bytes that Kubernetes' own code made. Those of the API server are
made by the same code, so they stand for the autoscaler's here.
"""

import asyncio
import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from gpufleet.expander.protocol import expander_pb2 as api
from gpufleet.kube.objects.pod import NODES_CHOSEN
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.access.certificates import Authority
from gpufleet.localkube.cluster import LocalCluster
from tests.expander.autoscaler_client import best_options
from tests.expander.offers import POOL
from tests.localkube.cluster import cluster  # noqa: F401  a fixture
from tests.usage.prometheus.server import free_port
from tests.waiting import until

PROTOBUF = "application/vnd.kubernetes.protobuf"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
ACCOUNT = "the-expander"
DECISIONS = "gpufleet-expander-decisions"
RAW = 2
"""The field of runtime.Unknown that holds the object; four bytes of a mark stand before the message."""


def packed(server: Api, path: str) -> bytes:
    """An object as the API server encodes it."""
    status, body = server.request("GET", path, accept=PROTOBUF)
    assert (status, body[:4]) == (200, b"k8s\0")
    return dict(fields_of(body[4:]))[RAW]


def fields_of(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that has only such with a length."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        length, at = varint(message, at)
        assert tag & 7 == 2
        yield tag >> 3, message[at : at + length]
        at += length


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits for each byte, and where it ends."""
    number = shift = 0
    while True:
        number |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not message[at - 1] & 0x80:
            return number, at


def furnish(server: Api) -> None:
    """A node that is full, a node like those of a group, and two members of a gang that wait."""
    limits = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {POOL: "h100", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    node = {"metadata": {"name": "like-new-ones", "labels": labels}, "spec": {"unschedulable": True}}
    server.call("POST", NODES, {**node, "status": {"allocatable": limits, "capacity": limits}})
    server.call("PATCH", f"{NODES}/like-new-ones/status", {"status": {"allocatable": limits}}, MERGE)
    words = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
    for name in ("train-0", "train-1"):
        container = {
            "name": "c",
            "image": "example.com/none",
            "resources": {"limits": {"nvidia.com/gpu": "8"}},
        }
        spec = {"schedulerName": "gpufleet", "containers": [container], "automountServiceAccountToken": False}
        server.call("POST", PODS, {"metadata": {"name": name, "annotations": words}, "spec": spec})


MERGE = "application/merge-patch+json"


def grant_rights(server: Api) -> None:
    """What the chart binds the account to."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gpufleet-explain"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ACCOUNT}
    binding = {"metadata": {"name": ACCOUNT}, "roleRef": role, "subjects": [subject]}
    rights = "/apis/rbac.authorization.k8s.io/v1"
    server.call("POST", f"{rights}/clusterrolebindings", binding)
    rule = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
    server.call("POST", f"{rights}/clusterroles", {"metadata": {"name": DECISIONS}, "rules": [rule]})
    decisions = {"metadata": {"name": DECISIONS}, "roleRef": {**role, "name": DECISIONS}}
    server.call("POST", f"{rights}/clusterrolebindings", {**decisions, "subjects": [subject]})


@contextlib.contextmanager
def expander(running: LocalCluster, folder: Path, authority: Authority) -> Iterator[int]:
    """The program, ready; where it answers."""
    identity = authority.server(["localhost"], ["127.0.0.1"])
    (folder / "tls.key").write_bytes(identity.key)
    (folder / "tls.crt").write_bytes(identity.certificate)
    port, probes = free_port(), free_port()
    options = [f"--kubeconfig={running.kubeconfig_for(ACCOUNT)}", f"--expander=127.0.0.1:{port}"]
    options += [
        f"--listen=127.0.0.1:{probes}",
        f"--certificate={folder / 'tls.crt'}",
        f"--key={folder / 'tls.key'}",
    ]
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "gpufleet", "expander", *options], stderr=log, stdout=log
        )
    try:
        until(lambda: is_ready(probes), 300, "the expander does not become ready")
        yield port
    finally:
        program.terminate()
        assert program.wait(30) == 0, (folder / "log").read_text()


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_half_a_gang_is_vetoed_and_nodes_for_the_whole_are_chosen(
    cluster: LocalCluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    authority = Authority.new("expander")
    with cluster.api() as server:
        manifests.install(server)
        grant_rights(server)
        furnish(server)
        node = packed(server, f"{NODES}/like-new-ones")
        pods = [packed(server, f"{PODS}/{name}") for name in ("train-0", "train-1")]
    half = api.Option(node_group_id="half", node_count=1, pod_bytes=pods[:1])
    whole = api.Option(node_group_id="whole", node_count=2, pod_bytes=pods)
    asked = api.BestOptionsRequest(options=[half], node_bytes_map={"half": node, "whole": node})
    with expander(cluster, tmp_path, authority) as port:

        def goes_on_with(*options: api.Option) -> list[str]:
            del asked.options[:]
            asked.options.extend(options)
            answer = best_options(f"localhost:{port}", authority.identity.certificate, asked, timeout_s=60)
            return asyncio.run(answer)

        def says(name: str, kind: str) -> str:
            """The reason of a condition of a pod."""
            with cluster.api() as server:
                conditions = server.call("GET", f"{PODS}/{name}")["status"].get("conditions", [])
            return next((str(one["reason"]) for one in conditions if one["type"] == kind), "")

        with cluster.api() as server:
            waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
            for name in ("train-0", "train-1"):
                server.call("PATCH", f"{PODS}/{name}/status", {"status": {"conditions": [waits]}}, MERGE)
        assert goes_on_with(half) == []
        # The autoscaler is not asked for it any more, both members of it.
        for name in ("train-0", "train-1"):
            until(lambda: says(name, NODES_CHOSEN) == "Postponed", 60, "nothing is written of the gang")  # noqa: B023
            assert says(name, "PodScheduled") == "WaitingForTurn"
        assert goes_on_with(half, whole) == ["whole"]
        until(lambda: says("train-1", NODES_CHOSEN) == "NodesComing", 60, "nothing is written of the choice")
