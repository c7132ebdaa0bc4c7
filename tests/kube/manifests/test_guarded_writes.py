"""On a real API server: forged writes of what counts, through every verb and subresource of a pod."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kube.manifests.real_server import Answer, Person, a_grant
from tests.kube.manifests.tenants import TENANT, Actors, a_pod, acting, pods_of
from tests.localkube.cluster import a_cluster

NAMES = (f"pod-{number}" for number in itertools.count())
PODS = pods_of(TENANT)
GUARDED = {
    "gpufleet.io/grant": a_grant(1),
    "gpufleet.io/moved": '{"pod":"a/b","node":"n","atUs":1,"lostGpuS":1e9}',
}
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actors]:
    with a_cluster(tmp_path_factory.mktemp("forged")) as cluster, acting(cluster) as actors:
        yield actors


def annotated(key: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def pod_path(name: str, subresource: str = "") -> str:
    return f"{PODS}/{name}" + (f"/{subresource}" if subresource else "")


def merging(subresource: str) -> Callable[[Person, str, str, str], Answer]:
    return lambda who, name, key, value: who.merge(pod_path(name, subresource), annotated(key, value))


def patching(subresource: str) -> Callable[[Person, str, str, str], Answer]:
    def forge(who: Person, name: str, key: str, value: str) -> Answer:
        patch = [{"op": "add", "path": "/metadata/annotations", "value": {key: value}}]
        return who.ask("PATCH", pod_path(name, subresource), patch, JSON_PATCH)

    return forge


def strategic(subresource: str) -> Callable[[Person, str, str, str], Answer]:
    return lambda who, name, key, value: who.ask(
        "PATCH", pod_path(name, subresource), annotated(key, value), STRATEGIC
    )


def replacing(subresource: str) -> Callable[[Person, str, str, str], Answer]:
    def forge(who: Person, name: str, key: str, value: str) -> Answer:
        status, pod = who.ask("GET", pod_path(name))
        assert status == 200, pod
        pod["metadata"].setdefault("annotations", {})[key] = value
        return who.ask("PUT", pod_path(name, subresource), pod)

    return forge


def applying(who: Person, name: str, key: str, value: str) -> Answer:
    body = {"apiVersion": "v1", "kind": "Pod", **annotated(key, value)}
    return who.ask("PATCH", f"{pod_path(name)}?fieldManager=forger&force=true", body, APPLY)


def binding(path: str) -> Callable[[Person, str, str, str], Answer]:
    def forge(who: Person, name: str, key: str, value: str) -> Answer:
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        metadata = {"name": name, "annotations": {key: value}}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        return who.ask("POST", path.format(name=name), body)

    return forge


def evicting(who: Person, name: str, key: str, value: str) -> Answer:
    metadata = {"name": name, "namespace": TENANT, "annotations": {key: value}}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return who.ask("POST", pod_path(name, "eviction"), body)


SUBRESOURCES = ("", "status", "ephemeralcontainers", "resize")
WAYS: dict[str, Callable[[Person, str, str, str], Answer]] = {
    **{f"merge {one}": merging(one) for one in SUBRESOURCES},
    **{f"strategic {one}": strategic(one) for one in SUBRESOURCES},
    **{f"patch {one}": patching(one) for one in SUBRESOURCES},
    **{f"replace {one}": replacing(one) for one in SUBRESOURCES},
    "apply": applying,
    "bind": binding(f"{PODS}/{{name}}/binding"),
    "bind as of old": binding(f"/api/v1/namespaces/{TENANT}/bindings"),
    "evict": evicting,
}


@pytest.mark.parametrize("key", GUARDED)
@pytest.mark.parametrize("way", WAYS)
def test_no_tenant_forges_what_the_scheduler_writes(actors: Actors, way: str, key: str) -> None:
    for _, who in actors.tenants:
        name = next(NAMES)
        assert who.create(a_pod(name), PODS)[0] == 201
        status, answer = WAYS[way](who, name, key, GUARDED[key])
        # Refused by the policy or by RBAC, or dropped by a subresource that takes no metadata.
        assert status == 403 or key not in answer.get("metadata", {}).get("annotations", {}), answer
        status, pod = who.ask("GET", pod_path(name))
        assert status == 200
        assert key not in pod["metadata"].get("annotations", {})


@pytest.mark.parametrize("key", GUARDED)
def test_no_tenant_creates_a_pod_with_it(actors: Actors, key: str) -> None:
    for _, who in actors.tenants:
        for value in (GUARDED[key], ""):
            status, answer = who.create(a_pod(next(NAMES), annotations={key: value}), PODS)
            assert status == 403
            assert key in answer["message"]


@pytest.mark.parametrize("key", GUARDED)
@pytest.mark.parametrize("forged", ["other", None])
def test_no_tenant_changes_or_removes_it(actors: Actors, key: str, forged: str | None) -> None:
    for _, who in actors.tenants:
        name = next(NAMES)
        assert who.create(a_pod(name), PODS)[0] == 201
        assert binding(f"{PODS}/{{name}}/binding")(actors.scheduler, name, key, GUARDED[key])[0] == 201
        for subresource in ("", "status"):
            assert who.merge(pod_path(name, subresource), annotated(key, forged))[0] == 403
        assert who.merge(pod_path(name), {"metadata": {"annotations": None}})[0] == 403
        assert who.merge(pod_path(name), {"metadata": {"labels": {"a": "b"}}})[0] == 200
        pod = who.ask("GET", pod_path(name))[1]
        assert pod["metadata"]["annotations"][key] == GUARDED[key]


LONG_AGO = "2020-01-01T00:00:00Z"
HAPPENED: dict[str, dict[str, Any]] = {
    "ended": {"phase": "Succeeded"},
    "failed": {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
    "turned away": {"reason": "UnexpectedAdmissionError"},
    "runs since": {"startTime": LONG_AGO},
    "container ended": {
        "containerStatuses": [
            {
                "name": "c",
                "image": "i",
                "imageID": "i",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": 0}},
            }
        ]
    },
    "allocated": {"allocatedResources": {"cpu": "0"}},
    "placed": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LONG_AGO}]},
    "disrupted": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    "resize turned down": {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    },
    "of ours": {"conditions": [{"type": "gpufleet.io/any", "status": "True"}]},
}


@pytest.mark.parametrize("what", HAPPENED)
def test_what_has_happened_to_a_pod_is_not_told_by_tenants(actors: Actors, what: str) -> None:
    name = next(NAMES)
    assert actors.owner.create(a_pod(name), PODS)[0] == 201
    for _, who in actors.tenants:
        assert who.merge(pod_path(name, "status"), {"status": HAPPENED[what]})[0] == 403
    for who in (actors.node, actors.controllers, actors.admin):
        assert who.merge(pod_path(name, "status"), {"status": HAPPENED[what]})[0] == 200


def test_conditions_are_written_by_whoever_has_the_right(actors: Actors) -> None:
    name = next(NAMES)
    assert actors.owner.create(a_pod(name), PODS)[0] == 201
    gate = {"type": "example.com/registered", "status": "True"}
    assert actors.owner.merge(pod_path(name, "status"), {"status": {"conditions": [gate]}})[0] == 200


NO_GRACE = {"gracePeriodSeconds": 0}


def deleting(who: Person, name: str, grace: dict[str, int]) -> Answer:
    return who.ask("DELETE", pod_path(name), grace)


def deleting_by_query(who: Person, name: str, grace: dict[str, int]) -> Answer:
    return who.ask("DELETE", f"{pod_path(name)}?gracePeriodSeconds={grace['gracePeriodSeconds']}")


def deleting_all(who: Person, name: str, grace: dict[str, int]) -> Answer:
    return who.ask("DELETE", f"{PODS}?fieldSelector=metadata.name={name}", grace)


def evicting_within(who: Person, name: str, grace: dict[str, int]) -> Answer:
    metadata = {"name": name, "namespace": TENANT}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": grace}
    return who.ask("POST", pod_path(name, "eviction"), body)


def granted_pod(actors: Actors) -> str:
    """A pod with a grant and a node, on which it runs."""
    name = next(NAMES)
    assert actors.owner.create(a_pod(name), PODS)[0] == 201
    assert (
        binding(f"{PODS}/{{name}}/binding")(actors.scheduler, name, "gpufleet.io/grant", a_grant(1))[0] == 201
    )
    assert actors.node.merge(pod_path(name, "status"), {"status": {"phase": "Running"}})[0] == 200
    return name


def is_there(actors: Actors, name: str) -> bool:
    return actors.admin.ask("GET", pod_path(name))[0] == 200


@pytest.mark.parametrize("way", [deleting, deleting_by_query, deleting_all, evicting_within])
def test_no_tenant_takes_a_granted_pod_out_of_the_api_while_it_runs(
    actors: Actors, way: Callable[[Person, str, dict[str, int]], Answer]
) -> None:
    for _, who in actors.tenants:
        name = granted_pod(actors)
        status, answer = way(who, name, NO_GRACE)
        assert status == 403
        assert "delete it with a grace period of 1 or more" in answer["message"]
        assert is_there(actors, name)
        assert way(who, name, {"gracePeriodSeconds": 1})[0] < 300
        assert is_there(actors, name)
        # What is being deleted with grace already is not hurried on either.
        assert deleting(who, name, NO_GRACE)[0] == 403


def test_its_node_and_administrators_take_it_out(actors: Actors) -> None:
    for who in (actors.node, actors.admin):
        name = granted_pod(actors)
        assert deleting(who, name, NO_GRACE)[0] == 200
        assert not is_there(actors, name)


def test_pods_without_a_grant_and_those_that_ended_are_deleted_as_ever(actors: Actors) -> None:
    plain = next(NAMES)
    assert actors.owner.create(a_pod(plain), PODS)[0] == 201
    ended = granted_pod(actors)
    assert actors.node.merge(pod_path(ended, "status"), {"status": {"phase": "Failed"}})[0] == 200
    for name in (plain, ended):
        assert deleting(actors.owner, name, NO_GRACE)[0] == 200
        assert not is_there(actors, name)
