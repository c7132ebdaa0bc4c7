"""On a real API server: policies complete pods as Python does, over all pods of the corpus."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.admission.completion_policies import completion_policies
from gpufleet.admission.policies import LABEL
from gpufleet.completion.additions import Addition, Completion, RuntimeClass
from gpufleet.completion.completing import completing_patch
from gpufleet.completion.json_patch import patched_copy
from gpufleet.simulation.object_patch import merge
from tests.admission.completion_corpus import pods
from tests.admission.judging_server import JudgingServer, strict
from tests.published_cases import expected, published_cases
from tests.waiting import until

Object = dict[str, Any]
TAINTS = ("nvidia.com/gpu", "sku")
SELECTED = {"runtime": "nvidia"}
COMPLETION = Completion("fleet", frozenset(), TAINTS, RuntimeClass("nvidia", node_selector=SELECTED), True)
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
LEAST_PODS = 400
"""Fewer would mean that the server takes few of them, or that the corpus is not found any more."""

NO_GPU: Object = {"name": "c", "image": "example.com/train:1"}
ONE_GPU: Object = {
    "containers": [
        {"name": "c", "image": "example.com/train:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    ]
}


@pytest.fixture(scope="module", autouse=True)
def completing(server: JudgingServer) -> Iterator[None]:
    for name in ("nvidia", "other"):
        body: Object = {"metadata": {"name": name}, "handler": name}
        if name == "nvidia":
            body["scheduling"] = {"nodeSelector": SELECTED}
        server.api.call("POST", RUNTIME_CLASSES, body)
    server.namespace("plain", {LABEL: "off"})
    server.namespace("managed", {LABEL: "off", "gpufleet.io/managed": "true"})
    # An expression that cannot be evaluated fails the test, in place of being skipped.
    policies = strict(completion_policies(Addition, scheduler_name="fleet", pool_taints=TAINTS))
    server.install(policies)
    until(lambda: is_completed(server), 30, "the policies do not complete")
    yield
    server.remove(policies)
    until(lambda: completed(server)["schedulerName"] == "default-scheduler", 30)


def is_completed(server: JudgingServer) -> bool:
    """Whether every policy is in force: the server takes them up one by one."""
    several = {"containers": [several_gpus()]}
    pod = a_pod({}, several)
    # The server itself adds what a RuntimeClass says of nodes.
    whole = server.create(patched_copy(pod, completing_patch(pod, COMPLETION)), "plain").body
    slots = a_pod({"annotations": {"gpufleet.io/gpu-fraction": "0.5"}}, {"containers": [NO_GPU]})
    (container,) = server.create(slots, "managed").body["spec"]["containers"]
    is_slotted = "gpufleet.io/gpu-share" in container["resources"].get("limits", {})
    return is_slotted and alike(server.create(a_pod({}, several), "managed").body["spec"], whole["spec"])


def alike(one: Object, other: Object) -> bool:
    """Whether two specs are the same: in which order policies add tolerations, the server does not tell."""

    def ordered(spec: Object) -> Object:
        tolerations = sorted(spec.get("tolerations", []), key=lambda each: sorted(each.items()))
        return {**spec, "tolerations": tolerations}

    return ordered(one) == ordered(other)


def a_pod(metadata: Object, spec: Object) -> Object:
    spec = {**copy.deepcopy(spec), "automountServiceAccountToken": False}
    spec.setdefault("restartPolicy", "Always")
    kept = {part: metadata[part] for part in ("annotations", "labels") if metadata.get(part)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, "name": "one"}, "spec": spec}


def as_sent(body: Object) -> Object:
    """What the server answered, as it can be sent to it again."""
    return a_pod(body["metadata"], body["spec"])


def differences(server: JudgingServer) -> Iterator[tuple[str, Object, Object, Object] | None]:
    for name, metadata, spec in pods():
        before = server.create(a_pod(metadata, spec), "plain")
        if before.status != 201:
            continue
        pod = as_sent(before.body)
        patch = completing_patch(pod, COMPLETION)
        expected = server.create(patched_copy(pod, patch), "plain") if patch else before
        assert expected.status == 201, (name, pod, expected.body)
        found = server.create(pod, "managed")
        assert found.status == 201, (name, pod, found.body)
        # Whatever is completed needs nothing more.
        again = server.create(as_sent(found.body), "managed") if patch else found
        assert again.body["spec"] == found.body["spec"], (name, pod)
        same = alike(found.body["spec"], expected.body["spec"])
        yield None if same else (name, pod, expected.body["spec"], found.body["spec"])


def test_every_pod_of_the_corpus_is_completed_alike(server: JudgingServer) -> None:
    found = list(differences(server))
    assert [one for one in found if one is not None][:1] == []
    assert len(found) >= LEAST_PODS


def test_a_pod_with_several_gpus_gets_memory_at_shm(server: JudgingServer) -> None:
    container = {"name": "c", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "4", "memory": "6Gi"}}}
    spec = server.create(a_pod({}, {"containers": [container]}), "managed").body["spec"]
    assert spec["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "3Gi"}}]
    mount = {"name": "dshm", "mountPath": "/dev/shm"}  # noqa: S108
    assert spec["containers"][0]["volumeMounts"] == [mount]


def test_a_pod_that_a_controller_makes_is_completed_too(server: JudgingServer) -> None:
    pod = a_pod({}, ONE_GPU)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    ]
    assert server.create(pod, "managed").body["spec"]["schedulerName"] == "fleet"


def test_the_image_of_a_static_pod_stays_as_its_node_says(server: JudgingServer) -> None:
    # The server takes such a pod with its node alone.
    pod = a_pod({"annotations": {"kubernetes.io/config.mirror": "abc"}}, {**ONE_GPU, "nodeName": "n1"})
    spec = server.create(pod, "managed").body["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert completing_patch(pod, COMPLETION) == []


def test_no_addition_changes_a_verdict_of_pod_security(server: JudgingServer) -> None:
    """The fixtures of Kubernetes' own tests, with GPUs."""
    levels = ("restricted", "baseline")
    enforce = "pod-security.kubernetes.io/enforce"
    for level in levels:
        server.namespace(level, {LABEL: "off", "gpufleet.io/managed": "true", enforce: level})
    wrong = []
    for case in published_cases(__file__, "pod_security")["pods"]:
        pod = a_pod({}, secured(case))
        verdicts = dict(zip(levels, (expected(case), case.get("baseline", expected(case))), strict=True))
        for level, verdict in verdicts.items():
            found = server.create(pod, level)
            if (found.status == 201) != (verdict == "passes"):
                wrong.append((case["case"], level, found.status, found.body.get("message")))
            elif found.status == 201:
                # It was given something: a scheduler, and memory since it has several GPUs.
                spec = found.body["spec"]
                assert spec["schedulerName"] == "fleet"
                assert any(one["name"] == "dshm" for one in spec["volumes"])
    assert wrong == []


