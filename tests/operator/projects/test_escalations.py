"""What members and owners of a project try in order to have more than it gives them, on a real API server.

Each attempt is refused with 403: by the rights, or by an admission policy. The operator's own account is
tried, too: what it could do in the wrong hands.
"""

import asyncio
from typing import Any

import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.kube.codec.project_cases import ProjectCase, spec
from tests.kube.manifests.real_server import Person
from tests.operator.projects.real_projects import (
    BINDING,
    NAMESPACES,
    OPERATOR,
    POLICY,
    PROJECTS,
    QUEUES,
    QUOTA,
    RBAC,
    VISION,
    is_ready,
    made,
    running_controller,
    write,
)
from tests.operator.real_server import until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
OWN = f"{PROJECTS}/vision"
FLEET_QUEUE = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
OLGA = {"user": "olga", "role": "Owner"}
ANN = {"user": "ann", "role": "Member"}
FULL: dict[str, Any] = {
    "namespaces": ["vision"],
    "members": [OLGA, ANN],
    "ownerLimits": {"namespacesMax": 2},
    "ownQueue": {"quotas": [{"resource": "gpu", "nominal": "8"}]},
    "namespaceQuota": {"requests.nvidia.com/gpu": 8, "limits.memory": "1024Gi"},
    "containerDefaults": {"memory": "1024Mi"},
    "network": {"egress": ["10.0.0.0/8"]},
    "images": {"policy": "Deny", "registries": ["registry.example.com"]},
    "idleRule": {"after": "2h"},
}


@pytest.fixture(scope="module", autouse=True)
def _there(installed: LocalCluster, admin: Person) -> None:
    """Project vision of owner olga and member ann, a project of others, and a queue with doors."""
    write(admin, **FULL)
    write(admin, "others", namespaces=["others"], members=[{"user": "zoe", "role": "Owner"}])
    door = {"namespaces": ["vision-prod"]}
    made(admin, QUEUES, {**FLEET_QUEUE, "metadata": {"name": "prod"}, "spec": door})

    async def story() -> None:
        async with running_controller(installed):
            await until(lambda: is_ready(admin) and is_ready(admin, "others"), "made")

    asyncio.run(story())


def binding_of(role: str) -> dict[str, Any]:
    """A binding that gives ann a role."""
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}],
    }


def service(kind: str) -> dict[str, Any]:
    """A Service that is reached from outside of the cluster."""
    return {"metadata": {"name": "mine"}, "spec": {"type": kind, "ports": [{"port": 80}]}}


