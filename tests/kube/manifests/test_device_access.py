"""On a real API server: devices that a container names itself instead of asking for them."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.kube.manifests import MUTATING_POLICIES_SINCE
from gpufleet.localkube.programs.releases import minor_version
from tests.kube.manifests.real_server import until
from tests.kube.manifests.tenants import (
    INFRASTRUCTURE,
    MANAGED,
    TENANT,
    Actors,
    a_pod,
    acting,
    as_env,
    pods_of,
)
from tests.localkube.cluster import KUBERNETES, a_cluster

NAMES = (f"pod-{number}" for number in itertools.count())
PODS = pods_of(TENANT)
GPU = {"nvidia.com/gpu": "1"}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
HIDDEN = "gpufleet.io/hidden-devices"
FROM_ELSEWHERE = {"valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}
NAMED = ["all", "0", "0,1", "GPU-5b7c", "MIG-1", "2:0", "$(MORE)", "VOID", " void", "voids"]
HIDING = ["void", "none", ""]
mutating = pytest.mark.skipif(
    minor_version(KUBERNETES) < MUTATING_POLICIES_SINCE,
    reason=f"Kubernetes {KUBERNETES} has no stable MutatingAdmissionPolicy",
)


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actors]:
    with a_cluster(tmp_path_factory.mktemp("devices")) as cluster, acting(cluster) as actors:
        body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"}
        for name in ("nvidia", "amd", "gvisor"):
            path = "/apis/node.k8s.io/v1/runtimeclasses"
            assert actors.admin.ask("POST", path, {**body, "metadata": {"name": name}})[0] == 201
        yield actors


def refusal(actors: Actors, pod: dict[str, Any], namespace: str = TENANT) -> str:
    """The words with which a pod is refused; empty for one that passes."""
    status, answer = actors.owner.create(pod, pods_of(namespace))
    assert status in {201, 403}, answer
    return "" if status == 201 else str(answer["message"])


@pytest.mark.parametrize("value", NAMED)
def test_devices_are_not_named_without_a_gpu(actors: Actors, value: str) -> None:
    words = refusal(actors, a_pod(next(NAMES), env={VISIBLE: value}))
    assert f"container c names devices by {VISIBLE}" in words
    assert "resources.limits" in words


@pytest.mark.parametrize("value", HIDING)
def test_to_hide_all_devices_is_fine(actors: Actors, value: str) -> None:
    assert refusal(actors, a_pod(next(NAMES), env={VISIBLE: value})) == ""


@pytest.mark.parametrize(
    "env",
    [
        [{"name": VISIBLE, "value": "all"}, {"name": VISIBLE, "value": "void"}],
        [{"name": VISIBLE, "value": "void"}, {"name": VISIBLE, "value": "all"}],
        [{"name": VISIBLE, **FROM_ELSEWHERE}],
        [{"name": "CUDA_VERSION", "value": "8.0"}, {"name": VISIBLE, "value": "all"}],
    ],
)
def test_however_it_is_said(actors: Actors, env: list[dict[str, Any]]) -> None:
    assert VISIBLE in refusal(actors, a_pod(next(NAMES), env=env))


@pytest.mark.parametrize("value", NAMED)
@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "gpufleet.io/gpu-share"]
)
def test_beside_a_gpu_that_is_asked_for_they_may_be_named(actors: Actors, resource: str, value: str) -> None:
    """As people are taught; the agent's own word comes after it."""
    assert refusal(actors, a_pod(next(NAMES), limits={resource: "1"}, env={VISIBLE: value})) == ""


@pytest.mark.parametrize(
    "limits",
    [
        {"nvidia.com/gpu": "0"},
        {"amd.com/gpu": "1"},
        {"nvidia.com/hostdev": "1"},
        {"nvidia.com/gpumem": "1"},
        {"cpu": "1"},
    ],
)
def test_what_brings_no_device_of_nvidia_excuses_nothing(actors: Actors, limits: dict[str, str]) -> None:
    assert VISIBLE in refusal(actors, a_pod(next(NAMES), limits=limits, env={VISIBLE: "all"}))


def beside_one_with_a_gpu(part: str) -> dict[str, Any]:
    pod = a_pod(next(NAMES), limits=GPU)
    other = {"name": "other", "image": "i", "env": as_env({VISIBLE: "all"})}
    pod["spec"].setdefault(part, []).append(other)
    return pod


@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_each_container_asks_for_its_own(actors: Actors, part: str) -> None:
    assert "container other" in refusal(actors, beside_one_with_a_gpu(part))


