"""Who is in the cluster of hostile tenants, with which rights, and how each asks the API server.

red     ``edit`` in the namespace red, and no more
blue    a Role over everything in the namespace blue
node    the token of the agent of one node, as whoever took over that node has it
errs    an operator with all rights who makes mistakes
"""

import asyncio
import http.client
import threading
from typing import Any

import msgspec

from gpufleet.localkube.agent_identity import agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.processes.process_errors import ClusterError
from tests.kube.manifests.real_server import Person
from tests.kube.manifests.test_agent_own_node import Bearer, token_of

RED, BLUE, GREEN = "red", "blue", "green"
NODE, ERRS = "node", "errs"
NAMESPACES = (RED, BLUE, GREEN)
USERS = {RED: "red-user", BLUE: "blue-user", ERRS: "errs-user"}
NODE_USER = "system:serviceaccount:gpufleet-system:gpufleet-agent"
TENANTS = frozenset({USERS[RED], USERS[BLUE]})
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
KINDS = {"red": ("ClusterRole", "edit"), "blue": ("Role", "everything")}
MERGE = "application/merge-patch+json"


class Call(msgspec.Struct, frozen=True):
    """Something that somebody asks of the server."""

    actor: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    nonce: str = ""
    """What the object says of the call that wrote it, where the server kept it."""

    def __str__(self) -> str:
        body = "" if self.body is None else " " + msgspec.json.encode(self.body).decode()
        return f"{self.actor}: {self.method} {self.path}{body}"


class Answered(msgspec.Struct, frozen=True):
    """What came of it: code 0 where the server did not answer. ``revision`` is that of its own write."""

    call: Call
    code: int
    revision: int = 0
    message: str = ""


def roles(namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """What gives a tenant its rights in its namespace, with where each is created."""
    kind, name = KINDS[namespace]
    made: list[tuple[str, dict[str, Any]]] = []
    if kind == "Role":
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        made.append(
            (f"{RBAC}/{namespace}/roles", {"kind": "Role", "metadata": {"name": name}, "rules": rules})
        )
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USERS[namespace]}],
    }
    made.append((f"{RBAC}/{namespace}/rolebindings", binding))
    return [(path, {"apiVersion": "rbac.authorization.k8s.io/v1", **body}) for path, body in made]


class People:
    """All actors with their connections."""

    def __init__(self, cluster: LocalCluster, node: str) -> None:
        self._persons: dict[str, Person] = {
            RED: Person(cluster, USERS[RED]),
            BLUE: Person(cluster, USERS[BLUE]),
            ERRS: Person(cluster, USERS[ERRS], ("system:masters",)),
            NODE: Bearer(cluster, token_of(agent_kubeconfig(cluster, node))),
        }
        self._lock = threading.Lock()
        self._closed = False

    async def ask(self, call: Call) -> Answered:
        """One call. A server that is away is an answer too."""
        return await asyncio.to_thread(self._ask, call)

    def _ask(self, call: Call) -> Answered:
        with self._lock:
            if self._closed:
                # The thread of a call that was cancelled: it would open a connection that stays.
                return Answered(call, 0)
            try:
                code, value = self._persons[call.actor].ask(
                    call.method, call.path, call.body, call.content_type
                )
            except (ClusterError, OSError, ValueError, http.client.HTTPException):
                # The next request opens another connection.
                self._persons[call.actor].__exit__(None, None, None)
                return Answered(call, 0)
        metadata = value.get("metadata") or {}
        notes = metadata.get("annotations") or {}
        own = code == 201 or (code == 200 and call.nonce and notes.get(NONCE) == call.nonce)
        revision = metadata.get("resourceVersion") or "0"
        known = own and value.get("kind") not in {"Status", "Binding", "Eviction"} and revision.isdecimal()
        return Answered(call, code, int(revision) if known else 0, str(value.get("message", "")))

    def close(self) -> None:
        """All connections, for good."""
        with self._lock:
            self._closed = True
            for person in self._persons.values():
                person.__exit__(None, None, None)


NONCE = "example.com/nonce"
