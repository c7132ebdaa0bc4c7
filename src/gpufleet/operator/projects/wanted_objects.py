"""What a project is made of: pure functions from a project to the objects that must be there.

They come in the order in which they are written. Rights come last, so that no pod is made in a namespace
before its limits hold. Owners write their GpuProject by a role that is given for its name alone. Each has a
name of its own in each namespace, so that it is found again without a record. Pods are let to their own
namespace (ranks of a gang talk on any port), to the cluster's names, and to the listed networks.
"""

import hashlib
import ipaddress
from collections.abc import Iterator
from typing import Any

import msgspec

from gpufleet.kube.codec.durations import written_duration
from gpufleet.kube.meanings.image_policies import ALLOWED_REGISTRIES, IMAGE_POLICY
from gpufleet.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    FLEET_QUEUES,
    GPU_PROJECTS,
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_POLICIES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    Kind,
)
from gpufleet.model.gpu_project import GpuProject, OwnQueue, ProjectRole, QueueQuota
from gpufleet.operator.parking.parking_keys import PARK_AFTER, PARK_WARNING
from gpufleet.operator.projects import project_keys as keys

KINDS = (
    FLEET_QUEUES,
    NAMESPACES,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
)
"""The kinds of which a project is made."""

BINDINGS = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)

RBAC = "rbac.authorization.k8s.io"
DNS_PORTS = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
NODE_LOCAL_DNS = "169.254.20.10/32"
"""Where the cache of names on each node answers, in clusters that have it."""

CREDENTIAL_ADDRESSES = tuple(map(ipaddress.ip_network, ("169.254.169.254/32", "fd00:ec2::254/128")))
"""Machines of clouds tell every pod that asks here the credentials of the machine."""


NO_CRITICAL_PODS = {
    "hard": {"pods": "0"},
    "scopeSelector": {
        "matchExpressions": [
            {
                "scopeName": "PriorityClass",
                "operator": "In",
                "values": ["system-node-critical", "system-cluster-critical"],
            }
        ]
    },
}
"""Kubernetes lets every namespace use the classes of its own parts, whose pods preempt all others."""


LOAD_BALANCERS, NODE_PORTS = "services.loadbalancers", "services.nodeports"


class WantedObject(msgspec.Struct, frozen=True):
    """An object that must be there; ``body`` is all of it that is the project's."""

    kind: Kind
    name: str
    namespace: str
    body: dict[str, Any]

    @property
    def key(self) -> tuple[Kind, str, str]:
        """What names it in a cluster."""
        return self.kind, self.namespace, self.name


def wanted_objects(project: GpuProject, namespace: str) -> tuple[WantedObject, ...]:
    """All objects of one namespace of a project, in the order in which they are written."""
    return tuple(_objects(project, namespace))


def wanted_queue(project: GpuProject) -> WantedObject | None:
    """The FleetQueue that the project makes for itself; None where it makes none."""
    own = project.own_queue
    if own is None or project.queue is None:
        return None
    return _object(project, FLEET_QUEUES, project.queue, "", {"spec": _queue(project, own)})


def owners_rights(project: GpuProject) -> tuple[WantedObject, ...]:
    """The role by which owners write their GpuProject, and its binding; none without an owner."""
    owners = _subjects(project, ProjectRole.OWNER)
    if not owners:
        return ()
    name = f"{keys.PROJECT_ROLE_PREFIX}{project.name}"
    rule = {
        "apiGroups": [GPU_PROJECTS.group],
        "resources": [GPU_PROJECTS.plural],
        "resourceNames": [project.name],
        "verbs": ["get", "patch"],
    }
    return (
        _object(project, CLUSTER_ROLES, name, "", {"rules": [rule]}),
        _object(project, CLUSTER_ROLE_BINDINGS, name, "", _binding(name, owners)),
    )


def without_subjects(
    project: str, kind: Kind, namespace: str, name: str, role: dict[str, Any]
) -> WantedObject:
    """A binding of a project without subjects."""
    return _written(project, kind, name, namespace, {"roleRef": role, "subjects": []}, {}, {})


def _objects(project: GpuProject, namespace: str) -> Iterator[WantedObject]:
    yield _object(project, NAMESPACES, namespace, "", {}, _labels(project), _annotations(project))
    quota = {"spec": {"hard": {**_exposure(project), **dict(project.namespace_quota)}}}
    yield _object(project, RESOURCE_QUOTAS, keys.OBJECT_NAME, namespace, quota)
    yield _object(project, RESOURCE_QUOTAS, keys.CRITICAL, namespace, {"spec": NO_CRITICAL_PODS})
    defaults = dict(project.container_defaults)
    # No maximum: of a GPU it would be the default of every container.
    limits = [{"type": "Container", "default": defaults, "defaultRequest": defaults}] if defaults else []
    yield _object(project, LIMIT_RANGES, keys.OBJECT_NAME, namespace, {"spec": {"limits": limits}})
    yield _object(project, NETWORK_POLICIES, keys.OBJECT_NAME, namespace, {"spec": _network(project)})
    for name, role, of in (
        (keys.VIEWERS, keys.VIEWER_ROLE, (ProjectRole.VIEWER,)),
        (keys.MEMBERS, keys.MEMBER_ROLE, (ProjectRole.OWNER, ProjectRole.MEMBER)),
        (keys.OWNERS, keys.OWNER_ROLE, (ProjectRole.OWNER,)),
    ):
        yield _object(project, ROLE_BINDINGS, name, namespace, _binding(role, _subjects(project, *of)))


