"""Edges of the rules that ask what the cluster has, beside the examples on their pages."""

import pytest

from gpufleet.lint.rules.surge_without_room import RULE as SURGE
from tests.lint.linting import findings_of, pod, report_of

A100 = "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB"
OLD = "nvidia.com/cuda.driver-version.full: 470.82.01"
CUDA_12 = pod("image: nvidia/cuda:12.4.1-base-ubuntu22.04")
ONE_MIG = pod(limits="nvidia.com/mig-1g.5gb: 1")


def node(*labels: str, allocatable: str = "nvidia.com/gpu: '8'", name: str = "n") -> str:
    written = ", ".join(labels)
    return (
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{written}}}}}\n"
        f"status: {{allocatable: {{{allocatable}}}}}\n---\n"
    )


def deployment(strategy: str, replicas: int = 2) -> str:
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
        f"spec:\n  replicas: {replicas}\n  strategy: {strategy}\n  selector: {{matchLabels: {{app: a}}}}\n"
        "  template:\n    metadata: {labels: {app: a}}\n"
        "    spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}\n"
    )


def placed(app: str, phase: str = "Running") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, labels: {{app: {app}}}}}\n"
        "spec: {nodeName: n, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4}}}]}\n"
        f"status: {{phase: {phase}}}\n---\n"
    )


JOB = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
    "spec: {runPolicy: {schedulingPolicy: {minAvailable: %d}}, pytorchReplicaSpecs: {Worker: {replicas: %d,"
    " template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4}}}]}}}}}\n"
)
SCALER = (
    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n"
    "spec: {metrics: [{%s: {metric: {name: m}}}]}\n"
)
SERVICE = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.%s}\n"
CULLING = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {ENABLE_CULLING: '%s'}\n"
NOTEBOOK = (
    "apiVersion: kubeflow.org/v1\nkind: Notebook\nmetadata: {name: a}\n"
    "spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}\n"
)
EIGHT = pod(limits="nvidia.com/gpu: 8")
H100 = "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3"
L4 = "nvidia.com/gpu.product: NVIDIA-L4"
TWO_MODELS = node(H100) + node(L4, allocatable="nvidia.com/gpu: '2'")
LLAMA_70B = pod(
    "image: vllm/vllm-openai:v0.10.0\n"
    "args: [--model=meta-llama/Llama-3.1-70B-Instruct, --tensor-parallel-size=8]",
    limits="nvidia.com/gpu: 8",
)


def tainted(text: str, key: str = "nvidia.com/gpu", effect: str = "NoSchedule") -> str:
    return text.replace("status:", f"spec: {{taints: [{{key: {key}, effect: {effect}}}]}}\nstatus:")