def tolerating(*tolerations: dict[str, str], of: str = "") -> dict[str, Any]:
    """A pod that is right in all else; ``of`` is the kind of its controller, as it says itself."""
    container = {
        "name": "c",
        "image": "registry.example.com/x@sha256:" + "0" * 64,
        "resources": {"limits": {"memory": "1Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"containers": [container], "securityContext": security, "tolerations": list(tolerations)}
    owner = {"apiVersion": "apps/v1", "kind": of, "name": "x", "uid": "x", "controller": True}
    return {"metadata": {"name": "mine", **({"ownerReferences": [owner]} if of else {})}, "spec": spec}


MERGE = "application/merge-patch+json"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/vision/resourceclaims"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet"
OF_ALL: tuple[tuple[str, str, str, object], ...] = (
    ("a binding of admin", "POST", f"{RBAC}/namespaces/vision/rolebindings", binding_of("cluster-admin")),
    ("a binding of its own role", "POST", f"{RBAC}/namespaces/vision/rolebindings", binding_of("edit")),
    ("a wider role", "POST", f"{RBAC}/namespaces/vision/roles", {"metadata": {"name": "mine"}, "rules": []}),
    ("a binding for all", "POST", f"{RBAC}/clusterrolebindings", binding_of("cluster-admin")),
    ("more quota", "PATCH", QUOTA, {"spec": {"hard": {"requests.nvidia.com/gpu": "99"}}}),
    ("no quota", "DELETE", QUOTA, None),
    ("no limits", "DELETE", f"{VISION}/limitranges/gpufleet-project", None),
    ("no network policy", "DELETE", POLICY, None),
    (
        "a network policy of all",
        "POST",
        POLICY.rpartition("/")[0],
        {"metadata": {"name": "all"}, "spec": {"podSelector": {}, "egress": [{}], "policyTypes": ["Egress"]}},
    ),
    (
        "no Pod Security",
        "PATCH",
        VISION,
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
    ),
    ("another queue", "PATCH", VISION, {"metadata": {"labels": {"gpufleet.io/queue": "other"}}}),
    ("the status of its namespace", "PATCH", f"{VISION}/status", {"metadata": {"labels": {"a": "b"}}}),
    ("another namespace", "POST", NAMESPACES, {"metadata": {"name": "mine"}}),
    ("a project of its own", "POST", PROJECTS, ProjectCase("own", spec()).object("mine")),
    ("a ServiceAccount", "POST", f"{VISION}/serviceaccounts", {"metadata": {"name": "mine"}}),
    ("a token", "POST", f"{VISION}/serviceaccounts/default/token", {"spec": {}}),
    (
        "a token that never ends",
        "POST",
        f"{VISION}/secrets",
        {
            "metadata": {"name": "mine", "annotations": {"kubernetes.io/service-account.name": "default"}},
            "type": "kubernetes.io/service-account-token",
        },
    ),
    (
        "traffic to an address of others",
        "POST",
        f"{VISION}/services",
        {"metadata": {"name": "mine"}, "spec": {"ports": [{"port": 443}], "externalIPs": ["10.96.0.1"]}},
    ),
    ("a port on every node", "POST", f"{VISION}/services", service("NodePort")),
    ("a load balancer", "POST", f"{VISION}/services", service("LoadBalancer")),
    ("every taint", "POST", f"{VISION}/pods", tolerating({"operator": "Exists"})),
    ("a cordoned node", "POST", f"{VISION}/pods", tolerating({"key": "node.kubernetes.io/unschedulable"})),
    (
        "the control plane",
        "POST",
        f"{VISION}/pods",
        tolerating({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}),
    ),
    (
        "a cordoned node as a DaemonSet would",
        "POST",
        f"{VISION}/pods",
        tolerating({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, of="DaemonSet"),
    ),
    (
        "a pod of a critical class",
        "POST",
        f"{VISION}/pods",
        {
            "metadata": {"name": "mine"},
            "spec": {
                "priorityClassName": "system-node-critical",
                "containers": [{"name": "c", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}],
            },
        },
    ),
    ("a binding of a pod", "POST", f"{VISION}/pods/none/binding", {"target": {"kind": "Node", "name": "n"}}),
    ("a container in a pod", "PATCH", f"{VISION}/pods/none/ephemeralcontainers", {"spec": {}}),
    ("a resource claim", "POST", CLAIMS, {"metadata": {"name": "mine"}, "spec": {}}),
    ("a PriorityClass", "POST", CLASSES, {"metadata": {"name": "mine"}, "value": 9}),
    (
        "pods elsewhere evicted",
        "POST",
        f"{NAMESPACES}/others/pods/none/eviction",
        {"metadata": {"name": "none"}},
    ),
    ("the Lease of the scheduler", "PATCH", LEASE, {"spec": {"holderIdentity": "mine"}}),
    ("GPUs of a node", "PATCH", "/apis/gpufleet.io/v1alpha1/nodedevices/none", {"spec": {}}),
    ("Secrets elsewhere", "GET", f"{NAMESPACES}/kube-system/secrets", None),
    ("pods elsewhere", "GET", f"{NAMESPACES}/default/pods", None),
    ("another queue's quota", "PATCH", f"{QUEUES}/prod", {"spec": {"weight": 99}}),
    ("its own queue's quota", "PATCH", f"{QUEUES}/vision", {"spec": {"weight": 99}}),
    ("a queue of its own", "POST", QUEUES, {**FLEET_QUEUE, "metadata": {"name": "mine"}, "spec": {}}),
    (
        "the binding of owners",
        "PATCH",
        f"{RBAC}/clusterrolebindings/gpufleet-project:vision",
        {"subjects": []},
    ),
    ("the role of owners", "PATCH", f"{RBAC}/clusterroles/gpufleet-project:vision", {"rules": []}),
    ("the binding of members", "PATCH", BINDING, {"subjects": []}),
    ("no guard", "DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/gpufleet-project-owners", None),
    (
        "a certificate",
        "POST",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        {
            "metadata": {"name": "mine"},
            "spec": {
                "request": "eA==",
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature"],
            },
        },
    ),
    ("the end of its namespace at once", "PUT", f"{VISION}/finalize", {"metadata": {"name": "vision"}}),
    ("all projects", "GET", PROJECTS, None),
    ("a project of others", "GET", f"{PROJECTS}/others", None),
    ("members of others", "PATCH", f"{PROJECTS}/others", {"spec": {"members": [OLGA]}}),
    ("the status of its project", "PATCH", f"{OWN}/status", {"status": {"namespaces": []}}),
    ("the end of its project", "DELETE", OWN, None),
    ("the end of a namespace of others", "DELETE", f"{NAMESPACES}/others", None),
    ("a node's kubelet", "GET", "/api/v1/nodes/node-1/proxy/pods", None),
    ("the status of pods", "PATCH", f"{VISION}/pods/none/status", {"status": {"phase": "Failed"}}),
    (
        "a privileged pod",
        "POST",
        f"{VISION}/pods",
        {
            "metadata": {"name": "mine"},
            "spec": {
                "hostNetwork": True,
                "containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}],
            },
        },
    ),
)


def attempt(person: Person, method: str, path: str, body: object) -> tuple[int, object]:
    """One attempt: the status and the answer."""
    return person.ask(method, path, body, MERGE if method == "PATCH" else "application/json")


@pytest.mark.parametrize("what", [one[0] for one in OF_ALL])
@pytest.mark.parametrize("user", ["ann", "olga"])
def test_no_escalation_gets_through(installed: LocalCluster, user: str, what: str) -> None:
    (tried,) = (one for one in OF_ALL if one[0] == what)
    with Person(installed, user) as person:
        status, answer = attempt(person, *tried[1:])
    assert status == 403, answer


def test_members_and_owners_work_in_their_namespaces(installed: LocalCluster) -> None:
    """The rights are there, so that a refusal says something."""
    for user in ("ann", "olga"):
        with Person(installed, user) as person:
            assert person.ask("GET", f"{VISION}/secrets")[0] == 200
            config = {"metadata": {"name": "a-config"}}
            assert person.ask("POST", f"{VISION}/configmaps?dryRun=All", config)[0] == 201
            service = {"metadata": {"name": "a-service"}, "spec": {"ports": [{"port": 80}]}}
            assert person.ask("POST", f"{VISION}/services?dryRun=All", service)[0] == 201
            assert person.ask("POST", f"{VISION}/secrets?dryRun=All", {"metadata": {"name": "own"}})[0] == 201
            gpu = tolerating({"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "value": "x"})
            assert person.ask("POST", f"{VISION}/pods?dryRun=All", gpu)[0] == 201


def test_a_project_says_which_taints_its_pods_tolerate(admin: Person) -> None:
    """The operator writes the list of the project onto the namespace; here its words are written by hand."""
    spot, every = (
        tolerating({"key": "example.com/spot", "operator": "Exists"}),
        tolerating({"operator": "Exists"}),
    )
    admin.ask("POST", NAMESPACES, {"metadata": labelled("tainted", "tainted")})
    pods = f"{NAMESPACES}/tainted/pods?dryRun=All"

    def answers(listed: str | None) -> list[int]:
        annotations = {"gpufleet.io/tolerated-taints": listed}
        assert admin.merge(f"{NAMESPACES}/tainted", {"metadata": {"annotations": annotations}})[0] == 200
        gpu = tolerating({"key": "nvidia.com/gpu", "operator": "Exists"})
        return [admin.ask("POST", pods, one)[0] for one in (gpu, spot, every)]

    assert answers(None) == [201, 201, 403]
    assert answers("") == [201, 403, 403]
    assert answers("example.com/spot,other") == [201, 201, 403]
    assert answers("*") == [201, 201, 201]


OF_MEMBERS = (
    ("the end of its namespace", "DELETE", VISION, None),
    ("its project", "PATCH", OWN, {"spec": {"members": [OLGA, {"user": "ann", "role": "Owner"}]}}),
    ("its project's fields", "GET", OWN, None),
)


@pytest.mark.parametrize("what", [one[0] for one in OF_MEMBERS])
def test_no_member_writes_the_project(installed: LocalCluster, what: str) -> None:
    (tried,) = (one for one in OF_MEMBERS if one[0] == what)
    with Person(installed, "ann") as person:
        status, answer = attempt(person, *tried[1:])
    assert status == 403, answer


OF_OWNERS: dict[str, dict[str, Any]] = {
    "more quota": {"spec": {"namespaceQuota": {"requests.nvidia.com/gpu": 99}}},
    "no quota": {"spec": {"namespaceQuota": None}},
    "a quota of more": {"spec": {"namespaceQuota": {"pods": "999"}}},
    "other defaults": {"spec": {"containerDefaults": {"memory": "9Gi"}}},
    "a lower level": {"spec": {"podSecurity": "Baseline"}},
    "egress to all": {"spec": {"network": {"egress": ["0.0.0.0/0"]}}},
    "guests": {"spec": {"network": {"ingressNamespaces": ["others"]}}},
    "no network": {"spec": {"network": None}},
    "any image": {"spec": {"images": {"policy": "Off"}}},
    "another registry": {"spec": {"images": {"registries": ["mine.example.com"]}}},
    "no image policy": {"spec": {"images": None}},
    "no idle rule": {"spec": {"idleRule": None}},
    "a longer idle rule": {"spec": {"idleRule": {"after": "900d"}}},
    "another queue": {"spec": {"queue": "prod"}},
    "more of its queue": {"spec": {"ownQueue": {"quotas": [{"resource": "gpu", "nominal": "99"}]}}},
    "no queue": {"spec": {"ownQueue": None}},
    "another parent": {"spec": {"ownQueue": {"parent": "prod"}}},
    "another team": {"spec": {"team": "others"}},
    "wider limits": {"spec": {"ownerLimits": {"namespacesMax": 64}}},
    "another prefix": {"spec": {"ownerLimits": {"namespacePrefix": "k"}}},
    "no limits": {"spec": {"ownerLimits": None}},
    "another owner": {"spec": {"members": [OLGA, ANN, {"user": "eve", "role": "Owner"}]}},
    "a group of owners": {"spec": {"members": [OLGA, {"group": "everyone", "role": "Owner"}]}},
    "a member as owner": {"spec": {"members": [OLGA, {"user": "ann", "role": "Owner"}]}},
    "no owner": {"spec": {"members": [ANN]}},
    "a namespace elsewhere": {"spec": {"namespaces": ["vision", "others-new"]}},
    "a namespace of others": {"spec": {"namespaces": ["vision", "others"]}},
    "too many namespaces": {"spec": {"namespaces": ["vision", "vision-a", "vision-b"]}},
    "a namespace that a queue admits": {"spec": {"namespaces": ["vision", "vision-prod"]}},
    "no longer its first namespace": {"spec": {"namespaces": ["vision-a"]}},
    "its end": {"metadata": {"annotations": {"gpufleet.io/project-ending": "true"}}},
    "a label": {"metadata": {"labels": {"gpufleet.io/project": "others"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/mine"]}},
    "an owner reference": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "others", "uid": "x"}]
        }
    },
}


@pytest.mark.parametrize("what", OF_OWNERS)
def test_an_owner_changes_nothing_that_limits_the_project(
    installed: LocalCluster, admin: Person, what: str
) -> None:
    before = admin.ask("GET", OWN)[1]
    with Person(installed, "olga") as olga:
        status, answer = olga.merge(OWN, OF_OWNERS[what])
    assert status == 403, answer
    assert admin.ask("GET", OWN)[1] == before


def test_no_other_form_of_a_patch_gets_around(installed: LocalCluster) -> None:
    quota = {"op": "replace", "path": "/spec/namespaceQuota", "value": {"requests.nvidia.com/gpu": 99}}
    applied = ProjectCase("applied", spec(namespaceQuota={"requests.nvidia.com/gpu": 99})).object()
    body = {**applied, "spec": {**applied["spec"], "members": [OLGA, ANN]}}
    with Person(installed, "olga") as olga:
        assert olga.ask("PATCH", OWN, [quota], "application/json-patch+json")[0] == 403
        path = f"{OWN}?fieldManager=olga&force=true"
        assert olga.ask("PATCH", path, body, "application/apply-patch+yaml")[0] == 403
        assert olga.ask("PUT", OWN, body)[0] == 403


def test_an_owner_invites_and_makes_namespaces_within_limits(installed: LocalCluster, admin: Person) -> None:
    new = f"{NAMESPACES}/vision-new"

    def members() -> list[str]:
        path = f"{RBAC}/namespaces/vision-new/rolebindings/gpufleet-project-members"
        return [one["name"] for one in admin.ask("GET", path)[1].get("subjects", ())]

    async def story() -> None:
        async with running_controller(installed):
            with Person(installed, "olga") as olga:
                bob = {"user": "bob", "role": "Member"}
                body = {"spec": {"members": [OLGA, ANN, bob], "namespaces": ["vision", "vision-new"]}}
                assert olga.merge(OWN, body)[0] == 200
                await until(lambda: is_ready(admin), "made")
                assert members() == ["olga", "ann", "bob"]
                assert olga.merge(OWN, {"spec": {"members": [OLGA, ANN]}})[0] == 200
                await until(lambda: members() == ["olga", "ann"], "removed")
                # One that is named no more is still there, and counts.
                assert olga.merge(OWN, {"spec": {"namespaces": ["vision", "vision-more"]}})[0] == 403
                assert olga.merge(OWN, {"spec": {"namespaces": ["vision"]}})[0] == 200
                await until(lambda: not members(), "released")
                assert olga.merge(OWN, {"spec": {"namespaces": ["vision", "vision-more"]}})[0] == 403
                # The server's authorizer learns that a binding is gone a moment after it is.
                await until(lambda: olga.ask("DELETE", f"{new}?dryRun=All")[0] == 403, "no rights")
                assert olga.ask("DELETE", new)[0] == 403
                assert olga.merge(OWN, {"spec": {"namespaces": ["vision", "vision-new"]}})[0] == 200
                await until(lambda: members() == ["olga", "ann"], "back")
                # The server's authorizer learns of a new binding a moment after it is written.
                await until(lambda: olga.ask("DELETE", new)[0] == 200, "deleted")
                assert olga.merge(OWN, {"spec": {"namespaces": ["vision"]}})[0] == 200
                await until(lambda: admin.ask("GET", new)[0] == 404, "gone")
                await until(lambda: admin.ask("GET", OWN)[1]["status"]["namespaces"] == ["vision"], "told")
                assert olga.merge(OWN, {"spec": {"namespaces": ["vision", "vision-more"]}})[0] == 200
                await until(lambda: is_ready(admin), "made")

    asyncio.run(story())
    assert admin.ask("GET", f"{NAMESPACES}/vision-more")[0] == 200


def labelled(name: str, project: str = "vision") -> dict[str, Any]:
    """Metadata with the label of a project."""
    return {"name": name, "labels": {"gpufleet.io/project": project}}


def bound(role: str, name: str) -> dict[str, Any]:
    """A binding with the label of a project."""
    return {**binding_of(role), "metadata": labelled(name)}


def wide(name: str, **rule: Any) -> dict[str, Any]:
    """A role over projects."""
    whole = {"apiGroups": ["gpufleet.io"], "resources": ["gpuprojects"], "verbs": ["get", "patch"], **rule}
    return {"metadata": labelled(name), "rules": [whole]}


OF_THE_OPERATOR: tuple[tuple[str, str, str, object], ...] = (
    ("a namespace of no project", "POST", NAMESPACES, {"metadata": {"name": "mine"}}),
    (
        "a namespace of the cluster",
        "PATCH",
        f"{NAMESPACES}/kube-system",
        {"metadata": labelled("kube-system")},
    ),
    ("a namespace of others", "PATCH", f"{NAMESPACES}/foreign", {"metadata": labelled("foreign")}),
    ("another project's namespace", "PATCH", VISION, {"metadata": labelled("vision", "others")}),
    (
        "rights in a namespace of the cluster",
        "POST",
        f"{RBAC}/namespaces/kube-system/rolebindings",
        bound("gpufleet-project-member", "gpufleet-project-members"),
    ),
    (
        "rights of another name",
        "POST",
        f"{RBAC}/namespaces/vision/rolebindings",
        bound("gpufleet-project-member", "mine"),
    ),
    (
        "another role",
        "POST",
        f"{RBAC}/namespaces/vision/rolebindings",
        bound("admin", "gpufleet-project-mine"),
    ),
    ("a role over all projects", "POST", f"{RBAC}/clusterroles", wide("gpufleet-project:vision2")),
    (
        "a role over another project",
        "PATCH",
        f"{RBAC}/clusterroles/gpufleet-project:vision",
        wide("gpufleet-project:vision", resourceNames=["others"]),
    ),
    (
        "a role of the cluster",
        "PATCH",
        f"{RBAC}/clusterroles/view",
        {"metadata": labelled("view"), "rules": []},
    ),
    (
        "a binding in the cluster",
        "POST",
        f"{RBAC}/clusterrolebindings",
        bound("gpufleet-project-member", "gpufleet-project:vision3"),
    ),
    (
        "a quota elsewhere",
        "POST",
        f"{NAMESPACES}/default/resourcequotas",
        {"metadata": labelled("gpufleet-project")},
    ),
    ("a queue of others", "PATCH", f"{QUEUES}/prod", {"spec": {"weight": 99}}),
    ("a project's members", "PATCH", OWN, {"spec": {"members": []}}),
    ("the end of a namespace", "DELETE", VISION, None),
)


@pytest.mark.parametrize("what", [one[0] for one in OF_THE_OPERATOR])
def test_the_operators_account_reaches_what_belongs_to_projects_alone(
    installed: LocalCluster, admin: Person, what: str
) -> None:
    admin.ask("POST", NAMESPACES, {"metadata": {"name": "foreign"}})
    (tried,) = (one for one in OF_THE_OPERATOR if one[0] == what)
    with Person(installed, OPERATOR) as operator:
        status, answer = attempt(operator, *tried[1:])
    assert status == 403, answer
