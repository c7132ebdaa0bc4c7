"""The table of what guides to GPUs on Kubernetes teach: each file of `examples/guides`, and what comes of it.

An entry says what lint finds in the file without a cluster, what the API server with our policies answers,
and what becomes of the file on simulated nodes and on a real one. The tests beside it take each entry through
that.
"""

from dataclasses import dataclass

TEAM = "team-a"
"""A managed namespace with Pod Security `baseline`, for what holds for a whole namespace."""

PRIORITY = "GPU036"
"""Nothing says how urgent the work is: true of nearly every manifest of a guide."""


@dataclass(frozen=True)
class Runs:
    """So many pods of this name, or with it as the beginning of theirs, run on nodes with this prefix."""

    pod: str
    count: int = 1
    node: str = ""


@dataclass(frozen=True)
class Waits:
    """The pod waits, and `gpufleet explain` gives this cause with these words and this first way out."""

    pod: str
    cause: str
    why: str
    way_out: str


@dataclass(frozen=True)
class Refused:
    """The API server refuses it in these words."""

    words: str


@dataclass(frozen=True)
class Accepted:
    """The API server takes it; what it does then has a test of its own, or nothing is to be seen of it."""


@dataclass(frozen=True)
class NoObject:
    """A file that is not for the API server."""


Outcome = Runs | Waits | Refused | Accepted | NoObject


@dataclass(frozen=True)
class Entry:
    """A file, the line of the guides that it shows, and what comes of it.

    ``real`` is the outcome on a real node with two GPUs, None where it does not differ from that on simulated
    nodes and a container would show nothing more.
    """

    file: str
    teaches: str
    lint: tuple[str, ...]
    simulated: Outcome
    real: Outcome | None = None
    namespace: str = "default"


