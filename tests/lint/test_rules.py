"""Edges of the rules, beside the examples on their pages."""

import pytest

from gpufleet.lint.rule import Severity
from gpufleet.lint.rules.shared_memory import PLACE
from tests.lint.linting import findings_of, fixed, pod, report_of

MEMORY = "volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: %s}}]"
MOUNT = "volumeMounts: [{name: v, mountPath: %s}]"
GPUS = "nvidia.com/gpu: 2\nmemory: 4Gi"
PLUGIN = "volumes: [{name: v, hostPath: {path: /var/lib/kubelet/device-plugins}}]"


def deployment(template_spec: str, *, replicas: int = 2) -> str:
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
        f"spec:\n  replicas: {replicas}\n"
        f"  template:\n    metadata: {{labels: {{app: a}}}}\n    spec: {template_spec}\n---\n"
    )


def launched(line: str, gpus: int) -> str:
    """A pod of a trainer that runs this command."""
    return pod(f"image: trainer:1\ncommand: [sh, -c, '{line}']", limits=f"nvidia.com/gpu: {gpus}")


def served(server: str, line: str, gpus: int, more: str = "") -> str:
    """A pod of this server, whose arguments are the words of the line."""
    words = ", ".join(f"'{word}'" for word in line.split())
    return pod(f"image: some/{server}:v1\nargs: [{words}]\n{more}", limits=f"nvidia.com/gpu: {gpus}")


SERVER = (
    "{containers: [{name: c, image: 'x:1', ports: [{containerPort: 80}], "
    "resources: {limits: {nvidia.com/gpu: 1}}}]}"
)
ELASTIC = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
    "spec: {elasticPolicy: {minReplicas: %d}, pytorchReplicaSpecs: {Worker: {replicas: 4, "
    "template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}\n"
)
SCALED = (
    "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: s}\n"
    "spec: {scaleTargetRef: {name: a}, triggers: [{type: cron}], %s}\n"
)
RAY = (
    "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\n"
    "spec: {workerGroupSpecs: [{groupName: g, replicas: 1, template: {spec: {containers: [%s]}}}]}\n"
)
TWO = "nvidia.com/gpu: 2"
INLINE = 'command: [python3, -c]\nargs: ["%s"]'
IDLE = "image: ubuntu:22.04\ncommand: [bash, -c, %s]"
HUB = "image: vllm/vllm-openai:v1\nargs: [%s]"
KSERVE = "apiVersion: serving.kserve.io/v1\nkind: %s\nmetadata: {name: a}\nspec: {%s}\n"
TWO_GPUS = "resources: {limits: {nvidia.com/gpu: 2}}"
TWO_SERVER = SERVER.replace("gpu: 1", "gpu: 2")
TWO_TEMPLATE = (
    "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: a}\n"
    "template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}\n"
)
INDEXED = "completionMode: Indexed, parallelism: 2"
SHARDS = ", completions: 40"
RETRIED = ", backoffLimitPerIndex: 1"
ITS_OWN_NODE = "[{name: c, env: [{name: MASTER_ADDR, value: localhost}, {name: NCCL_DEBUG, value: INFO}],"
MASTER = "[{name: c, env: [{name: MASTER_ADDR, value: a-0.a}],"
TORCHRUN = "[{name: c, command: [sh, -c, 'torchrun --nnodes 2 x.py'],"


def indexed_with(command: str) -> str:
    """An indexed Job of two pods that run a line of shell."""
    return (LIMITED % ("", INDEXED)).replace("[{name: c,", f"[{{name: c, command: [sh, -c, '{command}'],")


