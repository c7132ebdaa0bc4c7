"""Ways to keep GPUs from being freed and nodes from being upgraded: the right cause is named first."""

from typing import Any

from tests.doctor.kubelets import PODS, a_real_node, ended, running_pods, say_of_container, waiting
from tests.doctor.patient import MERGE, Patient, a_deployment, a_pod


def test_a_budget_that_lets_no_pod_go(patient: Patient) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "serve"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "serve"}}},
    }
    patient.apply(a_deployment("serve", a_pod("serve")), budget)
    running_pods(patient, "serve")
    found = patient.finds("drain-blocked", "PodDisruptionBudget default/serve", "disruptionsAllowed: 0")
    assert '"maxUnavailable": 1' in found.failure.mends[0].command


def test_a_budget_that_lets_one_pod_go_is_no_failure(patient: Patient) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "serve"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "serve"}}},
    }
    patient.apply(a_deployment("serve", a_pod("serve"), replicas=2), budget)
    running_pods(patient, "serve", 2)
    patient.is_healthy()


def test_a_pod_that_a_finalizer_keeps(patient: Patient) -> None:
    pod = a_pod("train", 4, terminationGracePeriodSeconds=0)
    patient.apply({**pod, "metadata": {"name": "train", "labels": {"app": "t"}, "finalizers": ["a.b/c"]}})
    running_pods(patient, "t")
    patient.api.call("DELETE", f"{PODS}/train")
    try:
        patient.finds("termination-endless", "Pod default/train", "holds 4 GPUs", "a.b/c", age_s=900)
    finally:
        patient.api.call("PATCH", f"{PODS}/train", {"metadata": {"finalizers": None}}, MERGE)


def test_a_kubelet_that_fell_behind(patient: Patient) -> None:
    version = patient.api.call("GET", "/version")
    old = f"v{version['major']}.{int(version['minor'].rstrip('+')) - 2}.1"
    patient.apply(a_real_node("metal-1", kubelet=old))
    patient.finds("kubelet-skew", "metal-1", "2 minors behind the server", f"kubelet {old}")


def test_a_rollout_that_waits_for_its_own_gpus(patient: Patient) -> None:
    deployment: Any = a_deployment("serve", a_pod("serve", 8), replicas=6)
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    deployment["spec"] |= {"strategy": {"rollingUpdate": rolling}, "progressDeadlineSeconds": 2}
    patient.apply(deployment)
    running_pods(patient, "serve", 6)
    path = "/apis/apps/v1/namespaces/default/deployments/serve"
    newer = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    patient.api.call("PATCH", path, newer, MERGE)
    found = patient.finds("rollout-stuck", "Deployment default/serve", "6 pods hold GPUs, 1 has no node")
    assert '"maxSurge": 0' in found.failure.mends[0].command


def test_an_image_that_does_not_come(patient: Patient) -> None:
    patient.apply(a_deployment("serve", a_pod("serve", 2)))
    [pod] = running_pods(patient, "serve")
    say_of_container(patient, pod, state=waiting("ImagePullBackOff", "Back-off pulling image: not found"))
    patient.finds("gpus-held-by-broken", "Deployment default/serve: holds 2 GPUs", "not found")


def test_a_program_that_crashes_again_and_again(patient: Patient) -> None:
    patient.apply(a_deployment("serve", a_pod("serve", 2)))
    [pod] = running_pods(patient, "serve")
    state = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    say_of_container(patient, pod, restarts=9, state=state, lastState=ended("Error"))
    patient.finds("gpus-held-by-broken", "Deployment default/serve: holds 2 GPUs", "9 restarts")


def test_a_program_that_runs_out_of_host_memory(patient: Patient) -> None:
    pod = a_pod("serve")
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "16Gi"
    patient.apply(a_deployment("serve", pod))
    [name] = running_pods(patient, "serve")
    state = waiting("CrashLoopBackOff", "back-off")
    say_of_container(patient, name, restarts=4, state=state, lastState=ended("OOMKilled", 137))
    patient.finds(
        "host-memory-short", "Deployment default/serve", "main was killed 4 times", "memory limit: 16Gi"
    )


def test_whether_notebooks_are_idle_cannot_be_judged(patient: Patient) -> None:
    patient.define("kubeflow.org", "v1", "Notebook")
    notebook = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": {"name": "lab"}}
    patient.apply({**notebook, "spec": {"template": {"spec": a_pod("lab")["spec"]}}})
    patient.is_healthy()
    watching = next(one for one in patient.examined().points if one.point.number == 6)
    assert any("1 notebook with GPUs" in one for one in watching.unjudged)
