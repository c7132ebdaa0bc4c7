"""Projects on a real API server: what is made, repaired and left alone, and what a member cannot reach."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.projects.keeping import Projects
from tests.chart import rendering
from tests.kube.codec.project_cases import PROJECT_CASES, ProjectCase, spec
from tests.kube.manifests.real_server import Person, install_all
from tests.localkube.cluster import a_cluster
from tests.operator.real_server import until

PROJECTS = "/apis/gpufleet.io/v1alpha1/gpuprojects"
NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VISION = f"{NAMESPACES}/vision"
QUOTA = f"{VISION}/resourcequotas/gpufleet-project"
POLICY = "/apis/networking.k8s.io/v1/namespaces/vision/networkpolicies/gpufleet-project"
BINDING = f"{RBAC}/namespaces/vision/rolebindings/gpufleet-project-members"
OPERATOR = "operator-of-projects"
REPAIRED_S = 10.0
"""Within which drift is to be repaired."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed, and the chart's rights for projects are given."""
    with a_cluster(tmp_path_factory.mktemp("projects")) as cluster:
        install_all(cluster)
        with Person(cluster, "root", ("system:masters",)) as admin:
            values = {"operator": {"enabled": True, "projects": {"enabled": True}}}
            role = rendering.one(rendering.rendered(values), "ClusterRole", "gpufleet-projects")
            made(admin, f"{RBAC}/clusterroles", role)
            group = "rbac.authorization.k8s.io"
            body = {
                "metadata": {"name": OPERATOR},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "gpufleet-projects"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": OPERATOR}],
            }
            made(admin, f"{RBAC}/clusterrolebindings", body)
        yield cluster


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """An administrator."""
    with Person(installed, "root", ("system:masters",)) as person:
        yield person


def made(admin: Person, path: str, body: object) -> None:
    """Create an object."""
    status, answer = admin.ask("POST", path, body)
    assert status == 201, answer


def write(admin: Person, name: str = "vision", **fields: Any) -> None:
    """Make a project, or change it."""
    path = f"{PROJECTS}/{name}?fieldManager=root&force=true"
    body = ProjectCase("project", spec(**fields)).object(name)
    status, answer = admin.ask("PATCH", path, body, "application/apply-patch+yaml")
    assert status in {200, 201}, answer


def reason(admin: Person, name: str = "vision") -> str:
    """Why the project is as ready as it is."""
    found = admin.ask("GET", f"{PROJECTS}/{name}")[1]
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return ""
    return str(status["conditions"][0]["reason"])


def is_ready(admin: Person) -> bool:
    """Whether everything is there."""
    return reason(admin) == "AsTheProjectSays"


@contextlib.asynccontextmanager
async def keeping(cluster: LocalCluster) -> AsyncIterator[Projects]:
    """A leader at work with the chart's rights, without the Lease."""
    choice = ClusterChoice(cluster.kubeconfig_for(OPERATOR, ()))
    async with connect(choice, connections=12) as connection, following(connection.client) as found:
        yield found


@contextlib.asynccontextmanager
async def following(client: Client) -> AsyncIterator[Projects]:
    """Rounds until the end."""
    found = Projects(client, lambda: True)
    task = asyncio.ensure_future(found.run())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("case", PROJECT_CASES, ids=str)
def test_the_server_takes_what_the_codec_takes(admin: Person, case: ProjectCase) -> None:
    status, answer = admin.ask("POST", f"{PROJECTS}?dryRun=All", case.object())
    if case.unreadable or (case.refused and not case.stored):
        assert status in {400, 422}, answer
    else:
        assert status == 201, answer


FULL: dict[str, Any] = {
    "members": [{"user": "ann", "role": "Member"}],
    "namespaceQuota": {"requests.nvidia.com/gpu": 8, "limits.memory": "1024Gi"},
    "containerDefaults": {"memory": "1024Mi"},
    "network": {"egress": ["0.0.0.0/0"]},
    "images": {"policy": "Warn", "registries": ["registry.example.com"]},
    "idleRule": {"after": "2h"},
}


def test_a_project_is_made_repaired_and_at_rest(installed: LocalCluster, admin: Person) -> None:
    write(admin, **FULL)

    async def story() -> None:
        async with keeping(installed) as projects:
            await until(lambda: is_ready(admin), "made")
            await asyncio.sleep(1)
            writes = projects.writes
            await asyncio.sleep(3)
            assert projects.writes == writes
            await drift(admin)

    asyncio.run(story())
    labels = admin.ask("GET", VISION)[1]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["theirs"] == "stays"
    assert admin.ask("GET", QUOTA)[1]["spec"]["hard"] == {
        "limits.memory": "1Ti",
        "pods": "7",
        "requests.nvidia.com/gpu": "8",
    }