SCALER = (
    "apiVersion: autoscaling/%s\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n"
    "spec: {scaleTargetRef: {kind: Deployment, name: a}, metrics: [{type: External, external: {%s}}]}\n"
)
KAI_PRIORITY = "one\n  labels: {priorityClassName: train}\n"
LIMITED = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: {%s}}\n"
    "spec: {%s, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}\n"
)
PRIORITIES = (
    "apiVersion: %s\nkind: %s\nmetadata: {name: a}\n"
    "spec: {%s: [{replicas: 1, template: {spec: {containers: [{name: c, resources: "
    "{limits: {nvidia.com/gpu: 1}}}]}}}], %s}\n"
)
BUDGET = (
    "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n"
    "spec: {%s, selector: {matchLabels: {app: a}}}\n"
)
VLLM = "image: vllm/vllm-openai:v1\nlivenessProbe: {exec: {command: [a]}, initialDelaySeconds: %d}"
MOVING = (
    "nightly",
    "main",
    "stable",
    "dev-cu12.8",
    "latest-rocm",
    "cuda12.4-latest",
    "edge-gpu",
    "main-nightly",
)
STAYING = (
    "v0.6.6",
    "main-3f2a91c",
    "nightly-20261101",
    "24.10-py3",
    "v1.0-stable",
    "maintenance",
    "12.4-devel",
)
CASES = [
    ("GPU001", pod(limits="cpu: 1") + "---\n" + pod(limits="nvidia.com/gpu: 1"), 0),
    ("GPU001", pod("resources: {requests: {nvidia.com/gpu: 1}}", limits=""), 1),
    (
        "GPU001",
        pod("resources: {requests: {nvidia.com/gpu: '1'}, limits: {nvidia.com/gpu: 1}}", limits=""),
        0,
    ),
    ("GPU001", pod("resources: {requests: {amd.com/gpu: 1}, limits: {amd.com/gpu: 2}}", limits=""), 1),
    ("GPU002", pod(limits="nvidia.com/gpu: 1000m"), 0),
    ("GPU002", pod(limits="nvidia.com/gpu: '-1'"), 1),
    ("GPU002", pod(limits="nvidia.com/gpu: many"), 1),
    ("GPU002", pod(limits="nvidia.com/gpu: $GPU_PER_NODE"), 0),
    ("GPU002", pod(limits="nvidia.com/gpu: __SLOTS__"), 0),
    ("GPU002", pod(limits="nvidia.com/gpu: __slots"), 1),
    ("GPU002", pod(limits="nvidia.com/gpu:"), 1),
    ("GPU002", pod(limits="nvidia.com/gpu: 0"), 0),
    (
        "GPU003",
        pod("image: nvidia/cuda:12.3.2-base\nenv: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]", limits=""),
        0,
    ),
    ("GPU003", pod("image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0", limits=""), 0),
    ("GPU003", pod("image: nvidia/cuda:12.3.2-base", "resourceClaims: [{name: gpu}]", limits=""), 0),
    ("GPU003", KSERVE % ("ServingRuntime", "containers: [{name: c, image: 'vllm/vllm-openai:v1'}]"), 0),
    ("GPU003", KSERVE % ("InferenceService", "predictor: {containers: [{image: 'nvidia/cuda:12'}]}"), 1),
    ("GPU004", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), 0),
    ("GPU005", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), 1),
    ("GPU004", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: '0,1'}]"), 0),
    ("GPU005", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: '0,1'}]"), 1),
    ("GPU005", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]"), 0),
    ("GPU005", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]", limits="amd.com/gpu: 1"), 0),
    ("GPU004", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]", limits=""), 0),
    ("GPU004", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: GPU-1}]", limits=""), 1),
    ("GPU004", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]", PLUGIN, limits=""), 0),
    ("GPU004", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]", limits="amd.com/gpu: 1"), 1),
    (
        "GPU004",
        pod("env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {fieldRef: {fieldPath: a}}}]", limits=""),
        1,
    ),
    ("GPU004", pod("env: [{name: NVIDIA_MIG_CONFIG_DEVICES, value: all}]"), 1),
    ("GPU004", pod("env: [{name: AMD_VISIBLE_DEVICES, value: '0'}]", limits="amd.com/gpu: 1"), 1),
    ("GPU004", pod("env: [{name: AMD_VISIBLE_DEVICES, value: void}]", limits="amd.com/gpu: 1"), 0),
    ("GPU005", pod("env: [{name: CUDA_VISIBLE_DEVICES, value: ''}]"), 0),
    ("GPU005", pod("env: [{name: CUDA_VISIBLE_DEVICES, valueFrom: {fieldRef: {fieldPath: a}}}]"), 0),
    ("GPU005", pod("env: [{name: HIP_VISIBLE_DEVICES, value: '0'}]", limits="amd.com/gpu: 1"), 1),
    ("GPU006", pod("securityContext: {privileged: true}", limits=""), 0),
    ("GPU006", pod("securityContext: {privileged: true}", PLUGIN), 0),
    (
        "GPU007",
        pod(MOUNT % "/v", "volumes: [{name: v, hostPath: {path: /dev/dri/renderD128}}]", limits=""),
        1,
    ),
    ("GPU007", pod(MOUNT % "/v", "volumes: [{name: v, hostPath: {path: /dev/shm}}]"), 0),
    (
        "GPU007",
        pod(MOUNT % "/v", "volumes: [{name: v, hostPath: {path: /dev/nvidia-caps-imex-channels}}]"),
        0,
    ),
    ("GPU007", pod(MOUNT % "/v", "volumes: [{name: v, hostPath: {path: /dev/nvidia-caps}}]"), 1),
    ("GPU008", pod("env: [{name: CUDA_MPS_PIPE_DIRECTORY, value: /m}]", "hostIPC: true"), 0),
    ("GPU011", pod("image: registry:5000/nvidia/cuda"), 1),
    ("GPU011", pod("image: nvidia/cuda@sha256:0123"), 0),
    *(("GPU011", pod(f"image: a/b:{tag}"), 1) for tag in MOVING),
    *(("GPU011", pod(f"image: a/b:{tag}"), 0) for tag in STAYING),
    ("GPU011", pod("image: a/b:nightly@sha256:0123"), 0),
    ("GPU011", pod("image: busybox", limits=""), 0),
    ("GPU011", pod("image: <YOUR_IMAGE>"), 0),
    ("GPU011", pod("image: eu.gcr.io/<PROJECT>/train"), 1),
    ("GPU017", pod(spec="tolerations: [{operator: Exists}]", limits=""), 0),
    ("GPU017", pod(spec="tolerations: [{key: gpu, value: 'true'}]", limits=""), 1),
    ("GPU017", deployment("{tolerations: [{key: nvidia.com/gpu}], containers: [{name: a}]}"), 1),
    (
        "GPU017",
        deployment("{tolerations: [{key: nvidia.com/gpu}], containers: [{name: a}]}").replace(
            "Deployment", "DaemonSet"
        ),
        0,
    ),
    ("GPU020", pod(spec="nodeSelector: {accelerator: nvidia-a100}"), 0),
    ("GPU020", pod(spec="nodeSelector: {accelerator: nvidia}"), 1),
    ("GPU021", pod(limits="nvidia.com/gpu: 2", spec="hostIPC: true"), 0),
    ("GPU021", pod("args: [--num-workers=8]"), 1),
    ("GPU021", RAY % f"{{name: ray, {TWO_GPUS}}}", 0),
    ("GPU021", RAY % f"{{name: ray}}, {{name: beside, {TWO_GPUS}}}", 1),
    ("GPU021", pod(IDLE % "sleep 86400", limits="nvidia.com/gpu: 2"), 0),
    ("GPU021", pod(IDLE % "'nvidia-smi; python3 train.py; sleep 60'", limits="nvidia.com/gpu: 2"), 1),
    ("GPU021", pod("image: ubuntu:22.04", limits="nvidia.com/gpu: 2"), 1),
    ("GPU021", pod("image: trainer:1\ncommand: [sleep, '9']", limits="nvidia.com/gpu: 2"), 1),
    ("GPU021", KSERVE % ("InferenceService", f"predictor: {{containers: [{{name: c, {TWO_GPUS}}}]}}"), 1),
    ("GPU021", KSERVE % ("InferenceService", f"predictor: {{model: {{{TWO_GPUS}}}}}"), 0),
    ("GPU021", pod(MOUNT % f"{PLACE}/", MEMORY % "1Gi", GPUS), 0),
    ("GPU022", pod(MOUNT % "/x", MEMORY % "4Gi", GPUS), 0),
    ("GPU022", pod(MOUNT % "/x", MEMORY % "5Gi", GPUS), 1),
    ("GPU025", pod("command: [sh, -c, 'torchrun --nproc_per_node 2 x.py']"), 1),
    ("GPU025", pod("command: [torchrun, --nproc-per-node=gpu, x.py]"), 0),
    ("GPU025", pod("command: [sh, -c, 'CUDA_VISIBLE_DEVICES=0 torchrun --nproc-per-node 2 x.py']"), 0),
    ("GPU025", served("sglang", "--tp-size=16 --nnodes=2", 8), 0),
    ("GPU025", served("sglang", "--tp 16 --nnodes 4", 8), 1),
    ("GPU025", served("sglang", "--tp 8 --dp 8 --enable-dp-attention", 8), 0),
    ("GPU025", served("sglang", "--tp 16 --dp-size 16 --enable-dp-attention --nnodes 2", 8), 0),
    ("GPU025", served("sglang", "--tp 4 --dp 4 --enable-dp-attention", 8), 1),
    ("GPU025", served("sglang", "--tp 4 --dp 2", 8), 0),
    ("GPU025", served("sglang", "--tp 8 --dp 2", 8), 1),
    ("GPU025", served("vllm", "--data-parallel-size=16 --data-parallel-size-local=8", 8), 0),
    ("GPU025", served("vllm", "-tp 2 -dp 16 -dpl 4", 8), 0),
    ("GPU025", served("vllm", "--data-parallel-size 16 --data-parallel-size-local 4", 8), 1),
    ("GPU025", served("vllm", "--tensor-parallel-size=8 -dp 4 --data-parallel-rank 1", 8), 0),
    ("GPU025", served("vllm", "-tp 16 --nnodes 2 --node-rank 1", 8), 0),
    ("GPU025", served("vllm", "-tp 8 -pp 2 --distributed-executor-backend ray", 8), 0),
    ("GPU025", served("vllm", "-tp $(WIDTH) -pp 2", 8), 0),
    ("GPU025", served("vllm", "-tp $(WIDTH)", 8, "env: [{name: WIDTH, value: '4'}]"), 1),
    (
        "GPU025",
        pod("command: [sh, -c, 'vllm serve a -tp 1 & vllm serve b -tp 1']", limits="nvidia.com/gpu: 2"),
        0,
    ),
    ("GPU025", pod("image: a:1\ncommand: [vllm, serve, a, -tp, '2']", limits="nvidia.com/gpu: 4"), 1),
    ("GPU025", served("text-generation-inference", "--num-shard 4", 2), 1),
    ("GPU025", launched("accelerate launch --num_processes 8 x.py", 4), 1),
    ("GPU025", launched("accelerate launch --num_processes=8 --num_machines=2 x.py", 4), 0),
    ("GPU025", launched("accelerate launch --num_processes 8 --config_file f.yaml x.py", 4), 0),
    # The eighth GPU is vLLM's, which serves what the training asks.
    ("GPU025", launched("accelerate launch --num_processes 7 x.py --use_vllm", 8), 0),
    ("GPU025", launched("deepspeed --num_gpus 8 x.py", 4), 1),
    ("GPU025", launched("deepspeed --num_gpus 8 --num_nodes 2 x.py", 8), 0),
    ("GPU025", launched("deepspeed --include localhost:0,1 x.py", 4), 0),
    # Ranks of MPI may share a GPU, as those of LAMMPS do.
    ("GPU025", launched("mpirun -np 8 lmp -sf gpu", 1), 0),
    ("GPU025", launched("trtllm-serve org/model --tp_size 4", 2), 1),
    ("GPU025", launched("trtllm-serve org/model --tp_size 2", 2), 0),
    ("GPU025", launched("mpirun -np 16 trtllm-llmapi-launch trtllm-serve org/model --tp_size 16", 8), 0),
    ("GPU025", launched("trtllm-serve org/model --tp_size 4 --extra_llm_api_options f.yaml", 2), 0),
    ("GPU023", LIMITED % ("", INDEXED + SHARDS), 0),
    ("GPU023", (LIMITED % ("", INDEXED)).replace("[{name: c,", MASTER), 1),
    ("GPU023", (LIMITED % ("", INDEXED)).replace("{containers", "{subdomain: a, containers"), 1),
    ("GPU023", (LIMITED % ("", INDEXED + RETRIED)).replace("{containers", "{subdomain: a, containers"), 0),
    ("GPU023", (LIMITED % ("", INDEXED)).replace("[{name: c,", TORCHRUN), 1),
    ("GPU023", (LIMITED % ("", INDEXED)).replace("[{name: c,", ITS_OWN_NODE), 0),
    *(
        ("GPU023", indexed_with(command), found)
        for command, found in (
            ("torchrun --standalone --nproc-per-node=8 x.py", 0),
            ("torchrun --standalone --nnodes=1 --rdzv-endpoint=localhost:0 x.py", 0),
            ("torchrun --nproc-per-node=8 x.py", 0),
            ("torchrun --nnodes=1 --master-port 29500 x.py", 0),
            ("torchrun --nnodes=1:4 --rdzv-backend=c10d x.py", 0),
            ("torchrun --nnodes=2:4 --rdzv-endpoint=a-0.a:29400 x.py", 1),
            ("torchrun --nnodes $NODES x.py", 1),
            ("deepspeed --num_gpus 8 x.py", 0),
            ("deepspeed --hostfile /etc/mpi/hostfile x.py", 1),
            ("mpirun -np 8 ./x", 0),
            ("mpirun -np 16 -H a-0.a,a-1.a ./x", 1),
            ("accelerate launch --num_machines 1 x.py", 0),
            ("accelerate launch --num_machines 2 --main_process_ip a-0.a x.py", 1),
            ("ray start --address=a-0.a:6379", 1),
        )
    ),
    ("GPU023", (LIMITED % ("", INDEXED)).replace("[{name: c,", "[{name: c, command: [infer.py],"), 0),
    ("GPU021", pod("image: registry.k8s.io/pause:3.10", limits="nvidia.com/gpu: 8"), 0),
    ("GPU021", pod("image: oguzpastirmaci/gpu-burn:1", limits="nvidia.com/gpu: 8"), 0),
    ("GPU021", pod("image: example.org/pausedtrainer:1", limits="nvidia.com/gpu: 8"), 1),
    ("GPU021", pod("image: nvidia/cuda:12.4.1-base-ubuntu22.04\ncommand: [nvidia-smi]", limits=TWO), 0),
    ("GPU021", pod("image: nvidia/cuda:12.4.1-base-ubuntu22.04\ncommand: [sleep, '9']", limits=TWO), 1),
    ("GPU021", pod(INLINE % "import torch\\nimport os, time\\ntorch.ones(1).to('cuda:1')", limits=TWO), 0),
    ("GPU021", pod(INLINE % "import torch\\nfrom torch import distributed", limits=TWO), 1),
    ("GPU021", pod(INLINE % "import torch\\nimport trainer", limits=TWO), 1),
    ("GPU021", pod(INLINE % "exec(open('/train').read())", limits=TWO), 1),
    ("GPU021", TWO_TEMPLATE, 0),
    ("GPU021", deployment(TWO_SERVER, replicas=0), 0),
    ("GPU021", deployment(TWO_SERVER, replicas=0) + SCALED % "minReplicaCount: 0", 1),
    ("GPU021", deployment(TWO_SERVER, replicas=1), 1),
    (
        "GPU021",
        KSERVE
        % ("InferenceService", f"predictor: {{minReplicas: 0, containers: [{{name: c, {TWO_GPUS}}}]}}"),
        1,
    ),
    ("GPU025", pod("image: vllm/vllm-openai:v1\nargs: [-tp, '2', -pp, '2']", limits="nvidia.com/gpu: 4"), 0),
    ("GPU031", deployment(SERVER, replicas=1), 1),
    ("GPU031", deployment(SERVER, replicas=1) + BUDGET % "maxUnavailable: 1", 0),
    (
        "GPU031",
        deployment(SERVER, replicas=1) + (BUDGET % "maxUnavailable: 1").replace("app: a", "app: b"),
        1,
    ),
    ("GPU031", deployment(SERVER, replicas=2), 0),
    ("GPU031", deployment(SERVER.replace("x:1", "quay.io/jupyter/base-notebook:1"), replicas=1), 0),
    ("GPU031", deployment(SERVER.replace("name: c", "name: tf-notebook"), replicas=1), 0),
    ("GPU031", deployment(SERVER.replace("ports:", "args: [start-notebook.py], ports:"), replicas=1), 0),
    ("GPU028", SCALER % ("v2beta1", "metricName: a|accelerator|duty_cycle"), 1),
    ("GPU028", SCALER % ("v2", "metric: {name: gpu_utilization_percent}"), 1),
    ("GPU028", SCALER % ("v2", "metric: {name: vllm_num_requests_waiting}"), 0),
    ("GPU032", deployment(SERVER, replicas=3) + BUDGET % "minAvailable: 2", 0),
    ("GPU032", deployment(SERVER, replicas=3) + BUDGET % "maxUnavailable: 0%", 1),
    ("GPU023", ELASTIC % 1, 0),
    ("GPU023", ELASTIC % 2, 1),
    ("GPU030", deployment(SERVER) + SCALED % "minReplicaCount: 0", 0),
    ("GPU030", deployment(SERVER) + SCALED % "minReplicaCount: 0, cooldownPeriod: 299", 1),
    ("GPU030", deployment(SERVER) + SCALED % "minReplicaCount: 1, idleReplicaCount: 0, cooldownPeriod: 9", 1),
    ("GPU030", deployment(SERVER) + SCALED % "minReplicaCount: 1, cooldownPeriod: 9", 0),
    ("GPU034", pod(spec="nodeSelector: {cloud.google.com/gke-spot: 'true'}"), 1),
    ("GPU034", pod(spec="nodeSelector: {cloud.google.com/gke-spot: 'false'}"), 0),
    ("GPU041", pod("image: vllm/vllm-openai:v1", limits="gpufleet.io/gpu-share: 1"), 0),
    ("GPU047", pod(VLLM % 270), 0),
    ("GPU047", pod(VLLM % 269), 1),
    ("GPU036", pod().replace("priorityClassName: work", "priority: 5"), 0),
    ("GPU036", pod().replace("priorityClassName: work", "schedulerName: kai-scheduler"), 1),
    ("GPU036", pod().replace("  priorityClassName: work", "").replace("one\n", KAI_PRIORITY), 0),
    ("GPU036", PRIORITIES % ("batch.volcano.sh/v1alpha1", "Job", "tasks", "minAvailable: 1"), 1),
    ("GPU036", PRIORITIES % ("batch.volcano.sh/v1alpha1", "Job", "tasks", "priorityClassName: work"), 0),
    ("GPU037", LIMITED % ("a: b", "backoffLimit: 1, ttlSecondsAfterFinished: 60"), 1),
    (
        "GPU037",
        LIMITED
        % ("kueue.x-k8s.io/max-exec-time-seconds: '60'", "backoffLimit: 1, ttlSecondsAfterFinished: 60"),
        0,
    ),
    ("GPU045", pod(spec="initContainers: [{name: i, resources: {limits: {nvidia.com/gpu: 1}}}]"), 1),
    ("GPU052", pod("env: [{name: HF_TOKEN, value: $(TOKEN)}]"), 0),
    ("GPU052", pod("env: [{name: HF_TOKEN, value: $HF_TOKEN}]"), 0),
    ("GPU052", pod("env: [{name: HF_TOKEN, value: '{{ .Values.token }}'}]"), 0),
    ("GPU052", pod("env: [{name: HF_TOKEN, value: hf_abc}]"), 1),
    ("GPU052", pod(HUB % "vllm, serve, some/model"), 1),
    ("GPU052", pod(HUB % "'--model=$(MODEL)'" + "\nenv: [{name: MODEL, value: some/model}]"), 1),
    ("GPU052", pod(HUB % "'--model=$$(MODEL)'" + "\nenv: [{name: MODEL, value: some/model}]"), 0),
    ("GPU052", pod(HUB % "'--model=$(MODEL)'" + "\nenv: [{name: MODEL, value: /models/a}]"), 0),
    ("GPU052", pod(HUB % "vllm, serve, /models/some"), 0),
]