ENTRIES = (
    Entry(
        "pod-one-gpu.yaml",
        "one GPU in limits, requests absent, a pinned image",
        (PRIORITY,),
        Runs("cuda-vector-add"),
        real=Runs("cuda-vector-add"),
    ),
    Entry(
        "pod-requests-and-limits.yaml",
        "requests equal to limits",
        ("GPU021", PRIORITY),
        Runs("train-once", node="a100-"),
    ),
    Entry(
        "pod-runtime-class.yaml",
        "runtimeClassName nvidia, NVIDIA_VISIBLE_DEVICES=all beside a limit",
        ("GPU005", PRIORITY),
        Runs("gpu-test"),
        real=Runs("gpu-test"),
    ),
    Entry(
        "pod-sees-all-gpus.yaml",
        "NVIDIA_VISIBLE_DEVICES=all in place of a limit",
        ("GPU003", "GPU004"),
        Refused("names devices by NVIDIA_VISIBLE_DEVICES and asks for no GPU: ask for it in resources"),
    ),
    Entry(
        "pod-with-host-devices.yaml",
        "no privileged pods, no hostPath /dev/nvidia*, Pod Security baseline",
        ("GPU003", "GPU006", "GPU007"),
        Refused('violates PodSecurity "baseline:latest": hostPath volumes (volume "gpu"), privileged'),
        namespace=TEAM,
    ),
    Entry(
        "pod-tolerates-true.yaml",
        "taint nvidia.com/gpu=true:NoSchedule, toleration with Equal",
        (PRIORITY,),
        Runs("tolerates-true", node="true-"),
        real=Runs("tolerates-true"),
    ),
    Entry(
        "pod-tolerates-present.yaml",
        "taint nvidia.com/gpu=present:NoSchedule, toleration with Exists",
        (PRIORITY,),
        Runs("tolerates-present", node="present-"),
        real=Runs("tolerates-present"),
    ),
    Entry(
        "pod-tolerates-gpu.yaml",
        "taint gpu=true:NoSchedule, toleration with Equal",
        (PRIORITY,),
        Runs("tolerates-gpu", node="word-"),
        real=Runs("tolerates-gpu"),
    ),
    Entry(
        "pod-without-toleration.yaml",
        "a taint keeps others out",
        (PRIORITY,),
        Waits(
            "without-toleration",
            "taint",
            "1 node would do, but for a taint that it does not tolerate: gpu=true:NoSchedule",
            'add to its tolerations: {key: gpu, operator: Equal, value: "true", effect: NoSchedule}',
        ),
        real=Waits(
            "without-toleration",
            "taint",
            "1 node would do, but for a taint that it does not tolerate: gpu=true:NoSchedule",
            'add to its tolerations: {key: gpu, operator: Equal, value: "true", effect: NoSchedule}',
        ),
    ),
    Entry(
        "pod-by-label.yaml",
        "labels of one's own: accelerator, gpu-memory, gpu-type, node-type",
        (PRIORITY,),
        Runs("by-label", node="a100-"),
        real=Runs("by-label"),
    ),
    Entry(
        "pod-by-product.yaml",
        "affinity to nvidia.com/gpu.product",
        (PRIORITY,),
        Runs("by-product", node="a100-"),
    ),
    Entry(
        "pod-label-that-matches-nothing.yaml",
        "pitfall: labels that match nothing",
        (PRIORITY,),
        Waits(
            "label-that-matches-nothing",
            "selector",
            "no node has nvidia.com/gpu.product In [H100-80GB]",
            "nodes have nvidia.com/gpu.product as NVIDIA-A100-SXM4-80GB and Tesla-T4",
        ),
    ),
    Entry(
        "pod-amd.yaml",
        "amd.com/gpu",
        (PRIORITY,),
        Runs("rocm", node="amd-"),
    ),
    Entry(
        "pod-intel.yaml",
        "gpu.intel.com/xe",
        (PRIORITY,),
        Runs("intel", node="intel-"),
    ),
    Entry(
        "pod-mig.yaml",
        "nvidia.com/mig-1g.10gb on a node with the mixed strategy",
        (PRIORITY,),
        Runs("mig-small", node="mig-"),
        real=Runs("mig-small"),
    ),
    Entry(
        "pod-mig-not-cut.yaml",
        "MIG is static for each node",
        (PRIORITY,),
        Waits(
            "mig-not-cut",
            "unknown-resource",
            "no node offers nvidia.com/mig-3g.40gb",
            "no GPU is split into MIG instances of this profile; ask for a whole GPU or a fraction",
        ),
        real=Waits(
            "mig-not-cut",
            "unknown-resource",
            "no node offers nvidia.com/mig-3g.40gb",
            "no GPU is split into MIG instances of this profile; ask for a whole GPU or a fraction",
        ),
    ),
    Entry(
        "pod-one-numa-node.yaml",
        "Topology Manager with the policy single-numa-node",
        (PRIORITY,),
        Runs("one-numa-node", node="a100-"),
    ),
    Entry(
        "time-slicing.yaml",
        "the device plugin's ConfigMap, version: v1: two GPUs advertise eight",
        ("GPU040",),
        Accepted(),
        real=Accepted(),
        namespace="",
    ),
    Entry(
        "notebook.yaml",
        "notebooks on shared GPUs",
        (PRIORITY,),
        Waits(
            "notebook-0",
            "unknown-resource",
            "no node offers nvidia.com/gpu.shared",
            "share GPUs under this name: timeSlicing with renameByDefault: true in the plugin's ConfigMap",
        ),
    ),
    Entry(
        "deployment-inference.yaml",
        "PriorityClass inference-critical, a Deployment and its Service",
        ("GPU052",),
        Runs("llm-", count=2, node="a100-"),
        real=Runs("llm-", count=2),
    ),
    Entry(
        "disruption-budget.yaml",
        "PodDisruptionBudgets before a drain",
        (),
        Accepted(),
    ),
    Entry(
        "job-of-gpus.yaml",
        "batch inference on shared GPUs",
        (PRIORITY, "GPU037"),
        Runs("batch-inference-", count=4, node="a100-"),
        real=Runs("batch-inference-", count=4),
    ),
    Entry(
        "gang-kueue.yaml",
        "gangs by Kueue",
        (PRIORITY,),
        Runs("worker-", count=2, node="a100-"),
    ),
    Entry(
        "gang-volcano.yaml",
        "gangs by Volcano",
        (PRIORITY,),
        Waits(
            "for-volcano",
            "foreign",
            "it is not ours: its schedulerName is volcano",
            "make it anew with schedulerName: gpufleet",
        ),
    ),
    Entry(
        "autoscaler.yaml",
        "HPA v2 on dcgm_gpu_utilization, average 70, from 1 to 10",
        ("GPU028",),
        Accepted(),
    ),
    Entry(
        "alert-underutilised.yaml",
        "alert GPUUnderutilised: under 10% for 30 minutes",
        (),
        Accepted(),
    ),
    Entry(
        "queries.promql",
        "DCGM_FI_DEV_GPU_UTIL and the other fields, by pod and by instance",
        (),
        NoObject(),
    ),
    Entry(
        "quota.yaml",
        "ResourceQuota of requests.nvidia.com/gpu",
        (),
        Accepted(),
        namespace=TEAM,
    ),
    Entry(
        "quota-that-counts-nothing.yaml",
        "ResourceQuota of limits.nvidia.com/gpu",
        ("GPU051",),
        Accepted(),
        namespace="counts-nothing",
    ),
    Entry(
        "limit-range.yaml",
        "LimitRange with a default and a maximum",
        (),
        Accepted(),
        namespace="bounded",
    ),
    Entry(
        "limit-range-that-gives-gpus.yaml",
        "LimitRange with a maximum alone",
        ("GPU051",),
        Accepted(),
        namespace="given",
    ),
    Entry(
        "model-volume.yaml",
        "PersistentVolumeClaims for models, /dev/shm in memory",
        (PRIORITY,),
        Runs("with-models", node="a100-"),
    ),
    Entry(
        "network-policy.yaml",
        "NetworkPolicies between tenants",
        (),
        Accepted(),
        namespace=TEAM,
    ),
)
"""Every file of `examples/guides`, in the order of the page that shows them."""