@pytest.mark.parametrize("limits", [None, GPU, {"amd.com/gpu": "1"}])
@pytest.mark.parametrize(
    "name",
    [
        "AMD_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
    ],
)
def test_other_variables_of_runtimes_are_refused_with_a_gpu_too(
    actors: Actors, name: str, limits: dict[str, str] | None
) -> None:
    assert f"sets {name}" in refusal(actors, a_pod(next(NAMES), limits=limits, env={name: "all"}))
    assert name in refusal(actors, a_pod(next(NAMES), limits=limits, env=[{"name": name, **FROM_ELSEWHERE}]))
    assert refusal(actors, a_pod(next(NAMES), limits=limits, env={name: "void"})) == ""


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "NVIDIA_DRIVER_CAPABILITIES",
    ],
)
def test_variables_that_choose_among_what_there_is_pass(actors: Actors, name: str) -> None:
    assert refusal(actors, a_pod(next(NAMES), env={name: "all"})) == ""


@pytest.mark.parametrize(
    "key",
    [
        "cdi.k8s.io/gpus",
        "nvidia.cdi.k8s.io/container.c",
        "cdi-devices.nri.containerd.io/container.c",
        "devices.nri.io/pod",
        "io.kubernetes.cri-o.Devices",
    ],
)
def test_annotations_that_name_devices_are_refused(actors: Actors, key: str) -> None:
    pod = a_pod(next(NAMES), limits=GPU, annotations={key: "nvidia.com/gpu=all"})
    assert key in refusal(actors, pod)
    plain = a_pod(next(NAMES))
    assert refusal(actors, plain) == ""
    patch = {"metadata": {"annotations": {key: "nvidia.com/gpu=all"}}}
    for subresource in ("", "/status"):
        assert actors.owner.merge(f"{PODS}/{plain['metadata']['name']}{subresource}", patch)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/var/run/nvidia-container-devices/all",
        "/var/run/nvidia-container-devices",
        "/run/nvidia-container-devices/0",
        "/var//run/./nvidia-container-devices/GPU-1",
        "/etc/../var/run/nvidia-container-devices/cdi/nvidia.com/gpu/all",
    ],
)
def test_mounts_that_name_devices_are_refused(actors: Actors, path: str) -> None:
    pod = a_pod(next(NAMES), limits=GPU, volumes=[{"name": "null", "hostPath": {"path": "/dev/null"}}])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "null", "mountPath": path}]
    assert "nvidia-container-devices" in refusal(actors, pod)


def attach(actors: Actors, pod: str, **container: Any) -> tuple[int, dict[str, Any]]:
    """What `kubectl debug` does."""
    path = f"{PODS}/{pod}/ephemeralcontainers"
    debugger = {"name": next(NAMES), "image": "i", **container}
    patch = {"spec": {"ephemeralContainers": [debugger]}}
    return actors.owner.ask("PATCH", path, patch, "application/strategic-merge-patch+json")


@pytest.mark.parametrize("name", [VISIBLE, "AMD_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES"])
def test_an_ephemeral_container_names_no_devices(actors: Actors, name: str) -> None:
    pod = a_pod(next(NAMES), limits=GPU)
    assert refusal(actors, pod) == ""
    status, answer = attach(actors, pod["metadata"]["name"], env=as_env({name: "all"}))
    assert (status, name in answer["message"]) == (403, True)
    assert attach(actors, pod["metadata"]["name"], env=as_env({name: "void"}))[0] == 200
    # A second one is judged by itself.
    assert attach(actors, pod["metadata"]["name"])[0] == 200


@pytest.mark.parametrize("namespace", ["kube-system", "gpufleet-system", INFRASTRUCTURE])
def test_infrastructure_sees_all_devices(actors: Actors, namespace: str) -> None:
    env = {VISIBLE: "all", "NVIDIA_MIG_MONITOR_DEVICES": "all"}
    pod = a_pod(next(NAMES), env=env, annotations={"cdi.k8s.io/gpus": "nvidia.com/gpu=all"})
    status, answer = actors.admin.create(pod, pods_of(namespace))
    assert status == 201, answer


def test_a_pod_from_before_the_policies_goes_on_and_gets_no_more(actors: Actors) -> None:
    label = "gpufleet.io/device-access"
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "old", "labels": {label: "all"}},
    }
    assert actors.admin.ask("POST", "/api/v1/namespaces", namespace)[0] == 201
    pods = pods_of("old")
    until(lambda: actors.admin.ask("GET", "/api/v1/namespaces/old/serviceaccounts/default")[0] == 200)
    until(lambda: actors.admin.create(a_pod("before", env={VISIBLE: "all"}), pods)[0] == 201)
    assert actors.admin.merge("/api/v1/namespaces/old", {"metadata": {"labels": {label: None}}})[0] == 200
    until(lambda: actors.admin.create(a_pod(next(NAMES), env={VISIBLE: "all"}), pods)[0] == 403)
    assert actors.admin.merge(f"{pods}/before", {"metadata": {"labels": {"a": "b"}}})[0] == 200
    ran = {"status": {"phase": "Running"}}
    assert actors.admin.merge(f"{pods}/before/status", ran)[0] == 200
    noted = {"metadata": {"annotations": {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}}}
    assert actors.admin.merge(f"{pods}/before", noted)[0] == 403


