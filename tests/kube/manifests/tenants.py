"""Tenants of a cluster, each with rights in one namespace alone, and others who act in it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import msgspec

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube.cluster import LocalCluster
from tests.kube.manifests.real_server import GRANT, Person, install_all, until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TENANT = "team"
MANAGED = "managed"
INFRASTRUCTURE = "infrastructure"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


class Actors(msgspec.Struct, frozen=True):
    """``edit`` has what Kubernetes' role edit gives, ``owner`` has all rights in the namespace of both."""

    admin: Person
    edit: Person
    owner: Person
    node: Person
    daemon_sets: Person
    controllers: Person
    scheduler: Person

    @property
    def tenants(self) -> tuple[tuple[str, Person], ...]:
        """Those with rights in one namespace, by their names."""
        return ("edit", self.edit), ("owner", self.owner)


@contextmanager
def acting(cluster: LocalCluster) -> Iterator[Actors]:
    """All of them in a cluster in which everything is installed and in force."""
    install_all(cluster)
    with ExitStack() as stack:

        def person(user: str, *groups: str) -> Person:
            return stack.enter_context(Person(cluster, user, groups))

        actors = Actors(
            person("root", "system:masters"),
            person("ed"),
            person("olga"),
            person("system:node:node-1", "system:nodes"),
            person("system:serviceaccount:kube-system:daemon-set-controller"),
            person("system:kube-controller-manager"),
            person(DEFAULT_IDENTITY.user, *DEFAULT_IDENTITY.groups),
        )
        _furnish(actors.admin)
        until(partial(in_force, actors.admin))
        yield actors


def in_force(admin: Person) -> bool:
    """Whether the server follows each of the policies that these tests are about."""
    named = {"NVIDIA_VISIBLE_DEVICES": "all"}
    probes = (
        a_pod("probe", annotations={GRANT: ""}),
        a_pod("probe", env=named),
        a_pod("probe", limits={"nvidia.com/gpu": "1"}, nodeName="node-1"),
    )
    return all(admin.create(one, f"{pods_of(TENANT)}?dryRun=All")[0] == 403 for one in probes)


def pods_of(namespace: str) -> str:
    """Where the pods of a namespace are."""
    return f"/api/v1/namespaces/{namespace}/pods"


def a_pod(
    name: str,
    *,
    limits: dict[str, str] | None = None,
    env: dict[str, str] | list[dict[str, Any]] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container with these limits and variables; the rest is of its spec."""
    container: dict[str, Any] = {"name": "c", "image": "example.com/none"}
    if limits is not None:
        container["resources"] = {"limits": limits}
    if env is not None:
        container["env"] = as_env(env)
    metadata = {"name": name, "annotations": annotations or {}, "labels": labels or {}}
    its = {"containers": [container], "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": its}


def as_env(env: dict[str, str] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Variables as a container lists them."""
    return [{"name": name, "value": value} for name, value in env.items()] if isinstance(env, dict) else env


def _furnish(admin: Person) -> None:
    labels = {
        TENANT: {},
        MANAGED: {"gpufleet.io/managed": "true"},
        INFRASTRUCTURE: {"gpufleet.io/device-access": "all"},
    }
    for namespace, its in labels.items():
        metadata = {"name": namespace, "labels": its}
        _made(admin, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for namespace in (*labels, "kube-system"):
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        until(partial(_is_there, admin, account))
    _made(admin, f"{RBAC}/namespaces/{TENANT}/roles", _role("Role", "owner", EVERYTHING))
    _bind(admin, f"/namespaces/{TENANT}", "RoleBinding", "owner", ("Role", "owner"), ("User", "olga"))
    for part in ("edit", "view"):
        role = ("ClusterRole", f"system:aggregate-to-{part}")
        _bind(admin, f"/namespaces/{TENANT}", "RoleBinding", f"ed-{part}", role, ("User", "ed"))
    # The policies are asked alone: what RBAC would refuse already is given to those who pass them.
    _made(admin, f"{RBAC}/clusterroles", _role("ClusterRole", "pods-anywhere", PODS_ANYWHERE))
    for name, subject in (
        ("nodes", ("Group", "system:nodes")),
        ("scheduler", ("User", DEFAULT_IDENTITY.user)),
        ("controllers", ("User", "system:kube-controller-manager")),
        ("daemon-sets", ("User", "system:serviceaccount:kube-system:daemon-set-controller")),
    ):
        _bind(admin, "", "ClusterRoleBinding", name, ("ClusterRole", "pods-anywhere"), subject)


PODS_ANYWHERE = [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]}]


def _is_there(person: Person, path: str) -> bool:
    return person.ask("GET", path)[0] == 200


def _role(kind: str, name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": rules,
    }


def _bind(
    admin: Person, where: str, kind: str, name: str, role: tuple[str, str], subject: tuple[str, str]
) -> None:
    group = "rbac.authorization.k8s.io"
    body = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": role[0], "name": role[1]},
        "subjects": [{"apiGroup": group, "kind": subject[0], "name": subject[1]}],
    }
    _made(admin, f"{RBAC}{where}/{kind.lower()}s", body)


def _made(admin: Person, path: str, body: dict[str, Any]) -> None:
    status, answer = admin.ask("POST", path, body)
    assert status == 201, answer