def _object(
    project: GpuProject,
    kind: Kind,
    name: str,
    namespace: str,
    content: dict[str, Any],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> WantedObject:
    return _written(project.name, kind, name, namespace, content, labels or {}, annotations or {})


def _written(
    project: str,
    kind: Kind,
    name: str,
    namespace: str,
    content: dict[str, Any],
    labels: dict[str, str],
    annotations: dict[str, str],
) -> WantedObject:
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {keys.PROJECT: project, **labels},
        "annotations": dict(annotations),
    }
    if namespace:
        metadata["namespace"] = namespace
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **content}
    # In a fixed order of keys, or another release could write every object anew.
    digest = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    metadata["annotations"][keys.WRITTEN] = digest[:16]
    return WantedObject(kind, name, namespace, body)


def _exposure(project: GpuProject) -> dict[str, str]:
    """No Service is reached from outside of the cluster, unless the quota of the project says how many are.

    A load balancer has a port on every node, so that a project that has some is not held to none of these.
    """
    said = {key for key, _ in project.namespace_quota}
    if LOAD_BALANCERS in said:
        return {}
    return {LOAD_BALANCERS: "0"} if NODE_PORTS in said else {LOAD_BALANCERS: "0", NODE_PORTS: "0"}


def _labels(project: GpuProject) -> dict[str, str]:
    found = {keys.TEAM: project.team, keys.MANAGED: "true"}
    found |= dict.fromkeys(keys.POD_SECURITY, project.pod_security.value.lower())
    if project.queue is not None:
        found[keys.QUEUE_LABEL] = project.queue
    if project.images is not None:
        found[IMAGE_POLICY] = project.images.treatment.value.lower()
    return found


def _annotations(project: GpuProject) -> dict[str, str]:
    found = {}
    if project.images is not None and project.images.registries:
        found[ALLOWED_REGISTRIES] = ",".join(project.images.registries)
    if project.tolerated_taints is not None:
        found[keys.TOLERATED_TAINTS] = ",".join(project.tolerated_taints)
    rule = project.idle_rule
    if rule is not None:
        found[PARK_AFTER] = written_duration(rule.after_us)
        if rule.warning_us is not None:
            found[PARK_WARNING] = written_duration(rule.warning_us)
    return found


def _network(project: GpuProject) -> dict[str, Any]:
    # For Kubernetes an empty selector without a namespace means all pods of the policy's own namespace.
    inside: list[dict[str, Any]] = [{"podSelector": {}}]
    names = [
        {"namespaceSelector": _named("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}},
        {"ipBlock": {"cidr": NODE_LOCAL_DNS}},
    ]
    outside = [{"to": [{"ipBlock": _block(text)} for text in project.egress]}] if project.egress else []
    guests = [{"namespaceSelector": _named(name)} for name in project.ingress_namespaces]
    return {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": inside + guests}],
        "egress": [{"to": inside}, {"to": names, "ports": DNS_PORTS}, *outside],
    }


def _named(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {keys.NAMESPACE_NAME: namespace}}


def _block(text: str) -> dict[str, Any]:
    network = ipaddress.ip_network(text)
    left_out = [
        str(one)
        for one in CREDENTIAL_ADDRESSES
        if one.version == network.version and one != network and one.subnet_of(network)  # type: ignore[arg-type]
    ]
    return {"cidr": text, "except": left_out} if left_out else {"cidr": text}


def _binding(role: str, subjects: list[dict[str, str]]) -> dict[str, Any]:
    return {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": subjects}


def _subjects(project: GpuProject, *roles: ProjectRole) -> list[dict[str, str]]:
    return [
        {"apiGroup": RBAC, "kind": "User" if one.user else "Group", "name": one.user or one.group}
        for one in project.members
        if one.role in roles
    ]


def _queue(project: GpuProject, own: OwnQueue) -> dict[str, Any]:
    spec: dict[str, Any] = {"namespaceSelector": {"matchLabels": {keys.PROJECT: project.name}}}
    if own.parent is not None:
        spec["parent"] = own.parent
    if own.quotas:
        spec["quotas"] = [_quota(one) for one in own.quotas]
    return spec


def _quota(quota: QueueQuota) -> dict[str, str]:
    found = {
        "resource": quota.resource,
        "nominal": quota.nominal,
        "borrowingLimit": quota.borrowing_limit,
        "hardLimit": quota.hard_limit,
    }
    return {name: text for name, text in found.items() if text}
