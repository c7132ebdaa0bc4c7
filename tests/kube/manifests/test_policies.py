"""On a real API server: who may write a grant, which leader may bind, and what is added to pods."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from gpufleet.kube.manifests import DEFAULT_IDENTITY, MUTATING_POLICIES_SINCE
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.programs.releases import minor_version
from tests.kube.manifests.real_server import (
    GRANT,
    LEASES,
    PODS,
    Person,
    a_grant,
    install_all,
    plain_pod,
    until,
)
from tests.localkube.cluster import KUBERNETES, a_cluster

NAMES = (f"pod-{number}" for number in itertools.count())
EPOCH = 5
MANAGED_PODS = "/api/v1/namespaces/managed/pods"
mutating = pytest.mark.skipif(
    minor_version(KUBERNETES) < MUTATING_POLICIES_SINCE,
    reason=f"Kubernetes {KUBERNETES} has no stable MutatingAdmissionPolicy",
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed and epoch 5 leads."""
    with a_cluster(tmp_path_factory.mktemp("guarded")) as cluster:
        install_all(cluster)
        yield cluster


@pytest.fixture(scope="module")
def admin(guarded: LocalCluster) -> Iterator[Person]:
    """Somebody who may do everything that RBAC can give."""
    with Person(guarded, "root", ("system:masters",)) as person:
        for namespace, labels in (("managed", {"gpufleet.io/managed": "true"}), ("unmanaged", {})):
            metadata = {"name": namespace, "labels": labels}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            assert person.ask("POST", "/api/v1/namespaces", body)[0] == 201
            account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            until(partial(answers, person, account))
        yield person


@pytest.fixture(scope="module")
def scheduler(guarded: LocalCluster, admin: Person) -> Iterator[Person]:
    """The scheduler, as its service account is known to the server."""
    with Person(guarded, DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups) as person:
        # Others bind as ever while there is no Lease.
        assert admin.bind(created(admin), None)[0] == 201
        metadata = {"name": "gpufleet-scheduler"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        assert person.ask("POST", LEASES, {**lease, "spec": {"leaseTransitions": EPOCH}})[0] == 201
        until(lambda: person.bind(created(admin), a_grant(EPOCH - 1))[0] == 403)
        until(lambda: admin.create(plain_pod(next(NAMES), annotations={GRANT: ""}))[0] == 403)
        yield person


def answers(person: Person, path: str) -> bool:
    return person.ask("GET", path)[0] == 200


def created(admin: Person) -> str:
    name = next(NAMES)
    assert admin.create(plain_pod(name))[0] == 201
    return name


def bound(admin: Person, scheduler: Person) -> str:
    name = created(admin)
    status, answer = scheduler.bind(name, a_grant(EPOCH))
    assert status == 201, answer
    return name


def annotated(value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {GRANT: value}}}


def test_the_scheduler_grants_with_its_binding(admin: Person, scheduler: Person) -> None:
    pod = admin.ask("GET", f"{PODS}/{bound(admin, scheduler)}")[1]
    assert pod["spec"]["nodeName"] == "node-1"
    assert pod["metadata"]["annotations"][GRANT] == a_grant(EPOCH)


@pytest.mark.usefixtures("scheduler")
def test_nobody_else_creates_a_pod_with_a_grant(admin: Person) -> None:
    for text in (a_grant(EPOCH), ""):
        status, answer = admin.create(plain_pod(next(NAMES), annotations={GRANT: text}))
        assert (status, answer["reason"]) == (403, "Forbidden")
        assert GRANT in answer["message"]


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_nobody_else_adds_a_grant(admin: Person, subresource: str) -> None:
    name = created(admin)
    assert admin.merge(f"{PODS}/{name}{subresource}", annotated(a_grant(EPOCH)))[0] == 403


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("subresource", ["/resize", "/ephemeralcontainers"])
def test_other_ways_of_writing_a_pod_add_none_either(admin: Person, subresource: str) -> None:
    path = f"{PODS}/{created(admin)}"
    # Refused by the policy, or dropped by the server, which takes no metadata there.
    assert admin.merge(f"{path}{subresource}", annotated(a_grant(EPOCH)))[0] in {200, 403}
    assert GRANT not in admin.ask("GET", path)[1]["metadata"].get("annotations", {})


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("value", [a_grant(EPOCH, "GPU-2"), None])
def test_nobody_else_changes_or_removes_a_grant(
    admin: Person, scheduler: Person, subresource: str, value: str | None
) -> None:
    name = bound(admin, scheduler)
    assert admin.merge(f"{PODS}/{name}{subresource}", annotated(value))[0] == 403
    assert admin.ask("GET", f"{PODS}/{name}")[1]["metadata"]["annotations"][GRANT] == a_grant(EPOCH)


