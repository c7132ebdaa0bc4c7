"""A real API server with everything that gpufleet installs, and the people who try it."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import msgspec

from gpufleet.kube.manifests import DEFAULT_IDENTITY, manifests
from gpufleet.localkube.access.api import Api, tls_context
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.manifests import install
from gpufleet.localkube.programs.releases import minor_version
from tests import waiting

Answer = tuple[int, dict[str, Any]]
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{DEFAULT_IDENTITY.namespace}/leases"
PODS = "/api/v1/namespaces/default/pods"
GRANT = "gpufleet.io/grant"
PATIENCE_S = 10.0


class Person:
    """Somebody with a certificate."""

    def __init__(self, cluster: LocalCluster, user: str, groups: tuple[str, ...] = ()) -> None:
        written = msgspec.yaml.decode(cluster.kubeconfig_for(user, groups).read_text(encoding="utf-8"))
        keys = written["users"][0]["user"]
        folder = Path(cluster.folder) / "people"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{len(list(folder.iterdir()))}-{kind}.pem" for kind in ("certificate", "key")]
        for path, kind in zip(paths, ("client-certificate-data", "client-key-data"), strict=True):
            path.write_bytes(base64.b64decode(keys[kind]))
        self._api = Api(cluster.port, tls_context(cluster.authority, *paths))

    def ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Answer:
        """One request: the status and the object answered."""
        status, answer = self._api.request(method, path, body, kind)
        return status, json.loads(answer)

    def create(self, pod: dict[str, Any], path: str = PODS) -> Answer:
        """Create a pod."""
        return self.ask("POST", path, {"apiVersion": "v1", "kind": "Pod", **pod})

    def merge(self, path: str, body: object) -> Answer:
        """A merge patch."""
        return self.ask("PATCH", path, body, "application/merge-patch+json")

    def bind(self, pod: str, grant: str | None) -> Answer:
        """A Binding, with a grant or without."""
        metadata = {"name": pod, "annotations": {} if grant is None else {GRANT: grant}}
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        return self.ask("POST", f"{PODS}/{pod}/binding", body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.__exit__(None, None, None)


def install_all(cluster: LocalCluster) -> None:
    """Everything that is installed in a cluster."""
    with cluster.api() as api:
        install(api)
        wanted = {
            (one["kind"], one["metadata"]["name"]) for one in manifests(minor_version(cluster.kubernetes))
        }
        assert ("ValidatingAdmissionPolicy", "gpufleet-grant-guard") in wanted


def until(holds: Callable[[], bool]) -> None:
    """Wait until policies and parameters that were just written are followed by the server."""
    waiting.until(holds, PATIENCE_S, "the server does not follow its policies")


def a_grant(epoch: int, device: str = "GPU-1") -> str:
    """A grant's text."""
    return json.dumps({"v": 1, "epoch": epoch, "containers": {"c": [{"id": device}]}}, separators=(",", ":"))


def plain_pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that our scheduler would place; nobody does."""
    container = {"name": "c", "image": "example.com/none"}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "schedulerName": "gpufleet",
            "containers": [container],
            "automountServiceAccountToken": False,
        },
    }