@pytest.mark.parametrize(("rule", "text", "count"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_an_edge(rule: str, text: str, count: int) -> None:
    assert len(findings_of(rule, text)) == count


def test_a_scaler_of_something_unknown_is_not_judged_and_not_passed() -> None:
    text = (
        "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n"
        "spec: {scaleTargetRef: {kind: Deployment, name: away}, targetCPUUtilizationPercentage: 70}\n"
    )
    report = report_of(text)
    assert [(one.rule.id, one.position.line) for one in report.unjudged] == [("GPU027", 4)]
    assert report.findings == ()


def test_what_is_put_in_for_a_placeholder_is_not_judged() -> None:
    report = report_of(pod(limits="nvidia.com/gpu: ${GPUS}"))
    assert [one.lacks for one in report.unjudged if one.rule.id == "GPU002"] == [
        "the value that is put in for ${GPUS}"
    ]


def test_what_kserve_completes_is_not_judged_for_what_may_be_added() -> None:
    text = KSERVE % ("LLMInferenceService", f"template: {{containers: [{{name: main, {TWO_GPUS}}}]}}")
    report = report_of(text)
    assert [one.rule.id for one in report.unjudged if "KServe" in one.lacks] == ["GPU021"]
    assert "GPU021" not in {one.rule.id for one in report.findings}


RDMA = "nvidia.com/gpu: 8\nrdma/hca: 1"
SERVER = "image: vllm/vllm-openai:v0.9.1"
SHARED_CARD = pod(f"{SERVER}\nsecurityContext: {{privileged: true}}", limits=RDMA)


def test_a_privilege_of_rdma_becomes_the_capability_that_it_needs() -> None:
    assert fixed(SHARED_CARD, "GPU006") == SHARED_CARD.replace(
        "{privileged: true}", "{privileged: false, capabilities: {add: [IPC_LOCK]}}"
    )


@pytest.mark.parametrize(
    ("path", "where", "severity"),
    [
        ("/sys/kernel/debug", "/sys/kernel/debug", Severity.WARNING),
        ("/proc", "/host/proc", Severity.WARNING),
        ("/var/log", "/var/log", Severity.WARNING),
    ],
)
def test_a_tracer_beside_the_container_with_the_gpu_is_warned_of_and_kept(
    path: str, where: str, severity: Severity
) -> None:
    tracer = (
        f"{{name: t, securityContext: {{privileged: true}}, volumeMounts: [{{name: h, mountPath: {where}}}]}}"
    )
    volumes = f"volumes: [{{name: h, hostPath: {{path: {path}}}}}]"
    text = pod(spec=f"initContainers: [{tracer}]\n{volumes}")
    found = [one for one in report_of(text).findings if one.rule.id == "GPU006"]
    assert [one.severity for one in found] == [severity]
    assert [one.fix for one in found] == [None]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("nvidia.com/a100", Severity.WARNING),
        ("nvidia.com/rtx4090", Severity.WARNING),
        ("nvidia.com/gpus", Severity.WARNING),
        ("amd.com/mi300x", Severity.WARNING),
        ("a100", Severity.ERROR),
    ],
)
def test_a_kind_of_card_is_a_resource_where_a_device_plugin_was_told_to(
    name: str, severity: Severity
) -> None:
    found = [one for one in report_of(pod(limits=f"{name}: 1")).findings if one.rule.id == "GPU053"]
    assert [one.severity for one in found] == [severity]
    assert [one.fix is None for one in found] == [name in {"nvidia.com/a100", "nvidia.com/rtx4090"}]