def test_a_runtime_class_that_is_not_there_or_costs_something_refuses_no_pod(server: JudgingServer) -> None:
    server.api.call("DELETE", f"{RUNTIME_CLASSES}/nvidia")
    # The server's copies of the class do not end in the same moment.
    until(lambda: server.create(a_pod({}, ONE_GPU), "managed").status == 201, 30, "the class is still given")
    assert "runtimeClassName" not in completed(server)
    assert completed(server)["schedulerName"] == "fleet"
    overhead = {"podFixed": {"cpu": "250m"}}
    body = {"metadata": {"name": "nvidia"}, "handler": "nvidia", "overhead": overhead}
    server.api.call("POST", RUNTIME_CLASSES, body)
    until(lambda: server.api.request("GET", f"{RUNTIME_CLASSES}/nvidia")[0] == 200)
    assert "runtimeClassName" not in completed(server)
    assert completing_patch(a_pod({}, ONE_GPU), Completion(runtime_class=RuntimeClass("nvidia", True)))


def completed(server: JudgingServer) -> Object:
    said = server.create(a_pod({}, ONE_GPU), "managed")
    assert said.status == 201, said.body
    spec: Object = said.body["spec"]
    return spec


def secured(case: Object) -> Object:
    """The pod that every level takes, with the changes of a case."""
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    of_pod: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    main: Object = {**several_gpus(), "securityContext": own}
    first: Object = {**NO_GPU, "name": "init", "securityContext": own}
    spec = merge({"securityContext": of_pod}, case.get("pod", {}))
    containers = [merge(main, case.get("container", {}))]
    return {**spec, "containers": containers, "initContainers": [merge(first, case.get("init", {}))]}


def several_gpus() -> Object:
    """A container of two GPUs."""
    (container,) = copy.deepcopy(ONE_GPU["containers"])
    container["resources"]["limits"]["nvidia.com/gpu"] = "2"
    return dict(container)
