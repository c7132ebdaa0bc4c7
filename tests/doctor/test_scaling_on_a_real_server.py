"""Ways to keep GPU work from scaling: on a real API server, the right cause is named first."""

from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import Patient, a_deployment, a_pod

CUSTOM = "custom.metrics.k8s.io"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}
QUEUE_LENGTH = {"type": "Pods", "pods": {"metric": {"name": "vllm_waiting"}, "target": {}}}
QUEUE_LENGTH["pods"] |= {"target": {"type": "AverageValue", "averageValue": "4"}}  # type: ignore[operator]


def an_autoscaler(*metrics: Object, most: int = 4, target: Object = DEPLOYMENT) -> Object:
    """A HorizontalPodAutoscaler of the Deployment."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "serve"},
        "spec": {"scaleTargetRef": target, "maxReplicas": most, "metrics": list(metrics)},
    }


def serve(gpus: int = 1) -> Object:
    """The Deployment that is scaled."""
    return a_deployment("serve", a_pod("serve", gpus))


def a_scaled_object(most: int = 2, **trigger: Any) -> Object:
    """A ScaledObject of the Deployment."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "serve"},
        "spec": {"scaleTargetRef": {"name": "serve"}, "maxReplicaCount": most, "triggers": [trigger]},
    }


def with_keda(patient: Patient) -> None:
    """KEDA's kind, and a pod that looks like its operator."""
    patient.define("keda.sh", "v1alpha1", "ScaledObject")
    operator = a_pod("keda-operator", gpus=0)
    operator["spec"]["containers"][0]["image"] = "ghcr.io/kedacore/keda:2.18.1"
    patient.apply(operator)


def test_a_metric_that_nobody_serves(patient: Patient) -> None:
    patient.apply(serve(), an_autoscaler(QUEUE_LENGTH))
    patient.finds("metric-unserved", "HorizontalPodAutoscaler default/serve", f"no APIService of {CUSTOM}")


def test_an_api_of_metrics_that_does_not_answer(patient: Patient) -> None:
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1beta1.{CUSTOM}"},
        "spec": {
            "group": CUSTOM,
            "version": "v1beta1",
            "service": {"namespace": "monitoring", "name": "adapter"},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    patient.apply(service, serve(), an_autoscaler(QUEUE_LENGTH))
    found = patient.finds(
        "metrics-api-dead", f"APIService v1beta1.{CUSTOM}", "Available=False ServiceNotFound"
    )
    assert "monitoring/adapter" in found.failure.mends[0].does


def test_a_metric_of_the_host_without_a_metrics_server(patient: Patient) -> None:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    patient.apply(serve(), an_autoscaler({"type": "Resource", "resource": cpu}))
    patient.finds("metric-unserved", "ScalingActive=False FailedGetResourceMetric")


def test_a_target_that_does_not_exist(patient: Patient) -> None:
    patient.apply(serve(), an_autoscaler(QUEUE_LENGTH, target={**DEPLOYMENT, "name": "server"}))
    found = patient.finds("scale-target-missing", "there is no Deployment server")
    assert "did you mean serve?" in found.failure.mends[0].does


def test_a_scaled_object_without_keda(patient: Patient) -> None:
    patient.define("keda.sh", "v1alpha1", "ScaledObject")
    patient.apply(serve(), a_scaled_object(type="prometheus", metadata={"query": "sum(vllm_waiting)"}))
    patient.finds("keda-missing", "ScaledObject default/serve")


def test_gpu_work_scaled_on_cpu(patient: Patient) -> None:
    with_keda(patient)
    patient.apply(serve(), a_scaled_object(type="cpu", metadata={"value": "70"}))
    patient.finds("scaled-on-cpu", "ScaledObject default/serve", "by cpu alone")


def test_gpu_work_scaled_on_utilization(patient: Patient) -> None:
    with_keda(patient)
    query = "avg(DCGM_FI_DEV_GPU_UTIL)"
    patient.apply(serve(), a_scaled_object(type="prometheus", metadata={"query": query}))
    patient.finds("scaled-on-utilization", "ScaledObject default/serve", "DCGM_FI_DEV_GPU_UTIL")


def test_an_autoscaler_that_may_outgrow_the_cluster(patient: Patient) -> None:
    with_keda(patient)
    trigger = {"type": "prometheus", "metadata": {"query": "sum(vllm_waiting)"}}
    patient.apply(serve(8), a_scaled_object(most=7, **trigger))
    # Six nodes have eight GPUs each.
    patient.finds("scaled-beyond-room", "7 pods of 8 nvidia.com/gpu each", "have 48")


def test_an_autoscaler_that_may_outgrow_its_quota(patient: Patient) -> None:
    with_keda(patient)
    hard = {"requests.nvidia.com/gpu": "4"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": hard},
    }
    trigger = {"type": "prometheus", "metadata": {"query": "sum(vllm_waiting)"}}
    patient.apply(quota, serve(2), a_scaled_object(most=3, **trigger))
    patient.finds("scaled-beyond-room", "ResourceQuota default/team allows 4")


def a_pool(**spec: Any) -> Object:
    """Karpenter's NodePool of GPU nodes."""
    requirement = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}
    owner = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    node = {"requirements": [requirement], "nodeClassRef": owner, "taints": [taint]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpus"},
        "spec": {"template": {"spec": node}, **spec},
    }


def test_a_pool_of_gpu_nodes_without_end(patient: Patient) -> None:
    patient.define("karpenter.sh", "v1", cluster=("NodePool", "NodeClaim"))
    patient.apply(a_pool())
    patient.finds("node-pool-open", "NodePool gpus", "as many GPU nodes as pods ask for")


def test_a_node_that_was_ordered_and_never_offers_its_gpus(patient: Patient) -> None:
    patient.define("karpenter.sh", "v1", cluster=("NodePool", "NodeClaim"))
    message = 'Resource "nvidia.com/gpu" was requested but not registered'
    told = {"type": "Initialized", "status": "Unknown", "reason": "ResourceNotRegistered", "message": message}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "gpus-x7k2p"},
        "spec": {"resources": {"requests": {"nvidia.com/gpu": "8"}}},
        "status": {"conditions": [told]},
    }
    patient.apply(claim)
    patient.finds("node-claim-stuck", "NodeClaim gpus-x7k2p", "ResourceNotRegistered", age_s=1000)