async def drift(admin: Person) -> None:
    """Change and delete what is the project's, add what is not, and wait for the repair."""
    enforce = "pod-security.kubernetes.io/enforce"
    assert admin.merge(VISION, {"metadata": {"labels": {enforce: "privileged", "theirs": "stays"}}})[0] == 200
    assert admin.merge(QUOTA, {"spec": {"hard": {"requests.nvidia.com/gpu": "99", "pods": "7"}}})[0] == 200
    for path in (POLICY, BINDING):
        assert admin.ask("DELETE", path)[0] == 200

    def is_repaired() -> bool:
        labels = admin.ask("GET", VISION)[1]["metadata"]["labels"]
        hard = admin.ask("GET", QUOTA)[1]["spec"]["hard"]
        there = all(admin.ask("GET", path)[0] == 200 for path in (POLICY, BINDING))
        return there and labels[enforce] == "restricted" and hard["requests.nvidia.com/gpu"] == "8"

    began_s = time.monotonic()
    await until(is_repaired, "repaired")
    assert time.monotonic() - began_s < REPAIRED_S


def test_what_a_project_says_no_more_is_taken_away(installed: LocalCluster, admin: Person) -> None:
    async def story() -> None:
        async with keeping(installed):
            write(admin, **FULL)
            await until(lambda: is_ready(admin), "made")
            write(admin)
            await until(lambda: is_ready(admin), "changed")

    asyncio.run(story())
    assert "requests.nvidia.com/gpu" not in admin.ask("GET", QUOTA)[1]["spec"].get("hard", {})
    assert not admin.ask("GET", BINDING)[1].get("subjects")
    assert "gpufleet.io/image-policy" not in admin.ask("GET", VISION)[1]["metadata"]["labels"]


def test_a_namespace_of_others_is_left_as_it_is(installed: LocalCluster, admin: Person) -> None:
    made(admin, NAMESPACES, {"metadata": {"name": "theirs"}})
    before = admin.ask("GET", f"{NAMESPACES}/theirs")[1]
    write(admin, "greedy", namespaces=["theirs"])

    async def story() -> None:
        async with keeping(installed):
            await until(lambda: reason(admin, "greedy") == "NamespaceTaken", "it says so")

    asyncio.run(story())
    assert admin.ask("GET", f"{NAMESPACES}/theirs")[1] == before
    assert admin.ask("GET", f"{NAMESPACES}/theirs/resourcequotas/gpufleet-project")[0] == 404


def binding_of(role: str) -> dict[str, Any]:
    """A binding that gives ann a role."""
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}],
    }


MERGE = "application/merge-patch+json"
SELF = {"spec": {"namespaces": ["vision"], "members": [{"user": "ann", "role": "Member"}]}}
ESCALATIONS: tuple[tuple[str, str, str, object], ...] = (
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
    ("the end of its namespace", "DELETE", VISION, None),
    ("its project", "PATCH", f"{PROJECTS}/vision", SELF),
    ("a project of its own", "POST", PROJECTS, ProjectCase("own", spec()).object("mine")),
    ("a ServiceAccount", "POST", f"{VISION}/serviceaccounts", {"metadata": {"name": "mine"}}),
    ("a token", "POST", f"{VISION}/serviceaccounts/default/token", {"spec": {}}),
    ("Secrets elsewhere", "GET", f"{NAMESPACES}/kube-system/secrets", None),
    ("pods elsewhere", "GET", f"{NAMESPACES}/default/pods", None),
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


def test_no_escalation_gets_through_as_a_member(installed: LocalCluster, admin: Person) -> None:
    write(admin, **FULL)

    async def story() -> None:
        async with keeping(installed):
            await until(lambda: is_ready(admin), "made")

    asyncio.run(story())
    with Person(installed, "ann") as ann:
        assert ann.ask("GET", f"{VISION}/secrets")[0] == 200
        config = {"metadata": {"name": "a-config"}}
        assert ann.ask("POST", f"{VISION}/configmaps?dryRun=All", config)[0] == 201
        for what, method, path, body in ESCALATIONS:
            kind = MERGE if method == "PATCH" else "application/json"
            status, answer = ann.ask(method, path, body, kind)
            assert status == 403, (what, answer)