@pytest.mark.usefixtures("scheduler")
def test_nobody_else_binds_with_a_grant(admin: Person) -> None:
    name = created(admin)
    assert admin.bind(name, a_grant(EPOCH))[0] == 403
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {GRANT: a_grant(EPOCH)}},
        "target": {"kind": "Node", "name": "node-1"},
    }
    assert admin.ask("POST", "/api/v1/namespaces/default/bindings", binding)[0] == 403


@pytest.mark.usefixtures("scheduler")
def test_other_schedulers_bind_as_ever(admin: Person) -> None:
    assert admin.bind(created(admin), None)[0] == 201


def test_writes_that_leave_the_grant_alone_pass(admin: Person, scheduler: Person) -> None:
    path = f"{PODS}/{bound(admin, scheduler)}"
    condition = {"type": "Ready", "status": "True"}
    assert (
        admin.merge(f"{path}/status", {"status": {"phase": "Running", "conditions": [condition]}})[0] == 200
    )
    assert (
        admin.merge(path, {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/keep"]}})[0] == 200
    )
    assert admin.merge(path, {"metadata": {"finalizers": None}})[0] == 200
    pod = admin.ask("GET", path)[1]
    assert admin.ask("PUT", path, pod)[0] == 200
    assert admin.ask("DELETE", path, {"gracePeriodSeconds": 0})[0] == 200


@pytest.mark.parametrize(
    "text",
    [a_grant(EPOCH - 1), "", "{}", '{"epoch":9}', '{"v":1}', '{"containers":{},"v":1,"epoch":9}', "9"],
)
def test_an_older_epoch_or_none_at_all_is_fenced(admin: Person, scheduler: Person, text: str) -> None:
    status, answer = scheduler.bind(created(admin), text)
    assert status == 403
    assert "epoch" in answer["message"]


def evicts(person: Person, name: str, epoch: str | None) -> int:
    """The answer to an Eviction that names this epoch, or none."""
    annotations = {} if epoch is None else {"annotations": {"gpufleet.io/epoch": epoch}}
    metadata = {"name": name, "namespace": "default", **annotations}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return person.ask("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", body)[0]


@pytest.mark.parametrize("epoch", [str(EPOCH - 1), "", "five", "-1"])
def test_an_eviction_of_an_older_epoch_is_fenced(admin: Person, scheduler: Person, epoch: str) -> None:
    assert evicts(scheduler, bound(admin, scheduler), epoch) == 403


def test_evictions_of_this_epoch_and_of_others_pass(admin: Person, scheduler: Person) -> None:
    assert evicts(scheduler, bound(admin, scheduler), str(EPOCH)) == 201
    assert evicts(admin, bound(admin, scheduler), None) == 201


def test_the_fence_follows_the_lease(admin: Person, scheduler: Person) -> None:
    lease = f"{LEASES}/gpufleet-scheduler"
    try:
        assert scheduler.merge(lease, {"spec": {"leaseTransitions": EPOCH + 1}})[0] == 200
        # What a new leader does: dry-run Bindings of the old epoch until one is refused.
        dry = created(admin)
        until(lambda: scheduler.bind(dry, a_grant(EPOCH))[0] != 201)
        status, answer = scheduler.bind(created(admin), a_grant(EPOCH))
        assert status == 403
        assert "another scheduler has taken over" in answer["message"]
        assert scheduler.bind(created(admin), a_grant(EPOCH + 1))[0] == 201
    finally:
        assert scheduler.merge(lease, {"spec": {"leaseTransitions": EPOCH}})[0] == 200
        until(lambda: scheduler.bind(created(admin), a_grant(EPOCH))[0] == 201)


def completed(admin: Person, limits: dict[str, str], path: str = MANAGED_PODS, **more: Any) -> dict[str, Any]:
    """The pod that the server made of one with these limits."""
    containers = more.pop("containers", [{"name": "c", "image": "i", "resources": {"limits": limits}}])
    pod = {
        "metadata": {"name": next(NAMES), **more.pop("metadata", {})},
        "spec": {"containers": containers, **more},
    }
    status, answer = admin.create(pod, path)
    assert status == 201, answer
    spec: dict[str, Any] = answer["spec"]
    return spec


GPU, SLOT = "nvidia.com/gpu", "gpufleet.io/gpu-share"


@pytest.fixture(scope="module")
def completing(admin: Person) -> Person:
    """The same, once the policy that completes pods is in force."""
    until(lambda: completed(admin, {GPU: "1"})["schedulerName"] == "gpufleet")
    return admin


@mutating
def test_who_asks_for_gpus_gets_our_scheduler_and_the_toleration(completing: Person) -> None:
    spec = completed(completing, {GPU: "1"})
    assert spec["schedulerName"] == "gpufleet"
    assert {"key": "gpufleet.io/shared", "operator": "Exists"} in spec["tolerations"]
    assert spec["containers"][0]["resources"]["limits"] == {GPU: "1"}


@mutating
@pytest.mark.parametrize(
    "resource",
    [
        *("amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "nvidia.com/gpu.shared"),
        *("nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me", "nvidia.com/mig-3g.40gb"),
    ],
)
def test_every_kind_of_gpu_gets_our_scheduler(completing: Person, resource: str) -> None:
    assert completed(completing, {resource: "1"})["schedulerName"] == "gpufleet"


@mutating
def test_others_are_left_as_they_are(completing: Person) -> None:
    assert completed(completing, {"cpu": "1"})["schedulerName"] == "default-scheduler"
    # As the default of a LimitRange writes it into every container.
    assert completed(completing, {GPU: "0"})["schedulerName"] == "default-scheduler"
    assert completed(completing, {GPU: "1"}, schedulerName="mine")["schedulerName"] == "mine"
    unmanaged = "/api/v1/namespaces/unmanaged/pods"
    assert completed(completing, {GPU: "1"}, unmanaged)["schedulerName"] == "default-scheduler"


@mutating
def test_a_toleration_is_added_once(completing: Person) -> None:
    own = [{"key": "gpufleet.io/shared", "operator": "Exists", "effect": "NoSchedule"}]
    spec = completed(completing, {GPU: "1"}, tolerations=own)
    assert [one for one in spec["tolerations"] if one["key"] == "gpufleet.io/shared"] == own


@mutating
@pytest.mark.parametrize(
    ("limits", "annotations", "expected"),
    [
        ({}, {"gpufleet.io/gpu-fraction": "0.5"}, {SLOT: "1"}),
        ({"cpu": "1"}, {"gpu-memory": "2000"}, {"cpu": "1", SLOT: "1"}),
        ({}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"}, {SLOT: "3"}),
        ({SLOT: "2"}, {"gpu-fraction": "0.5"}, {SLOT: "2"}),
        ({GPU: "2", "nvidia.com/gpumem": "3001"}, {}, {SLOT: "2", "nvidia.com/gpumem": "3001"}),
        ({"volcano.sh/vgpu-number": "2"}, {}, {SLOT: "2", "volcano.sh/vgpu-number": "2"}),
        ({}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "many"}, {}),
    ],
)
def test_a_share_gets_its_slot(
    completing: Person, limits: dict[str, str], annotations: dict[str, str], expected: dict[str, str]
) -> None:
    spec = completed(completing, limits, metadata={"annotations": annotations})
    resources = spec["containers"][0]["resources"]
    assert resources.get("limits", {}) == expected
    assert resources.get("requests", {}) == expected
    assert spec["schedulerName"] == "gpufleet"


@mutating
def test_the_slot_goes_to_the_container_that_is_named(completing: Person) -> None:
    containers = [{"name": name, "image": "i"} for name in ("first", "second")]
    annotations = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "second"}
    spec = completed(completing, {}, containers=containers, metadata={"annotations": annotations})
    assert [one["resources"] for one in spec["containers"]] == [
        {},
        {"limits": {SLOT: "1"}, "requests": {SLOT: "1"}},
    ]


def rights(person: Person, **attributes: str) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    allowed: bool = person.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)[1][
        "status"
    ]["allowed"]
    return allowed


def test_the_scheduler_has_no_right_that_it_does_not_need(scheduler: Person) -> None:
    assert rights(scheduler, verb="create", resource="pods", subresource="binding")
    assert rights(scheduler, verb="watch", resource="nodes")
    assert rights(scheduler, verb="create", resource="pods", subresource="eviction")
    assert rights(scheduler, verb="watch", resource="poddisruptionbudgets", group="policy")
    assert not rights(scheduler, verb="patch", resource="poddisruptionbudgets", group="policy")
    for verb, resource in [("get", "secrets"), ("create", "pods"), ("patch", "pods"), ("patch", "nodes")]:
        assert not rights(scheduler, verb=verb, resource=resource, namespace="default")
    assert not rights(scheduler, verb="update", resource="nodedevices", group="gpufleet.io")
    leases = {"resource": "leases", "group": "coordination.k8s.io"}
    assert not rights(scheduler, verb="update", namespace="kube-system", **leases)


REPORT = "/apis/gpufleet.io/v1alpha1/nodedevices"
A_DEVICE = {"id": "GPU-1", "memoryMiB": 100, "usableMemoryMiB": 90, "sharing": "mixed", "health": "healthy"}


def reported(admin: Person, **spec: Any) -> int:
    body = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices", "metadata": {"name": next(NAMES)}}
    return admin.ask("POST", REPORT, {**body, "spec": spec})[0]


def test_a_report_of_devices_is_checked_at_the_door(admin: Person) -> None:
    assert (
        reported(admin, bootID="b", devices=[A_DEVICE], holders=[{"device": "GPU-1", "podUID": "u"}]) == 201
    )
    sick = {"health": "unhealthy", "taints": [{"key": "gpufleet.io/unhealthy", "effect": "NoSchedule"}]}
    assert reported(admin, devices=[{**A_DEVICE, **sick}, {"id": "GPU-2::1g.10gb+me@4::0"}]) == 201
    for bad in (
        {"id": ""},
        {"id": "anonymous-0"},
        {"memoryMiB": 0},
        {"usableMemoryMiB": 101},
        {"sharing": "some"},
        {"health": "fine"},
        {"numaNode": -1},
        {"migInstances": [{"profile": "1g.10gb", "start": 0}]},
        {"sharing": "mig", "migInstances": [{"profile": "1g.10gb", "start": 8}]},
        {"taints": [{"key": "gpufleet.io/unhealthy", "effect": "NoSchedule"}]},
        {"health": "unknown", "taints": [{"key": "gpufleet.io/unknown", "effect": "PreferNoSchedule"}]},
        {"health": "unknown", "taints": [{"effect": "NoSchedule"}]},
    ):
        assert reported(admin, devices=[{**A_DEVICE, **bad}]) == 422, bad
    assert reported(admin, devices=[A_DEVICE, A_DEVICE]) == 422
    assert reported(admin, devices=[], holders=[{"device": "GPU-1", "kind": "mig"}]) == 422
    assert reported(admin) == 422
