"""People with rights of their own on a real API server, and work in namespaces that some may see."""

from typing import Any

from gpufleet.localkube.access.api import Api

READER, MEMBER, STRANGER = "reader", "member", "stranger"
"""Who may see everything, who one namespace, and who nothing."""

RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
LISTS_THE_FLEET = {
    "kind": "ClusterRole",
    "metadata": {"name": "lists-the-fleet"},
    "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        {"apiGroups": ["gpufleet.io"], "resources": ["nodedevices", "fleetqueues"], "verbs": ["list"]},
    ],
}
"""What a reader of one namespace needs to see the fleet map and queues."""

LISTS_PROJECTS = {
    "kind": "ClusterRole",
    "metadata": {"name": "lists-projects"},
    "rules": [{"apiGroups": ["gpufleet.io"], "resources": ["gpuprojects"], "verbs": ["list"]}],
}


def namespace(api: Api, name: str) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def add_pod(api: Api, where: str, name: str, gpus: int, node: str = "") -> None:
    """A pod that waits for gpufleet, or one that another scheduler has put on a node."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec: dict[str, Any] = {
        "schedulerName": "another" if node else "gpufleet",
        "containers": [{"name": "c", "image": "example.com/none", "resources": limits}],
        "automountServiceAccountToken": False,
    }
    labels = {"gpufleet.io/queue": "open-queue" if where == "open-team" else "other-queue"}
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    api.call("POST", f"/api/v1/namespaces/{where}/pods", body)
    if node:
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        api.call("POST", f"/api/v1/namespaces/{where}/pods/{name}/binding", binding)


def account(api: Api, name: str) -> None:
    api.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})


def bind(api: Api, name: str, role: str, where: str = "", kind: str = "ServiceAccount") -> None:
    """Give an account, a User or a Group a ClusterRole, in one namespace or in all."""
    path = f"{RIGHTS}/namespaces/{where}/rolebindings" if where else f"{RIGHTS}/clusterrolebindings"
    subject = {"kind": kind, "name": name, "apiGroup": GROUP}
    if kind == "ServiceAccount":
        subject = {"kind": kind, "name": name, "namespace": "default"}
    body = {
        "kind": "RoleBinding" if where else "ClusterRoleBinding",
        "metadata": {"name": f"{name}-{role}".replace(":", "-").replace("@", "-")},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    api.call("POST", path, body)


def token(api: Api, name: str) -> str:
    """A token of an account, as `kubectl create token` asks for it."""
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    answer = api.call("POST", path, {"spec": {"expirationSeconds": 3600}})
    return str(answer["status"]["token"])