def test_many_variables_are_judged_or_refused_but_never_let_through(actors: Actors) -> None:
    """The bound on what an expression may cost refuses what is beyond it."""
    many = [{"name": f"V{number}", "value": "x"} for number in range(9000)]
    assert refusal(actors, a_pod(next(NAMES), env=[*many, {"name": VISIBLE, "value": "all"}])) != ""
    assert refusal(actors, a_pod(next(NAMES), env=many)) == ""


def values(answer: dict[str, Any], part: str = "containers") -> list[str | None]:
    """What each container of a pod says of its devices."""
    return [
        next((one.get("value", "") for one in container.get("env", []) if one["name"] == VISIBLE), None)
        for container in answer["spec"][part]
    ]


def made(actors: Actors, pod: dict[str, Any], namespace: str = TENANT) -> dict[str, Any]:
    status, answer = actors.admin.create(pod, pods_of(namespace))
    assert status == 201, answer
    return answer


@mutating
@pytest.mark.parametrize(
    "more", [{}, {"env": {"A": "b"}}, {"annotations": {"a": "b"}}, {"limits": {"cpu": "1"}}]
)
@pytest.mark.parametrize(("namespace", "runtime"), [(TENANT, "nvidia"), (MANAGED, None), (MANAGED, "nvidia")])
def test_what_an_image_says_shows_no_device_to_a_container_without_a_gpu(
    actors: Actors, namespace: str, runtime: str | None, more: dict[str, Any]
) -> None:
    where: dict[str, Any] = {} if runtime is None else {"runtimeClassName": runtime}
    other = {"name": "first", "image": "i", "envFrom": [{"secretRef": {"name": "s", "optional": True}}]}
    answer = made(actors, a_pod(next(NAMES), initContainers=[other], **where, **more), namespace)
    assert (values(answer), values(answer, "initContainers")) == (["void"], ["void"])
    assert answer["metadata"]["annotations"][HIDDEN] == "c,first"
    assert answer["metadata"]["annotations"].items() >= more.get("annotations", {}).items()


@mutating
@pytest.mark.parametrize(
    "limits",
    [GPU, {"nvidia.com/mig-1g.5gb": "1"}, {"gpufleet.io/gpu-share": "1"}, {"volcano.sh/vgpu-number": "1"}],
)
@pytest.mark.parametrize("namespace", [TENANT, MANAGED])
def test_a_container_with_a_gpu_is_left_alone(actors: Actors, namespace: str, limits: dict[str, str]) -> None:
    answer = made(actors, a_pod(next(NAMES), limits=limits, runtimeClassName="nvidia"), namespace)
    assert values(answer) == [None]
    assert HIDDEN not in answer["metadata"].get("annotations", {})


@mutating
def test_elsewhere_pods_stay_as_they_are(actors: Actors) -> None:
    assert values(made(actors, a_pod(next(NAMES)))) == [None]
    assert values(made(actors, a_pod(next(NAMES), runtimeClassName="gvisor"))) == [None]
    assert values(made(actors, a_pod(next(NAMES), runtimeClassName="nvidia"), INFRASTRUCTURE)) == [None]


@mutating
@pytest.mark.parametrize("value", HIDING)
def test_a_value_that_hides_all_devices_already_stays(actors: Actors, value: str) -> None:
    answer = made(actors, a_pod(next(NAMES), runtimeClassName="nvidia", env={VISIBLE: value}))
    assert values(answer) == [value]


@mutating
def test_an_old_image_of_cuda_that_a_pod_plays_sees_none(actors: Actors) -> None:
    assert values(made(actors, a_pod(next(NAMES), env={"CUDA_VERSION": "8.0"}))) == ["void"]


@mutating
def test_an_ephemeral_container_under_such_a_runtime_sees_none(actors: Actors) -> None:
    answer = made(actors, a_pod(next(NAMES), limits=GPU, runtimeClassName="nvidia"))
    name = answer["metadata"]["name"]
    assert attach(actors, name)[0] == 200
    status, answer = attach(actors, name, env=as_env({"A": "b"}))
    assert status == 200
    assert values(answer, "ephemeralContainers") == ["void", "void"]
