"""What people commonly apply, written as each project's documents teach it, has no error.

The sweep over what the projects publish (``test_public_manifests``) needs their repositories. These are
our own manifests of the same shapes, so that a rule that grows too wide shows everywhere.
"""

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import fixed, report_of

SHM = "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]"
MOUNTED = "volumeMounts: [{name: shm, mountPath: /dev/shm}]"
ONE = "resources: {limits: {nvidia.com/gpu: 1}}"
EIGHT = "resources: {limits: {nvidia.com/gpu: 8}}"
HOST = (
    "volumes: [{name: dev, hostPath: {path: /dev}}, {name: kubelet, hostPath: {path: /var/lib/kubelet/%s}}]"
)


def written(version: str, kind: str, spec: str, labels: str = "") -> str:
    """An object with this spec, in flow style."""
    metadata = f"metadata: {{name: a, labels: {{{labels}}}}}"
    return f"apiVersion: {version}\nkind: {kind}\n{metadata}\nspec: {{{spec}}}\n"


def template(container: str, spec: str = "") -> str:
    """A pod template with one container."""
    return f"template: {{spec: {{containers: [{{name: c, {container}}}], {spec}}}}}"


PLAIN = template("image: 't:1'")
TRAINER = template(f"image: 't:1', {ONE}")
EIGHT_RANKS = template(f"image: 'n:1', {EIGHT}, {MOUNTED}", SHM)
HEAD = template("image: 'rayproject/ray:2.50.0'")
WORKER = template("image: 'rayproject/ray:2.50.0-gpu', resources: {limits: {nvidia.com/gpu: 2}}")
FILLED_IN = template("image: '${IMAGE}', resources: {limits: {nvidia.com/gpu: $GPUS}}")
TORCH = template("image: 'pytorch/pytorch:2.7.1-cuda12.6-runtime'")
SHAPES = {
    "a sample of CUDA": written(
        "v1",
        "Pod",
        f"containers: [{{name: c, image: 'nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0', {ONE}}}], "
        "tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
    ),
    "a shell to look at two GPUs": written(
        "v1",
        "Pod",
        "containers: [{name: c, image: 'ubuntu:24.04', command: [bash, -c, 'nvidia-smi; sleep infinity'], "
        "resources: {limits: {nvidia.com/gpu: 2}}}]",
    ),
    "HAMi's memory and cores": written(
        "v1",
        "Pod",
        "containers: [{name: c, image: 'app:1', resources: {limits: "
        "{nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30}}}]",
    ),
    "KAI's fraction": (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {kai.scheduler/queue: team}\n"
        "  annotations: {gpu-fraction: '0.5'}\nspec:\n  schedulerName: kai-scheduler\n"
        "  containers: [{name: c, image: 'nvidia/cuda:12.5.0-base-ubuntu22.04', command: [nvidia-smi]}]\n"
    ),
    "a claim of DRA": written(
        "v1",
        "Pod",
        "containers: [{name: c, image: 'nvidia/cuda:12.5.0-base-ubuntu22.04', resources: "
        "{claims: [{name: gpu}]}}], resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]",
    ),
    "AMD's PyTorch": written(
        "v1",
        "Pod",
        "containers: [{name: c, image: 'rocm/pytorch:rocm6.2', resources: {limits: {amd.com/gpu: 1}}}]",
    ),
    "Intel's job": written(
        "batch/v1",
        "Job",
        template("image: 'app:1', resources: {limits: {gpu.intel.com/i915: 1}}", "restartPolicy: Never"),
    ),
    "a job of many pods in Kueue": written(
        "batch/v1",
        "Job",
        f"parallelism: 4, completions: 4, completionMode: Indexed, {TRAINER}",
        "kueue.x-k8s.io/queue-name: team",
    ),
    "Volcano's job": written(
        "batch.volcano.sh/v1alpha1",
        "Job",
        "minAvailable: 3, schedulerName: volcano, tasks: [{name: master, replicas: 1, "
        f"{PLAIN}}}, {{name: worker, replicas: 2, {TRAINER}}}]",
    ),
    "PyTorchJob with a queue": written(
        "kubeflow.org/v1",
        "PyTorchJob",
        f"pytorchReplicaSpecs: {{Master: {{replicas: 1, {TRAINER}}}, Worker: {{replicas: 3, {TRAINER}}}}}",
        "kueue.x-k8s.io/queue-name: team",
    ),
    "an elastic PyTorchJob": written(
        "kubeflow.org/v1",
        "PyTorchJob",
        "elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 4}, "
        f"pytorchReplicaSpecs: {{Worker: {{replicas: 4, {TRAINER}}}}}",
    ),
    "MPIJob with a launcher": written(
        "kubeflow.org/v2beta1",
        "MPIJob",
        f"slotsPerWorker: 8, mpiReplicaSpecs: {{Launcher: {{replicas: 1, {PLAIN}}}, "
        f"Worker: {{replicas: 2, {EIGHT_RANKS}}}}}",
        "kueue.x-k8s.io/queue-name: team",
    ),
    "a runtime of Kubeflow's trainer": written(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        "mlPolicy: {numNodes: 1, torch: {numProcPerNode: auto}}, template: {spec: {replicatedJobs: "
        f"[{{name: node, template: {{spec: {{{TORCH}}}}}}}]}}}}",
    ),
    "vLLM over two pods": written(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, "
        "image: 'vllm/vllm-openai:v0.10.0', command: [vllm, serve, meta-llama/Llama-3.1-405B-Instruct, "
        f"--tensor-parallel-size, '8', --pipeline-parallel-size, '2'], {EIGHT}, {MOUNTED}}}], {SHM}}}}}}}",
    ),
    "vLLM on Ray": written(
        "ray.io/v1",
        "RayService",
        f"rayClusterConfig: {{headGroupSpec: {{{HEAD}}}, "
        "workerGroupSpecs: [{groupName: gpu, replicas: 1, "
        f"{WORKER}}}]}}",
    ),
    "a model in a runtime of KServe": written(
        "serving.kserve.io/v1beta1",
        "InferenceService",
        "predictor: {model: {modelFormat: {name: huggingface}, storageUri: 'pvc://m', "
        "resources: {limits: {nvidia.com/gpu: 2}}}}",
    ),
    "a runtime of KServe": written(
        "serving.kserve.io/v1alpha1",
        "ServingRuntime",
        "containers: [{name: kserve-container, image: 'vllm/vllm-openai:v0.10.0', args: [--port=8080]}]",
    ),
    "KServe's language model": written(
        "serving.kserve.io/v1alpha2",
        "LLMInferenceService",
        f"model: {{uri: 'hf://a/b'}}, replicas: 1, template: {{containers: [{{name: main, {EIGHT}}}]}}",
    ),
    "a job that a shell fills in": written(
        "kubeflow.org/v1",
        "PyTorchJob",
        f"pytorchReplicaSpecs: {{Worker: {{replicas: $NODES, {FILLED_IN}}}}}",
    ),
    "NVIDIA's device plugin": written(
        "apps/v1",
        "DaemonSet",
        template(
            "image: 'nvcr.io/nvidia/k8s-device-plugin:v0.17.1', securityContext: {privileged: true}, "
            "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]",
            HOST % "device-plugins",
        ),
    ),
    "an exporter of metrics": written(
        "apps/v1",
        "DaemonSet",
        template(
            "image: 'nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3', securityContext: {privileged: true}",
            HOST % "pod-resources",
        ),
    ),
    "a queue of Kueue": written(
        "kueue.x-k8s.io/v1beta1",
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: f, resources: "
        "[{name: nvidia.com/gpu, nominalQuota: 9}]}]}]",
    ),
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_it_is_read_and_has_no_error(text: str) -> None:
    report = report_of(text)
    assert report.problems == ()
    assert [(one.rule.id, one.says) for one in report.findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_it_is_mended_once(text: str) -> None:
    mended = fixed(text)
    assert fixed(mended) == mended
    assert all(one.fix is None for one in report_of(mended).findings)