FORTY_EIGHT = pod("resources: {requests: {cpu: '48'}, limits: {nvidia.com/gpu: 1}}", limits="")
SHAPE = "nvidia.com/gpu: '8', memory: 1Ti, cpu: '%d'"
HALF = pod(limits="nvidia.com/gpu: 0.5")
CCE = node(A100).replace("status: {", "status: {nodeInfo: {kubeletVersion: v1.27.3-r0-27.2.1}, ")
CASES = [
    ("GPU002", HALF, node(A100), "found"),
    ("GPU002", HALF, CCE, "passed"),
    ("GPU016", pod(), tainted(node(A100)), "found"),
    ("GPU016", pod(), tainted(node("cloud.google.com/gke-nodepool: a")), "passed"),
    ("GPU016", pod(), tainted(node("eks.amazonaws.com/nodegroup: a")), "passed"),
    ("GPU016", pod(), tainted(node("kubernetes.azure.com/mode: user"), key="sku"), "found"),
    ("GPU016", pod(), tainted(node("kubernetes.azure.com/mode: user"), effect="NoExecute"), "found"),
    ("GPU018", pod(), TWO_MODELS, "found"),
    # Only nodes that are large enough can be where it lands.
    ("GPU018", EIGHT, TWO_MODELS, "passed"),
    ("GPU048", LLAMA_70B, TWO_MODELS, "passed"),
    ("GPU048", LLAMA_70B, node(H100) + node(L4), "found"),
    # Data-centre cards may be served by cuda-compat, of which an image's name tells nothing.
    ("GPU012", CUDA_12, node("nvidia.com/gpu.product: NVIDIA-GeForce-RTX-3090", OLD), "found"),
    ("GPU012", CUDA_12, node(A100, OLD), "unjudged"),
    ("GPU012", CUDA_12, node(A100, "nvidia.com/cuda.driver-version.full: 550.54.15"), "passed"),
    ("GPU012", CUDA_12, node(A100), "unjudged"),
    ("GPU012", pod("image: own/trainer:7"), node(A100, OLD), "unjudged"),
    ("GPU012", CUDA_12, node(A100, allocatable="amd.com/gpu: '8'"), "unjudged"),
    ("GPU013", pod("image: a:1\nenv: [{name: NVIDIA_DISABLE_REQUIRE, value: '1'}]"), node(A100), "found"),
    ("GPU013", pod("image: a:1\nenv: [{name: NVIDIA_DISABLE_REQUIRE, value: 'no'}]"), node(A100), "unjudged"),
    ("GPU014", pod("image: nvidia/cuda:13.0.0-base-ubuntu24.04"), node(A100), "passed"),
    ("GPU014", pod("image: rocm/pytorch:1", limits="amd.com/gpu: 1"), node(A100), "passed"),
    ("GPU039", pod(limits="nvidia.com/gpu.shared: 2"), "", "found"),
    ("GPU039", pod(limits="nvidia.com/mig-1g.10gb.shared: 2"), "", "found"),
    ("GPU039", pod(limits="nvidia.com/gpu: 2"), node(A100), "passed"),
    ("GPU042", ONE_MIG, node(A100), "found"),
    ("GPU042", ONE_MIG, node("nvidia.com/gpu.product: Tesla-T4"), "found"),
    ("GPU042", ONE_MIG, node(A100, allocatable="nvidia.com/mig-1g.5gb: '7'"), "passed"),
    ("GPU042", ONE_MIG, node("nvidia.com/gpu.product: Unheard-Of"), "unjudged"),
    ("GPU042", pod(limits="nvidia.com/mig-1g.10gb.me: 1"), node(A100), "passed"),
    ("GPU046", FORTY_EIGHT, node(A100, allocatable=SHAPE % 96), "found"),
    ("GPU046", FORTY_EIGHT, node(A100, allocatable=SHAPE % 384), "passed"),
    ("GPU046", FORTY_EIGHT, node(A100, allocatable=SHAPE % 383), "found"),
    ("GPU046", FORTY_EIGHT, node(A100), "unjudged"),
    ("GPU046", FORTY_EIGHT, node(A100, allocatable=SHAPE % 32), "passed"),
    # 8 GPUs are four pods of 2: room for three of them, and one GPU pair less with another's pod of 4.
    ("GPU033", deployment("{type: RollingUpdate}"), node(A100), "unjudged"),
    ("GPU033", deployment("{type: RollingUpdate}"), node(A100) + placed("a"), "passed"),
    ("GPU033", deployment("{type: RollingUpdate}"), node(A100) + placed("b"), "found"),
    ("GPU033", deployment("{type: RollingUpdate}"), node(A100) + placed("b", "Succeeded"), "passed"),
    ("GPU033", deployment("{type: Recreate}"), node(A100) + placed("b"), "passed"),
    # 8 GPUs are two pods of 4.
    ("GPU024", JOB % (2, 2), node(A100), "passed"),
    ("GPU024", JOB % (3, 3), node(A100), "found"),
    ("GPU024", JOB % (2, 3), node(A100), "passed"),
    ("GPU024", JOB % (2, 2), "", "unjudged"),
    ("GPU024", JOB % (3, 2), "", "found"),
    ("GPU029", SCALER % "pods", SERVICE % "apps", "found"),
    ("GPU029", SCALER % "external", SERVICE % "custom.metrics.k8s.io", "found"),
    ("GPU029", SCALER % "object", SERVICE % "custom.metrics.k8s.io", "unjudged"),
    ("GPU029", SCALER % "resource", SERVICE % "apps", "passed"),
    ("GPU038", NOTEBOOK, CULLING % "false", "found"),
    ("GPU038", NOTEBOOK, CULLING % "true", "passed"),
    ("GPU038", NOTEBOOK, node(A100), "unjudged"),
    # A quarter of four may be missing, so an old pod makes room for the new one.
    ("GPU033", deployment("{type: RollingUpdate}", 4), node(A100) + placed("b"), "passed"),
]


@pytest.mark.parametrize(
    ("rule", "text", "cluster", "expected"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_an_edge(rule: str, text: str, cluster: str, expected: str) -> None:
    found = findings_of(rule, text, cluster=cluster)
    open_rules = {one.rule.id for one in report_of(text, cluster=cluster).unjudged}
    assert ("found" if found else "unjudged" if rule in open_rules else "passed") == expected


def test_a_rollout_says_how_many_have_room() -> None:
    cluster = node(A100) + placed("b")
    (says,) = findings_of(SURGE.id, deployment("{type: RollingUpdate}"), cluster=cluster)
    assert says == "replaces pods by adding one first, and there is room for 2 of them"


def test_a_profile_that_no_card_has_names_those_that_there_are() -> None:
    (finding,) = (one for one in report_of(ONE_MIG, cluster=node(A100)).findings if one.rule.id == "GPU042")
    assert finding.advice.startswith("what there is: NVIDIA-A100-SXM4-80GB: 1g.10gb, 1g.10gb+me, ")
