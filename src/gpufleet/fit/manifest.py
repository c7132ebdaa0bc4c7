"""The manifests that run a model as the answer says: vLLM on nodes with that card, on one or on several.

On one node it is a Deployment, on several a LeaderWorkerSet with pods that start and end together: one is
asked, the others only compute. Beside it a claim that keeps the weights over restarts, and the service by
which it is called. They say what people forget: shared memory for tensor parallel, a start-up probe that
waits for the weights, memory to load them through, the toleration and the label of the nodes, and no rollout
that needs GPUs twice. What the answer cannot know (a storage class, a priority, the token of the hub) is left
to the cluster; ``TO_FILL_IN`` names it.
"""

import math
import re
from typing import Any

from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.ranges import GIB
from gpufleet.fit.weights import total_bytes
from gpufleet.kube.keys import APPLICATION
from gpufleet.kube.meanings.node_labels import NVIDIA_PRODUCT
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import NVIDIA_GPU

# A release of each engine's behaviour; ``latest`` would change under the answer.
IMAGES = {
    "vllm": "vllm/vllm-openai:v0.19.0",
    "vllm-0.21": "vllm/vllm-openai:v0.21.0",
    "vllm-0.16": "vllm/vllm-openai:v0.16.0",
    "vllm-0.10": "vllm/vllm-openai:v0.10.2",
}
LOADED_GIB_PER_S = 0.2
"""A slow disk or network; the probe waits at least so long."""

# As often as the kubelet probes by default.
PROBE_PERIOD_S = 10
START_S = 300
"""Beside loading the weights: imports, compilation, recorded graphs."""

PORT = 8000
"""vLLM's default."""

GROUP = "leaderworkerset.sigs.k8s.io"
"""What the labels begin with that the controller gives the pods of a group."""

# Beside the weights, on disk and in memory: what the server itself needs.
HELD_GIB = 8
# What NCCL and the workers of one pod may put into /dev/shm; it counts within the memory limit.
SHARED_GIB = 16


# What no answer can know of a cluster is said beside the manifest.
TO_FILL_IN = (
    "The claim takes the cluster's usual storage class; name another where that one is slow or has no room.",
    "No priority is named, because each cluster has its own: set priorityClassName.",
    "The token of the hub is read from the secret hf-token, key token, if there is one.",
)
TO_FILL_IN_FOR_SEVERAL_NODES = (
    "All pods read one claim, so its storage class has to offer ReadWriteMany.",
    "LeaderWorkerSet is an extension (leaderworkerset.x-k8s.io); the cluster has to have its controller.",
)


def manifests(model: Model, serving: Serving, card: CardEntry, found: CardFit) -> list[dict[str, Any]]:
    """The objects, the workload last; raises InputError where the answer is no yes, or nothing that vLLM
    runs.
    """
    _refuse(model, serving, card, found)
    name = re.sub(r"[^a-z0-9]+", "-", model.facts.name.lower()).strip("-")[:50]
    nodes = nodes_of(card, found)
    objects = [_claim(name, model, serving, is_shared=nodes > 1), _service(name, is_group=nodes > 1)]
    if nodes > 1:
        return [*objects, _group(name, model, serving, card, found, nodes)]
    return [*objects, _budget(name), _deployment(name, model, serving, card, found)]


def nodes_of(card: CardEntry, found: CardFit) -> int:
    """Among how many nodes the GPUs are dealt, as many on each; a stage stays on one."""
    a_node = max(1, card.gpus_per_node_max // found.tensor_parallel)
    stages = found.pipeline_parallel
    return stages // max(count for count in range(1, min(a_node, stages) + 1) if stages % count == 0)


def _labels(name: str) -> dict[str, str]:
    return {APPLICATION: name}


def _claim(name: str, model: Model, serving: Serving, *, is_shared: bool) -> dict[str, Any]:
    weights_gib = math.ceil(total_bytes(model.facts, serving.form) / GIB)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-weights", "labels": _labels(name)},
        "spec": {
            "accessModes": ["ReadWriteMany" if is_shared else "ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{weights_gib + HELD_GIB}Gi"}},
        },
    }


