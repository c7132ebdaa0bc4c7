"""On a real API server: who may say on which node a pod with GPUs runs, by a node name or by a Binding."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube.manifests.real_server import Person
from tests.kube.manifests.tenants import INFRASTRUCTURE, TENANT, Actors, a_pod, acting, pods_of
from tests.localkube.cluster import a_cluster

NAMES = (f"pod-{number}" for number in itertools.count())
PODS = pods_of(TENANT)
GPU = {"nvidia.com/gpu": "1"}
NODE = "node-1"


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actors]:
    with a_cluster(tmp_path_factory.mktemp("node-names")) as cluster, acting(cluster) as actors:
        yield actors


def on_node(**more: Any) -> dict[str, Any]:
    return a_pod(next(NAMES), nodeName=NODE, **more)


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "other", "image": "example.com/none", "resources": resources}


ASKING: dict[str, dict[str, Any]] = {
    "whole": {"limits": GPU},
    "shared in turns": {"limits": {"nvidia.com/gpu.shared": "1"}},
    "MIG": {"limits": {"nvidia.com/mig-1g.5gb": "1"}},
    "AMD": {"limits": {"amd.com/gpu": "1"}},
    "partition of AMD": {"limits": {"amd.com/cpx_nps4": "1"}},
    "Intel": {"limits": {"gpu.intel.com/i915": "1"}},
    "Intel xe": {"limits": {"gpu.intel.com/xe": "1"}},
    "share": {"limits": {"gpufleet.io/gpu-share": "1"}},
    "memory of HAMi": {"limits": {"nvidia.com/gpumem": "3000"}},
    "Volcano": {"limits": {"volcano.sh/vgpu-number": "1"}},
    "another vendor's": {"limits": {"example.com/gpu": "1"}},
    "fraction": {"annotations": {"gpufleet.io/gpu-fraction": "0.5"}},
    "memory": {"annotations": {"gpufleet.io/gpu-memory": "2000"}},
    "fraction as a label": {"labels": {"gpufleet.io/gpu-fraction": "0.5"}},
    "fraction of KAI": {"annotations": {"gpu-fraction": "0.5"}},
    "memory of KAI": {"annotations": {"gpu-memory": "2000"}},
    "init container": {"initContainers": [container(limits=GPU)]},
    "claim": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
    "runtime": {"runtimeClassName": "nvidia"},
    "another runtime": {"runtimeClassName": "nvidia-cdi"},
}


@pytest.fixture(scope="module")
def runtimes(actors: Actors) -> Actors:
    for name in ("nvidia", "nvidia-cdi", "gvisor"):
        body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
        status, answer = actors.admin.ask(
            "POST", "/apis/node.k8s.io/v1/runtimeclasses", {**body, "handler": name}
        )
        assert status == 201, answer
    return actors


@pytest.mark.parametrize("way", ASKING)
def test_a_pod_that_asks_for_gpus_in_any_way_may_not_name_its_node(runtimes: Actors, way: str) -> None:
    for actor in (runtimes.edit, runtimes.owner, runtimes.admin):
        status, answer = actor.create(on_node(**ASKING[way]), PODS)
        assert (status, answer.get("reason")) == (403, "Forbidden"), answer
        assert "schedulerName: gpufleet" in answer["message"]
        assert NODE in answer["message"]


@pytest.mark.parametrize("way", ASKING)
def test_without_a_node_name_it_is_for_the_scheduler(runtimes: Actors, way: str) -> None:
    assert runtimes.edit.create(a_pod(next(NAMES), **ASKING[way]), PODS)[0] == 201


@pytest.mark.parametrize(
    "more",
    [{}, {"limits": {"cpu": "1"}}, {"limits": {"nvidia.com/gpu": "0"}}, {"runtimeClassName": "gvisor"}],
)
def test_a_pod_without_gpus_may_name_its_node(runtimes: Actors, more: dict[str, Any]) -> None:
    assert runtimes.edit.create(on_node(**more), PODS)[0] == 201


@pytest.mark.parametrize("who", ["node", "daemon_sets", "scheduler"])
def test_agents_of_nodes_the_controller_of_daemon_sets_and_the_scheduler_may(
    actors: Actors, who: str
) -> None:
    person: Person = getattr(actors, who)
    status, answer = person.create(on_node(limits=GPU), PODS)
    assert status == 201, answer


def owned(kind: str) -> dict[str, Any]:
    pod = on_node(limits=GPU)
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def test_controllers_in_one_account_may_for_daemon_sets_alone(actors: Actors) -> None:
    """Without accounts of their own all controllers are one user; a template of others may name a node."""
    assert actors.controllers.create(owned("DaemonSet"), PODS)[0] == 201
    assert actors.controllers.create(owned("ReplicaSet"), PODS)[0] == 403
    assert actors.controllers.create(on_node(limits=GPU), PODS)[0] == 403


def daemon_set(**spec: Any) -> dict[str, Any]:
    pod = a_pod("x", **spec)
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    its = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": next(NAMES)}, "spec": its}


def test_the_template_of_a_daemon_set_does_not_carry_a_node_name_past_it(actors: Actors) -> None:
    path = f"/apis/apps/v1/namespaces/{TENANT}/daemonsets"
    status, answer = actors.owner.ask("POST", path, daemon_set(nodeName=NODE, limits=GPU))
    assert status == 403
    assert "DaemonSet" in answer["message"]
    fine = daemon_set(limits=GPU)
    assert actors.owner.ask("POST", path, fine)[0] == 201
    patch = {"spec": {"template": {"spec": {"nodeName": NODE}}}}
    assert actors.owner.merge(f"{path}/{fine['metadata']['name']}", patch)[0] == 403
    assert (
        actors.owner.merge(f"{path}/{fine['metadata']['name']}", {"metadata": {"labels": {"a": "b"}}})[0]
        == 200
    )


@pytest.mark.parametrize("namespace", ["kube-system", "gpufleet-system", INFRASTRUCTURE])
def test_infrastructure_may_name_its_node(actors: Actors, namespace: str) -> None:
    status, answer = actors.admin.create(on_node(limits=GPU), pods_of(namespace))
    assert status == 201, answer


def binding(name: str) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def test_who_may_bind_in_one_namespace_only_binds_nothing(actors: Actors) -> None:
    name = next(NAMES)
    assert actors.owner.create(a_pod(name, limits=GPU), PODS)[0] == 201
    for path in (f"{PODS}/{name}/binding", f"/api/v1/namespaces/{TENANT}/bindings"):
        status, answer = actors.owner.ask("POST", path, binding(name))
        assert status == 403
        assert "every namespace" in answer["message"]
    assert actors.admin.ask("POST", f"{PODS}/{name}/binding", binding(name))[0] == 201


def test_a_scheduler_binds_what_it_may_bind_everywhere(actors: Actors) -> None:
    name = next(NAMES)
    assert actors.edit.create(a_pod(name, limits=GPU), PODS)[0] == 201
    assert actors.scheduler.ask("POST", f"{PODS}/{name}/binding", binding(name))[0] == 201


def test_a_resize_asks_for_no_gpu(actors: Actors) -> None:
    """A pod that named its node without one cannot ask for one afterwards."""
    pod = on_node(limits={"cpu": "1"})
    assert actors.owner.create(pod, PODS)[0] == 201
    path = f"{PODS}/{pod['metadata']['name']}"
    resources = {"limits": GPU | {"cpu": "1"}, "requests": GPU | {"cpu": "1"}}
    patch = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    kind = "application/strategic-merge-patch+json"
    for where in (path, f"{path}/resize"):
        assert actors.owner.ask("PATCH", where, patch, kind)[0] == 422
