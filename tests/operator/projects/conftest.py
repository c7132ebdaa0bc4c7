"""A cluster in which projects are kept with the rights and the guard of the chart, empty for each module."""

from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests import waiting
from tests.chart import rendering
from tests.kube.manifests.real_server import Person, install_all, until
from tests.localkube.cluster import a_cluster
from tests.operator.projects.real_projects import NAMESPACES, OPERATOR, PROJECTS, QUEUES, RBAC, made

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
LABEL = "gpufleet.io/project"
GONE_S = 120.0
"""What is in a namespace goes before it."""

SYSTEM = frozenset({"default", "gpufleet-system"})
ACCOUNT = "system:serviceaccount:gpufleet-system:gpufleet-operator"


@pytest.fixture(scope="package")
def cluster_of_projects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed, and the chart's rights for projects are given."""
    with a_cluster(tmp_path_factory.mktemp("projects")) as cluster:
        install_all(cluster)
        with Person(cluster, "root", ("system:masters",)) as admin:
            give_rights(admin)
        with Person(cluster, OPERATOR) as operator:
            body = {"metadata": {"name": "nobodys"}}
            until(lambda: operator.ask("POST", f"{NAMESPACES}?dryRun=All", body)[0] in {403, 422})
        yield cluster


@pytest.fixture(scope="module")
def installed(cluster_of_projects: LocalCluster) -> Iterator[LocalCluster]:
    """That cluster, without projects of other modules."""
    yield cluster_of_projects
    with Person(cluster_of_projects, "root", ("system:masters",)) as admin:
        clear(admin)


def clear(admin: Person) -> None:
    """Take away what the tests of a module made, and wait until its namespaces are gone."""
    assert admin.merge(f"{NAMESPACES}/kube-public", {"metadata": {"labels": {LABEL: None}}})[0] == 200
    for path in (PROJECTS, QUEUES):
        assert admin.ask("DELETE", path)[0] == 200
    for kind in ("clusterrolebindings", "clusterroles"):
        assert admin.ask("DELETE", f"{RBAC}/{kind}?labelSelector={LABEL}")[0] == 200
    for name in own_namespaces(admin):
        assert admin.ask("DELETE", f"{NAMESPACES}/{name}")[0] in {200, 404, 409}
    waiting.until(lambda: not own_namespaces(admin), GONE_S, "namespaces of tests are still there")


def own_namespaces(admin: Person) -> list[str]:
    """Namespaces that tests made."""
    names = [one["metadata"]["name"] for one in admin.ask("GET", NAMESPACES)[1]["items"]]
    return [name for name in names if name not in SYSTEM and not name.startswith("kube-")]


def give_rights(admin: Person) -> None:
    """What the chart installs for projects, for a user in place of the operator's account."""
    values = {"operator": {"enabled": True, "projects": {"enabled": True}}}
    objects = rendering.rendered(values)
    made(admin, f"{RBAC}/clusterroles", rendering.one(objects, "ClusterRole", "gpufleet-projects"))
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "gpufleet-projects"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": OPERATOR}],
    }
    made(admin, f"{RBAC}/clusterrolebindings", body)
    policy = rendering.one(objects, "ValidatingAdmissionPolicy", "gpufleet-projects-guard")
    text = msgspec.json.encode(policy)
    assert ACCOUNT.encode() in text
    policy = msgspec.json.decode(text.replace(ACCOUNT.encode(), OPERATOR.encode()))
    made(admin, f"{ADMISSION}/validatingadmissionpolicies", policy)
    binding = rendering.one(objects, "ValidatingAdmissionPolicyBinding", "gpufleet-projects-guard")
    made(admin, f"{ADMISSION}/validatingadmissionpolicybindings", binding)


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """An administrator."""
    with Person(installed, "root", ("system:masters",)) as person:
        yield person