def _service(name: str, *, is_group: bool) -> dict[str, Any]:
    leader = {f"{GROUP}/name": name, f"{GROUP}/worker-index": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        # The controller of groups makes one of the group's own name, without an address.
        "metadata": {"name": f"{name}-leader" if is_group else name, "labels": _labels(name)},
        "spec": {
            "selector": leader if is_group else _labels(name),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }


def _budget(name: str) -> dict[str, Any]:
    """One pod at a time may be drained: with one replica that lets a drain go on, with more it keeps the
    others.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}},
    }


def _deployment(name: str, model: Model, serving: Serving, card: CardEntry, found: CardFit) -> dict[str, Any]:
    spec = _pod(name, card, _container(model, serving, found, 1))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "replicas": 1,
            # A rollout that starts the new pod first would need the GPUs twice.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _labels(name)},
            "template": {"metadata": {"labels": _labels(name)}, "spec": spec},
        },
    }


def _group(
    name: str, model: Model, serving: Serving, card: CardEntry, found: CardFit, nodes: int
) -> dict[str, Any]:
    def template(*, is_leader: bool) -> dict[str, Any]:
        container = _container(model, serving, found, nodes)
        container["args"] += joining(is_leader=is_leader)
        if not is_leader:
            # Only the leader is asked, and only it answers.
            for part in ("ports", "startupProbe", "readinessProbe"):
                del container[part]
        return {"metadata": {"labels": _labels(name)}, "spec": _pod(name, card, container)}

    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "replicas": 1,
            # A second group beside the first would need as many GPUs again.
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "leaderWorkerTemplate": {
                "size": nodes,
                # None of them is of use without the others.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template(is_leader=True),
                "workerTemplate": template(is_leader=False),
            },
        },
    }


def joining(*, is_leader: bool) -> list[str]:
    """How the pods of a group find each other; the controller of LeaderWorkerSet sets these variables."""
    said = [
        "--distributed-executor-backend=mp",
        "--nnodes=$(LWS_GROUP_SIZE)",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--master-addr=$(LWS_LEADER_ADDRESS)",
    ]
    return said if is_leader else [*said, "--headless"]


def _refuse(model: Model, serving: Serving, card: CardEntry, found: CardFit) -> None:
    problem = ""
    if found.verdict is not FitVerdict.YES:
        problem = f"it does not surely fit on {card.model}, so there is nothing to run"
    elif serving.engine.name not in IMAGES:
        problem = f"manifests are written for vLLM, not for {serving.engine.name}"
    elif card.mixture is not None:
        problem = "the GPUs of a pod are of one kind: name one card"
    elif serving.replicas > 1:
        problem = "manifests are written for one replica: leave out --dp"
    elif card.gpu.vendor is not Vendor.NVIDIA:
        problem = f"manifests are written for NVIDIA's cards, not for {card.model}"
    elif not model.hub:
        problem = "a model of this machine's files has no name that a cluster could fetch it by"
    elif serving.form.name not in {model.facts.native_format, "fp8"}:
        problem = f"weights in {serving.form.name} have to be published: vLLM itself makes only fp8"
    if problem:
        raise InputError(problem, field="--manifest")


def _container(model: Model, serving: Serving, found: CardFit, nodes: int) -> dict[str, Any]:
    weights_gib = math.ceil(total_bytes(model.facts, serving.form) / GIB)
    # Each node loads its own part of the weights alone.
    held_gib = math.ceil(weights_gib / nodes) + HELD_GIB
    gpus = found.gpus // nodes
    waits_s = START_S + weights_gib / LOADED_GIB_PER_S

    def probe(**more: int) -> dict[str, Any]:
        asked = {"path": "/health", "port": "http"}
        return {"httpGet": asked, "periodSeconds": PROBE_PERIOD_S, **more}

    return {
        "name": "vllm",
        "image": IMAGES[serving.engine.name],
        "args": arguments(model, serving, found),
        "env": [
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}},
            },
            {"name": "HF_HOME", "value": "/cache"},
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": probe(failureThreshold=math.ceil(waits_s / PROBE_PERIOD_S)),
        "readinessProbe": probe(),
        "resources": {
            "requests": {"cpu": str(2 + 2 * gpus), "memory": f"{held_gib}Gi"},
            "limits": {NVIDIA_GPU: str(gpus), "memory": f"{held_gib + SHARED_GIB}Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108  where programs look for it
            {"name": "cache", "mountPath": "/cache"},
        ],
    }


def _pod(name: str, card: CardEntry, container: dict[str, Any]) -> dict[str, Any]:
    chosen = {"key": NVIDIA_PRODUCT, "operator": "In", "values": list(card.gpu.labels)}
    return {
        "automountServiceAccountToken": False,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [chosen]}]
                }
            }
        },
        "tolerations": [{"key": NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{SHARED_GIB}Gi"}},
            {"name": "cache", "persistentVolumeClaim": {"claimName": f"{name}-weights"}},
        ],
    }


def arguments(model: Model, serving: Serving, found: CardFit) -> list[str]:
    """The arguments of vLLM's server that make it what was counted."""
    said = [
        f"--model={model.hub}",
        f"--max-model-len={serving.context}",
        f"--gpu-memory-utilization={serving.utilisation:g}",
    ]
    if found.tensor_parallel > 1:
        said.append(f"--tensor-parallel-size={found.tensor_parallel}")
    if found.pipeline_parallel > 1:
        said.append(f"--pipeline-parallel-size={found.pipeline_parallel}")
    if serving.whole_experts:
        said.append("--enable-expert-parallel")
    # Weights that are published so are found by the server itself.
    if serving.form.name != model.facts.native_format:
        said.append(f"--quantization={serving.form.name}")
    if serving.kv != "auto":
        said.append(f"--kv-cache-dtype={serving.kv}")
    if any("--dtype half" in remark for remark in found.remarks):
        said.append("--dtype=half")
    if serving.sequences_max:
        said.append(f"--max-num-seqs={serving.sequences_max}")
    if serving.batched_tokens:
        said.append(f"--max-num-batched-tokens={serving.batched_tokens}")
    return said
