"""Every right that gpufleet gives to itself, in one list: who adds one has to write it here too.

What is watched by somebody who asks for one name alone is given for that name alone.
"""

from collections import defaultdict
from typing import Any

from gpufleet.devices.sharing.nvidia_places import NVIDIA_NAMES, SOUGHT_NAMES
from gpufleet.kube.manifests import manifests

READ = "get list watch"
WRITES: dict[str, dict[str, str]] = {
    "ClusterRole gpufleet-scheduler": {
        "pods/binding": "create",
        "pods/eviction": "create",
        "pods/status": "patch",
        "nodes/status": "patch",
        "fleetqueues/status.gpufleet.io": "patch",
        # Which models and datasets are copied there before work starts.
        "nodedata.gpufleet.io": "patch",
        "pods": "delete",
        "persistentvolumeclaims": "patch",
        "persistentvolumes": "patch",
        "events.events.k8s.io": "create",
        # A claim's finalizer, its devices and users, and the right that Kubernetes 1.36 asks for beside it.
        "resourceclaims.resource.k8s.io": "create patch",
        "resourceclaims/status.resource.k8s.io": "patch",
        "resourceclaims/binding.resource.k8s.io": "patch",
        # Gangs that ask for their nodes together.
        "provisioningrequests.autoscaling.x-k8s.io": "create delete",
        "podtemplates": "create delete",
    },
    "Role gpufleet-scheduler": {
        "leases.coordination.k8s.io": "create",
        "leases.coordination.k8s.io=gpufleet-scheduler": "patch",
    },
    "ClusterRole gpufleet-agent": {
        "nodes": "patch",
        "nodes/status": "patch",
        "nodedevices.gpufleet.io": "create patch update",
        "nodedata.gpufleet.io": "create patch update",
        "nodefeatures.nfd.k8s-sigs.io": "create delete patch update",
        "events.events.k8s.io": "create",
    },
    "Role gpufleet-agent-sharing": {},
    "ClusterRole gpufleet-agent-nvidia-configs": {},
    "ClusterRole gpufleet-agent-dra": {"resourceslices.resource.k8s.io": "create delete update"},
    "ClusterRole gpufleet-explain": {},
    "ClusterRole gpufleet-doctor": {},
}
AGENT_READS = {
    "ClusterRole gpufleet-agent": {
        "pods": READ,
        "nodes": READ,
        "nodedevices.gpufleet.io": READ,
        "nodedata.gpufleet.io": READ,
        "nodefeatures.nfd.k8s-sigs.io": READ,
    },
    "Role gpufleet-agent-sharing": {"configmaps=gpufleet-sharing": READ},
    "ClusterRole gpufleet-agent-nvidia-configs": {f"configmaps={name}": READ for name in NVIDIA_NAMES},
    "ClusterRole gpufleet-agent-dra": {
        "resourceslices.resource.k8s.io": READ,
        "resourceclaims.resource.k8s.io": "get",
    },
}
SECRET = {"secrets", "serviceaccounts", "serviceaccounts/token", "pods/exec", "pods/log", "nodes/proxy"}


PROJECT_ROLES = ("gpufleet-project-member", "gpufleet-project-viewer", "gpufleet-project-owner")
"""Roles of persons, not of gpufleet: tests.operator.projects tries them on a real server."""

KEPT_FROM_MEMBERS = {
    "*",
    "namespaces",
    "resourcequotas",
    "limitranges",
    "networkpolicies.networking.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "serviceaccounts",
    "serviceaccounts/token",
    "pods/status",
}


def test_members_of_projects_write_nothing_that_limits_them() -> None:
    for role in PROJECT_ROLES[:2]:
        its = given(reading=False, roles=(role,))[f"ClusterRole {role}"]
        assert not KEPT_FROM_MEMBERS & set(its)
        assert not {"*", "bind", "escalate", "impersonate"} & set(" ".join(its.values()).split())
    assert given(reading=False, roles=PROJECT_ROLES[1:]) == {
        "ClusterRole gpufleet-project-viewer": {},
        # Bound in each namespace: the one that the binding is in.
        "ClusterRole gpufleet-project-owner": {"namespaces": "delete"},
    }


def given(*, reading: bool, roles: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
    """The verbs that each role gives, by resource, and by name where it is given for a name.

    Without ``roles`` those of gpufleet itself.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for one in manifests((1, 37)):
        name = one["metadata"]["name"]
        is_asked = name in roles if roles else name not in PROJECT_ROLES
        if one["kind"] in ("ClusterRole", "Role") and is_asked:
            verbs = found.setdefault(f"{one['kind']} {one['metadata']['name']}", defaultdict(set))
            for rule in one["rules"]:
                for resource in resources(rule):
                    verbs[resource] |= {verb for verb in rule["verbs"] if (verb in READ.split()) is reading}
    return {
        role: {name: " ".join(sorted(verbs)) for name, verbs in its.items() if verbs}
        for role, its in found.items()
    }


def resources(rule: dict[str, Any]) -> list[str]:
    """What a rule is about, as kubectl writes it, with the name behind it that it is given for."""
    whole = [
        f"{resource}.{group}" if group else resource
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    names = rule.get("resourceNames")
    return whole if names is None else [f"{one}={name}" for one in whole for name in names]


def test_who_writes_what() -> None:
    assert given(reading=False) == WRITES


def test_what_the_agent_reads() -> None:
    assert {role: its for role, its in given(reading=True).items() if role in AGENT_READS} == AGENT_READS


def test_nobody_reads_what_is_secret() -> None:
    for role, its in given(reading=True).items():
        assert not {name.partition("=")[0] for name in its} & SECRET, role
        maps = {name for name in its if name.startswith("configmaps")}
        names = SOUGHT_NAMES if role == "ClusterRole gpufleet-doctor" else ("gpufleet-sharing", *NVIDIA_NAMES)
        assert maps <= {f"configmaps={name}" for name in names}, role


def test_the_doctor_reads_each_config_map_that_it_looks_for() -> None:
    maps = {name for name in given(reading=True)["ClusterRole gpufleet-doctor"] if "configmaps" in name}
    assert maps == {f"configmaps={name}" for name in SOUGHT_NAMES}