@pytest.mark.parametrize(
    ("least", "says"),
    [(2, "no fewer than 2 of its pods start"), (4, "its pods start only together")],
)
def test_of_an_elastic_job_is_told_how_many_pods_start_together(least: int, says: str) -> None:
    assert findings_of("GPU023", ELASTIC % least) == [
        f"{says}, and nothing that is read here places them together"
    ]


def test_capabilities_are_kept_beside_the_one_of_rdma() -> None:
    has = SHARED_CARD.replace("{privileged: true}", "{privileged: true, capabilities: {add: [SYS_NICE]}}")
    assert "capabilities: {add: [SYS_NICE, IPC_LOCK]}}" in fixed(has, "GPU006")


@pytest.mark.parametrize(
    ("container", "limits", "is_mended"),
    [
        (SERVER, "nvidia.com/gpu: 8", True),
        (SERVER, RDMA, True),
        (f"{SERVER}\nenv: [{{name: NCCL_IB_HCA, value: mlx5}}]", RDMA, True),
        ("image: trainer:1\ncommand: [./train.sh]", "nvidia.com/gpu: 8", False),
        ("image: trainer:1\ncommand: [./train.sh]", RDMA, False),
        (f"{SERVER}\nlifecycle: {{postStart: {{exec: {{command: [./a]}}}}}}", RDMA, False),
    ],
)
def test_privileges_are_dropped_only_where_nothing_that_runs_can_need_them(
    container: str, limits: str, is_mended: bool
) -> None:
    text = pod(f"securityContext: {{privileged: true}}\n{container}", limits=limits)
    assert findings_of("GPU006", text)
    assert (fixed(text, "GPU006") != text) is is_mended
    assert bool(findings_of("GPU006", fixed(text, "GPU006"))) is not is_mended


@pytest.mark.parametrize(
    ("container", "spec"),
    [
        ("env: [{name: NCCL_IB_HCA, value: mlx5}]", ""),
        ("", "volumes: [{name: ib, hostPath: {path: /dev/infiniband}}]"),
    ],
)
def test_a_privilege_by_which_a_card_of_rdma_is_opened_is_told_and_kept(container: str, spec: str) -> None:
    text = pod(f"securityContext: {{privileged: true}}\n{container}", spec, "nvidia.com/gpu: 8")
    assert findings_of("GPU006", text)
    assert fixed(text, "GPU006") == text


def test_what_is_fixed_in_one_document_leaves_the_others() -> None:
    good = pod("image: a:1  # kept as it is")
    bad = pod(f"{SERVER}\nsecurityContext: {{privileged: true, runAsUser: 0}}")
    after = fixed(f"{good}---\n{bad}---\n{good}")
    mended = pod(f"{SERVER}\nsecurityContext: {{runAsUser: 0}}")
    assert after == f"{good}---\n{mended}---\n{good}"
