"""An API server that knows one Node and NodeFeatures, and who owns which label, as server-side apply does.

Only as much as labels need: ``test_publisher_on_a_real_server`` tells the same story to a real one. It can
fail the n-th request, before or after it did what was asked.
"""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Request, Response

Object = dict[str, Any]
NODE_PATH = "/api/v1/nodes/node-1"
DISCOVERY = "/apis/nfd.k8s-sigs.io/v1alpha1"
FEATURES = f"{DISCOVERY}/namespaces/gpufleet-system/nodefeatures/"


class Cluster:
    """The server. ``foreign`` labels were written by somebody else."""

    def __init__(self, *, feature_discovery: bool = False, **foreign: str) -> None:
        self.feature_discovery = feature_discovery
        self.labels = {name.replace("__", "/"): value for name, value in foreign.items()}
        self.owned: dict[str, set[str]] = {}
        self.features: dict[str, Object] = {}
        self.writes: list[tuple[str, Object]] = []
        self.requests = 0
        self.fails_at = 0
        self.fails_after_acting = False
        self.refuses_writes = False

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Answer, or break the connection where that was asked for."""
        assert timeout_s > 0
        self.requests += 1
        breaks = self.requests == self.fails_at
        if breaks and not self.fails_after_acting:
            raise TransportError("the connection broke", reached=True)
        status, body = self._answer(request)
        if breaks:
            raise TransportError("the connection broke", reached=True)
        return Response(status, {}, json.dumps(body).encode())

    async def open(self, request: Request, *, timeout_s: float) -> Any:
        """A watch: what is tested here opens none, so one that is opened fails the test."""
        raise NotImplementedError(request.target, timeout_s)

    async def close(self) -> None:
        """Nothing is open."""

    @property
    def feature_labels(self) -> dict[str, str]:
        """The labels in the NodeFeature of this node."""
        found: dict[str, str] = self.features["gpufleet-features-for-node-1"]["spec"].get("labels", {})
        return found

    def _answer(self, request: Request) -> tuple[int, Object]:
        path, query = urlsplit(request.target).path, parse_qs(urlsplit(request.target).query)
        if path == DISCOVERY:
            listed = [{"name": "nodefeatures", "kind": "NodeFeature", "namespaced": True}]
            return (200, {"resources": listed}) if self.feature_discovery else _not_found()
        if request.method == "GET":
            return self._read(path)
        if self.refuses_writes:
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not yours"}
        body = json.loads(request.body)
        assert request.method == "PATCH"
        assert request.content_type == "application/apply-patch+yaml"
        self.writes.append((path, body))
        if path == NODE_PATH:
            self._apply(query["fieldManager"][0], body["metadata"].get("labels", {}))
        else:
            self.features[path.removeprefix(FEATURES)] = body
        return 200, body

    def _read(self, path: str) -> tuple[int, Object]:
        if path == NODE_PATH:
            return 200, {"metadata": {"uid": "uid-1", "labels": self.labels, "managedFields": self._fields()}}
        found = self.features.get(path.removeprefix(FEATURES)) if path.startswith(FEATURES) else None
        return _not_found() if found is None else (200, found)

    def _fields(self) -> list[Object]:
        return [
            {
                "manager": manager,
                "operation": "Apply",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{name}": {} for name in names}}},
            }
            for manager, names in self.owned.items()
            if names
        ]

    def _apply(self, manager: str, labels: dict[str, str]) -> None:
        for name in self.owned.get(manager, set()) - set(labels):
            del self.labels[name]
        self.owned[manager] = set(labels)
        self.labels |= labels


def _not_found() -> tuple[int, Object]:
    return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
