"""Ways to keep GPU pods from being made: what the API server refuses is found, and its reason named first."""

from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import Patient, a_deployment, a_job, a_pod

GPU = "nvidia.com/gpu"


def a_quota(**hard: str) -> Object:
    """A quota of the namespace default; its names with ``_`` for a dot and ``__`` for a slash."""
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "bound"},
        "spec": {"hard": named},
    }


def a_limit_range(**limit: Any) -> Object:
    """What a container of the namespace default may have."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "bound"},
        "spec": {"limits": [{"type": "Container", **limit}]},
    }


def test_a_quota_that_is_used_up(patient: Patient) -> None:
    patient.apply(a_quota(requests_nvidia_com__gpu="2"))
    patient.apply(a_deployment("serve", a_pod("serve"), replicas=3))
    found = patient.finds("quota-full", "Deployment default/serve", "used requests.nvidia.com/gpu=2")
    assert '"requests.nvidia.com/gpu": "3"' in found.failure.mends[0].command


def test_a_job_that_is_larger_than_its_quota(patient: Patient) -> None:
    patient.apply(a_quota(requests_nvidia_com__gpu="4"))
    patient.apply(a_job("train", a_pod("train", 8)))
    patient.finds("quota-full", "Job default/train", "all of the quota is 4")


def test_a_quota_that_demands_requests(patient: Patient) -> None:
    patient.apply(a_quota(requests_cpu="64", requests_nvidia_com__gpu="8"))
    patient.apply(a_deployment("serve", a_pod("serve")))
    patient.finds("quota-demands", "Deployment default/serve", "must specify requests.cpu")


def test_a_quota_that_does_not_count_gpus(patient: Patient) -> None:
    patient.apply(a_quota(limits_nvidia_com__gpu="4"))
    patient.finds("quota-keys", "limits.nvidia.com/gpu")


def test_a_limit_range_that_refuses_gpus(patient: Patient) -> None:
    patient.apply(a_limit_range(max={GPU: "1"}))
    patient.apply(a_deployment("serve", a_pod("serve", 4)))
    patient.finds("limit-range-refuses", "Deployment default/serve", "maximum nvidia.com/gpu usage")


def test_a_limit_range_that_gives_gpus(patient: Patient) -> None:
    patient.apply(a_limit_range(default={GPU: "1"}, defaultRequest={GPU: "1"}))
    patient.finds("quota-keys", "gives 1 of nvidia.com/gpu to every container")


def test_a_priority_class_that_is_missing(patient: Patient) -> None:
    patient.apply(a_deployment("serve", a_pod("serve", priorityClassName="inference-critical")))
    found = patient.finds("priority-class-missing", "Deployment default/serve", "inference-critical")
    assert found.failure.mends[0].manifest.startswith("apiVersion: scheduling.k8s.io/v1")


def test_a_webhook_that_nobody_answers(patient: Patient) -> None:
    webhook = {
        "name": "pods.gone.example",
        "clientConfig": {"service": {"namespace": "gone", "name": "webhook"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone"},
        "webhooks": [webhook],
    }
    patient.apply(configuration, a_deployment("serve", a_pod("serve")))
    patient.finds(
        "webhook-dead", "Deployment default/serve", "there is no Service gone/webhook", "failed calling"
    )


def test_a_policy_of_ours_that_denies(patient: Patient) -> None:
    forged = {"gpufleet.io/grant": '{"v": 1}'}
    deployment = a_deployment("serve", a_pod("serve"))
    deployment["spec"]["template"]["metadata"]["annotations"] = forged
    patient.apply(deployment)
    patient.finds("policy-denies", "Deployment default/serve", "gpufleet-grant-guard")


def test_a_pod_security_level_that_refuses(patient: Patient) -> None:
    label = "pod-security.kubernetes.io/enforce"
    changes = ({"metadata": {"labels": {label: level}}} for level in ("restricted", None))
    patient.patch("/api/v1/namespaces/default", *changes)
    patient.apply(a_deployment("serve", a_pod("serve")))
    patient.finds("pod-security-refuses", "Deployment default/serve", "restricted:latest", "runAsNonRoot")


def test_a_service_account_that_is_missing(patient: Patient) -> None:
    patient.apply(a_deployment("serve", a_pod("serve", serviceAccountName="trainer")))
    patient.finds("pods-refused", "Deployment default/serve", "trainer")
