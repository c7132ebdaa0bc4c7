"""What a project is made of: a pure function from a project to the objects that must be there.

They come in the order in which they are written. Rights come last, so that no pod is made in a namespace
before its limits hold. Each has a name of its own in each namespace, so that it is found again without a
record. Pods are let to their own namespace (ranks of a gang talk on any port), to the cluster's names, and to
the listed networks.
"""

import hashlib
import ipaddress
from collections.abc import Iterator
from typing import Any

import msgspec

from gpufleet.kube.codec.durations import written_duration
from gpufleet.kube.meanings.image_policies import ALLOWED_REGISTRIES, IMAGE_POLICY
from gpufleet.kube.resources import (
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_POLICIES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    Kind,
)
from gpufleet.model.gpu_project import GpuProject, ProjectRole
from gpufleet.operator.parking.parking_keys import PARK_AFTER, PARK_WARNING
from gpufleet.operator.projects import project_keys as keys

KINDS = (NAMESPACES, RESOURCE_QUOTAS, LIMIT_RANGES, NETWORK_POLICIES, ROLE_BINDINGS)
"""The kinds of which a project is made."""

RBAC = "rbac.authorization.k8s.io"
DNS_PORTS = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
NODE_LOCAL_DNS = "169.254.20.10/32"
"""Where the cache of names on each node answers, in clusters that have it."""

CREDENTIAL_ADDRESSES = tuple(map(ipaddress.ip_network, ("169.254.169.254/32", "fd00:ec2::254/128")))
"""Machines of clouds tell every pod that asks here the credentials of the machine."""


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


def _objects(project: GpuProject, namespace: str) -> Iterator[WantedObject]:
    yield _object(project, NAMESPACES, namespace, "", {}, _labels(project), _annotations(project))
    quota = {"spec": {"hard": dict(project.namespace_quota)}}
    yield _object(project, RESOURCE_QUOTAS, keys.OBJECT_NAME, namespace, quota)
    defaults = dict(project.container_defaults)
    # No maximum: of a GPU it would be the default of every container.
    limits = [{"type": "Container", "default": defaults, "defaultRequest": defaults}] if defaults else []
    yield _object(project, LIMIT_RANGES, keys.OBJECT_NAME, namespace, {"spec": {"limits": limits}})
    yield _object(project, NETWORK_POLICIES, keys.OBJECT_NAME, namespace, {"spec": _network(project)})
    for name, role, of in (
        (keys.VIEWERS, keys.VIEWER_ROLE, ProjectRole.VIEWER),
        (keys.MEMBERS, keys.MEMBER_ROLE, ProjectRole.MEMBER),
    ):
        body = {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": _subjects(project, of),
        }
        yield _object(project, ROLE_BINDINGS, name, namespace, body)


def _object(
    project: GpuProject,
    kind: Kind,
    name: str,
    namespace: str,
    content: dict[str, Any],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> WantedObject:
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {keys.PROJECT: project.name, **(labels or {})},
        "annotations": dict(annotations or {}),
    }
    if namespace:
        metadata["namespace"] = namespace
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **content}
    digest = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    metadata["annotations"][keys.WRITTEN] = digest[:16]
    return WantedObject(kind, name, namespace, body)


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
    rule = project.idle_rule
    if rule is not None:
        found[PARK_AFTER] = written_duration(rule.after_us)
        if rule.warning_us is not None:
            found[PARK_WARNING] = written_duration(rule.warning_us)
    return found


def _network(project: GpuProject) -> dict[str, Any]:
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


def _subjects(project: GpuProject, role: ProjectRole) -> list[dict[str, str]]:
    return [
        {"apiGroup": RBAC, "kind": "User" if one.user else "Group", "name": one.user or one.group}
        for one in project.members
        if one.role is role
    ]
