"""On a real API server: who may name which queue, and who may change which queues admit a namespace."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.kube.manifests.real_server import Answer, Person, install_all, plain_pod, until
from tests.localkube.cluster import a_cluster

NAMES = (f"pod-{number}" for number in itertools.count())
NAMESPACES = "/api/v1/namespaces"
QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
QUEUE = "gpufleet.io/queue"
KEYS = (
    QUEUE,
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
)
SELECTING = {
    "matchLabels": {"team": "vision"},
    "matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["old", "gone"]}],
}
QUEUE_SPECS: dict[str, dict[str, Any]] = {
    "vision": {"namespaces": ["vision", "vision-dev"]},
    "labelled": {"namespaceSelector": SELECTING},
    "local": {"localQueues": [{"namespace": "vision", "name": "train"}]},
    "everybody": {"namespaceSelector": {}},
    "silent": {},
    "below": {"parent": "vision"},
    "train": {"namespaces": ["elsewhere"]},
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed."""
    with a_cluster(tmp_path_factory.mktemp("namespaces")) as cluster:
        install_all(cluster)
        yield cluster


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """Somebody who may do everything, in a cluster with queues and namespaces whose admission is guarded."""
    with Person(installed, "root", ("system:masters",)) as person:
        for name in ("vision", "tenant"):
            assert person.ask("POST", NAMESPACES, namespace(name))[0] == 201
            until(partial(is_there, person, f"{NAMESPACES}/{name}/serviceaccounts/default"))
        for name, spec in QUEUE_SPECS.items():
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            assert person.ask("POST", QUEUES, {**kind, "metadata": {"name": name}, "spec": spec})[0] == 201
        until(lambda: create(person, "tenant", "train")[0] == 403)
        # Statuses have a policy of their own, which an API server may take up later than the other.
        name, path = next(NAMES), f"{NAMESPACES}/tenant/pods"
        assert person.create(plain_pod(name, labels={QUEUE: "everybody"}), path)[0] == 201
        moved = {"metadata": {"labels": {QUEUE: "vision"}}}
        until(lambda: person.merge(f"{path}/{name}/status?dryRun=All", moved)[0] == 403)
        may(person, "owner", "tenant", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
        yield person


@pytest.fixture(scope="module")
def owner(installed: LocalCluster, admin: Person) -> Iterator[Person]:
    """A tenant with all rights in one namespace, and in no other."""
    with Person(installed, "owner") as person:
        until(partial(is_there, admin, f"{NAMESPACES}/tenant"))
        until(partial(is_there, person, f"{NAMESPACES}/tenant"))
        until(lambda: relabel(person, "tenant", team="vision")[0] == 403)
        yield person


def is_there(person: Person, path: str) -> bool:
    return person.ask("GET", path)[0] == 200


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def may(admin: Person, user: str, where: str, rules: list[dict[str, Any]]) -> None:
    """All that these rules say, in one namespace."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": user},
        "rules": rules,
    }
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user}
    given = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user},
        "roleRef": ref,
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    assert admin.ask("POST", f"{RBAC}/namespaces/{where}/roles", role)[0] == 201
    assert admin.ask("POST", f"{RBAC}/namespaces/{where}/rolebindings", given)[0] == 201


def create(person: Person, where: str, queue: str, key: str = QUEUE, *, annotated: bool = False) -> Answer:
    """A pod of our scheduler that names a queue; nothing is stored."""
    metadata = {"annotations" if annotated else "labels": {key: queue}}
    return person.create(plain_pod(next(NAMES), **metadata), f"{NAMESPACES}/{where}/pods?dryRun=All")


def relabel(person: Person, name: str, **labels: str | None) -> Answer:
    """Give a Namespace other labels; nothing is stored."""
    found = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return person.merge(f"{NAMESPACES}/{name}?dryRun=All", {"metadata": {"labels": found}})


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_a_pod_may_not_name_a_queue_that_names_other_namespaces(
    admin: Person, key: str, annotated: bool
) -> None:
    status, answer = create(admin, "tenant", "vision", key, annotated=annotated)
    assert (status, answer["reason"]) == (403, "Forbidden")
    words = "namespace tenant may not use queue vision: it admits namespaces vision, vision-dev"
    assert words in answer["message"]
    assert create(admin, "vision", "vision", key, annotated=annotated)[0] == 201


@pytest.mark.parametrize(
    ("queue", "where", "status"),
    [
        ("labelled", "tenant", 403),
        ("local", "tenant", 403),
        ("local", "vision", 201),
        ("everybody", "tenant", 201),
        ("nobody", "tenant", 201),
        # The scheduler sees what these queues admit, which depends on other queues.
        ("silent", "tenant", 201),
        ("below", "tenant", 201),
    ],
)
def test_each_kind_of_door(admin: Person, queue: str, where: str, status: int) -> None:
    assert create(admin, where, queue)[0] == status


def test_the_first_key_counts_as_it_does_for_the_scheduler(admin: Person) -> None:
    labels = {KEYS[1]: "vision", QUEUE: "everybody"}
    pods = f"{NAMESPACES}/tenant/pods?dryRun=All"
    assert admin.create(plain_pod(next(NAMES), labels=labels), pods)[0] == 201
    labels = {KEYS[1]: "everybody", QUEUE: "vision"}
    assert admin.create(plain_pod(next(NAMES), labels=labels), pods)[0] == 403


def test_a_local_name_means_another_queue(admin: Person) -> None:
    assert create(admin, "vision", "train")[0] == 403
    told = {"status": {"localNameIn": ["vision"]}}
    assert admin.merge(f"{QUEUES}/train/status", told)[0] == 200
    until(lambda: create(admin, "vision", "train")[0] == 201)
    assert create(admin, "tenant", "train")[0] == 403


def test_the_label_of_a_namespace_names_a_queue_for_its_pods(admin: Person) -> None:
    assert admin.ask("POST", NAMESPACES, namespace("mapped", **{QUEUE: "vision"}))[0] == 201
    until(partial(is_there, admin, f"{NAMESPACES}/mapped/serviceaccounts/default"))
    pod = plain_pod(next(NAMES))
    assert admin.create(pod, f"{NAMESPACES}/mapped/pods?dryRun=All")[0] == 403
    assert create(admin, "mapped", "everybody")[0] == 201


def test_pods_of_other_schedulers_are_left_alone(admin: Person) -> None:
    pod = plain_pod(next(NAMES), labels={QUEUE: "vision"})
    pod["spec"]["schedulerName"] = "default-scheduler"
    assert admin.create(pod, f"{NAMESPACES}/tenant/pods?dryRun=All")[0] == 201


def test_a_pod_is_not_moved_to_such_a_queue_later_and_else_edited_as_ever(admin: Person) -> None:
    name = next(NAMES)
    path = f"{NAMESPACES}/tenant/pods"
    assert admin.create(plain_pod(name, labels={QUEUE: "everybody"}), path)[0] == 201
    for where in ("labels", "annotations"):
        moved = {"metadata": {"labels": {QUEUE: None}, where: {QUEUE: "vision"}}}
        if where == "labels":
            moved = {"metadata": {"labels": {QUEUE: "vision"}}}
        assert admin.merge(f"{path}/{name}", moved)[0] == 403
        assert admin.merge(f"{path}/{name}/status", moved)[0] == 403
    assert admin.merge(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})[0] == 200


def test_through_its_status_a_pod_is_given_no_other_queue_and_else_labelled_as_ever(admin: Person) -> None:
    name = next(NAMES)
    path = f"{NAMESPACES}/vision/pods"
    assert admin.create(plain_pod(name, labels={QUEUE: "everybody"}), path)[0] == 201
    for key in KEYS:
        for where in ("labels", "annotations"):
            moved = {"metadata": {where: {key: "vision"}}}
            status, answer = admin.merge(f"{path}/{name}/status?dryRun=All", moved)
            assert (status, answer["reason"]) == (403, "Forbidden")
            assert "through its status" in answer["message"]
    assert admin.merge(f"{path}/{name}/status?dryRun=All", {"metadata": {"labels": {QUEUE: None}}})[0] == 403
    said = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "status": {"message": "hello"}}
    assert admin.merge(f"{path}/{name}/status", said)[0] == 200
    assert admin.merge(f"{path}/{name}", {"metadata": {"labels": {QUEUE: "vision"}}})[0] == 200


def test_what_named_the_queue_before_its_door_closed_is_edited_as_ever(admin: Person) -> None:
    name = next(NAMES)
    path = f"{NAMESPACES}/tenant/pods"
    assert admin.create(plain_pod(name, labels={QUEUE: "later"}), path)[0] == 201
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    later = {**kind, "metadata": {"name": "later"}, "spec": {"namespaces": ["vision"]}}
    assert admin.ask("POST", QUEUES, later)[0] == 201
    until(lambda: create(admin, "tenant", "later")[0] == 403)
    assert admin.merge(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})[0] == 200


def test_rights_in_one_namespace_reach_its_object_but_not_the_labels_that_open_queues(owner: Person) -> None:
    # RBAC lets a Role relabel the Namespace that it is in.
    assert relabel(owner, "tenant", harmless="yes")[0] == 200
    status, answer = relabel(owner, "tenant", team="vision")
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert "whether Namespace tenant may use queue labelled is changed only by those" in answer["message"]


@pytest.mark.parametrize("subresource", ["status", "finalize"])
@pytest.mark.parametrize(
    "label", ["team", "gpufleet.io/queue", "gpufleet.io/managed", "gpufleet.io/device-access"]
)
def test_no_subresource_of_a_namespace_lets_such_labels_through(
    owner: Person, label: str, subresource: str
) -> None:
    path = f"{NAMESPACES}/tenant/{subresource}?dryRun=All"
    for value, status in (("vision", 403), (None, 200)):
        found = owner.ask("GET", f"{NAMESPACES}/tenant")[1]
        found["metadata"]["labels"] |= {} if value is None else {label: value}
        assert owner.ask("PUT", path, found)[0] == status


def test_labels_that_leave_the_answer_of_a_selector_as_it_was_may_change(owner: Person) -> None:
    assert relabel(owner, "tenant", team="speech")[0] == 200
    assert relabel(owner, "tenant", stage="old")[0] == 200
    assert relabel(owner, "tenant", team="vision", stage="old")[0] == 200
    assert relabel(owner, "tenant", team="vision", stage="new")[0] == 403


@pytest.mark.parametrize(
    "label", ["gpufleet_io__queue", "gpufleet_io__managed", "gpufleet_io__device-access"]
)
@pytest.mark.parametrize("value", ["vision", "nobody", "true", "all"])
def test_the_labels_by_which_a_namespace_is_ours_are_not_a_tenants(
    owner: Person, label: str, value: str
) -> None:
    status, answer = relabel(owner, "tenant", **{label: value})
    assert status == 403
    assert label.replace("__", "/").replace("_", ".") in answer["message"]


def test_who_may_use_a_queue_moves_namespaces_in_and_out_of_it(
    installed: LocalCluster, admin: Person
) -> None:
    rules = [
        {
            "apiGroups": ["gpufleet.io"],
            "resources": ["fleetqueues"],
            "resourceNames": ["labelled"],
            "verbs": ["use"],
        },
        {
            "apiGroups": [""],
            "resources": ["namespaces"],
            "resourceNames": ["tenant"],
            "verbs": ["get", "patch"],
        },
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "lead"}, "rules": rules}
    given = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "lead"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "lead"},
        "subjects": [{"kind": "User", "name": "lead", "apiGroup": group}],
    }
    assert admin.ask("POST", f"{RBAC}/clusterroles", role)[0] == 201
    assert admin.ask("POST", f"{RBAC}/clusterrolebindings", given)[0] == 201
    with Person(installed, "lead") as lead:
        until(lambda: relabel(lead, "tenant", team="vision")[0] == 200)
        assert relabel(lead, "tenant", gpufleet_io__queue="labelled")[0] == 200
        assert relabel(lead, "tenant", gpufleet_io__queue="vision")[0] == 403


def test_administrators_change_what_they_like(admin: Person) -> None:
    labels = {"gpufleet_io__queue": "vision", "gpufleet_io__managed": "true", "team": "vision"}
    assert relabel(admin, "tenant", **labels)[0] == 200
    assert admin.ask("POST", f"{NAMESPACES}?dryRun=All", namespace("vision-dev"))[0] == 201


def test_a_namespace_that_a_queue_names_is_made_by_those_who_may_use_the_queue(
    installed: LocalCluster, admin: Person
) -> None:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "maker"}, "rules": rules}
    given = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "maker"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "maker"},
        "subjects": [{"kind": "User", "name": "maker", "apiGroup": group}],
    }
    assert admin.ask("POST", f"{RBAC}/clusterroles", role)[0] == 201
    assert admin.ask("POST", f"{RBAC}/clusterrolebindings", given)[0] == 201
    with Person(installed, "maker") as maker:
        made = f"{NAMESPACES}?dryRun=All"
        until(lambda: maker.ask("POST", made, namespace("fresh"))[0] == 201)
        assert maker.ask("POST", made, namespace("vision-dev"))[0] == 403
        assert maker.ask("POST", made, namespace("fresh", team="vision"))[0] == 403
        assert maker.ask("POST", made, namespace("fresh", **{QUEUE: "vision"}))[0] == 403
