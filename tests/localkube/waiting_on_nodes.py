"""Pods that wait for GPUs, nodes and what hosts have: a part of the table of `waiting_kinds`."""

from tests.localkube.waiting_pods import (
    FPGA,
    GPU,
    POOL,
    SHARE,
    Kind,
    large,
    pod,
    share,
)

PRODUCT = "nvidia.com/gpu.product"
NO_SLIP = ("did you mean",)
NO_RESERVATION = ("reservation",)

GPUS = (
    Kind(
        pod("gpu-busy", 1, "full"),
        "gpu-busy",
        told="of 20 nodes 1 with too few free GPUs",
        why="of the 2 GPUs of the 1 node that would do 0 are free; it needs 1",
        way_out="it fits on full-001 when default/holds-full (2 GPUs) ends",
    ),
    Kind(
        share("gpu-fragmented", "0.5", "pieces"),
        "gpu-fragmented",
        told="of 20 nodes 1 with enough free GPU in sum, but in pieces too small",
        why="the most that a GPU has left is 0.4",
        way_out="it fits on pieces-001 when default/holds-pieces-",
    ),
    Kind(
        pod("gpu-memory", {SHARE: "1"}, "two", annotations={"gpufleet.io/gpu-memory": "100Gi"}),
        "gpu-memory",
        told="of 20 nodes 1 short of GPU memory",
        why="it needs 102400 MiB of one GPU, and the largest have 81408 MiB",
        way_out="ask for at most 81408 MiB of one GPU",
    ),
    Kind(
        pod("gpu-count", 16),
        "gpu-count",
        told="of 20 nodes 1 with fewer GPUs than asked for",
        why="it asks for 16 GPUs on one node, and the largest have 2",
        way_out="ask for at most 2",
        doctor=("fits-nowhere",),
    ),
    Kind(
        pod("gpu-model", 1, annotations={"gpufleet.io/gpu-models": "A100"}),
        "gpu-model",
        told="of 20 nodes 1 without the GPU model asked for",
        why="no node has a GPU of the model A100-40GB and A100-80GB; the cluster has H100-80GB",
        way_out="ask for H100-80GB",
        never=NO_SLIP,
    ),
    Kind(
        pod("gpu-model-slip", 1, annotations={"nvidia.com/use-gputype": "H1000"}),
        "gpu-model",
        told="of 20 nodes 1 without the GPU model asked for",
        why="no node has a GPU of the model H1000",
        way_out="did you mean H100",
    ),
    Kind(
        pod("amd", {"amd.com/gpu": "1"}),
        "gpu-vendor",
        told="of 20 nodes 1 whose GPUs have another resource name",
        why="no node has GPUs that are asked for as amd.com/gpu",
        way_out="ask for nvidia.com/gpu",
        doctor=("fits-nowhere",),
    ),
    Kind(
        pod("gpu-apart", 2, "apart", annotations={"gpufleet.io/gpus-within": "link-group"}),
        "gpu-apart",
        told="of 20 nodes 1 without so many GPUs near each other",
        why="it asks for 2 GPUs on one fast link, and no node that would do has more than 1 there",
        way_out="leave gpufleet.io/gpus-within out",
    ),
    Kind(
        share("gpu-sharing", "0.5", "whole"),
        "gpu-sharing",
        told="of 20 nodes 1 whose GPUs do not serve this kind of request",
        why="the GPUs of whole-001 are given out whole only",
        way_out="give out parts of GPUs",
    ),
    Kind(
        share("no-agent", "0.5", "bare"),
        "no-agent",
        told="of 20 nodes 1 without gpufleet's agent, which gives out parts of GPUs",
        why="it asks for parts of GPUs, which gpufleet's agent gives out, and bare-001 has no agent",
        way_out="run gpufleet's agent there",
    ),
    Kind(
        pod("gpu-sick", 1, "sick"),
        "gpu-sick",
        told="of 20 nodes 1 with too few healthy GPUs",
        why="2 GPUs that it could use are not healthy",
        way_out="see to the GPU of sick-001",
    ),
    Kind(
        pod("gpu-unreported", 1, "silent", tolerations=[{"operator": "Exists"}]),
        "gpu-unreported",
        told="of 20 nodes 1 without a readable report of their GPUs",
        why="nothing tells which GPUs of silent-001 are free: there is no NodeDevices of that name",
        way_out="see whether gpufleet's agent runs there",
    ),
    Kind(
        pod("gpu-withheld", 1, "away"),
        "gpu-withheld",
        told="of 20 nodes 1 whose GPUs are given out neither whole nor in shares",
        why="the kubelet of away-001 counts no GPU, so the device plugin there is away",
        way_out="see whether gpufleet's agent runs there",
        doctor=("fits-nowhere",),
    ),
    Kind(
        pod("cuda-driver", 1, "aged", container={"image": "nvidia/cuda:13.0.1-base-ubuntu22.04"}),
        "cuda-driver",
        told="of 20 nodes 1 with a driver that is too old for the CUDA of the pod",
        why="it needs CUDA 13.0.1 (image nvidia/cuda:13.0.1-base-ubuntu22.04)",
        way_out="update the driver to 580.65.06 or newer",
    ),
)

NODES = (
    Kind(
        pod("rejects-pods", 1, "rejecting"),
        "rejects-pods",
        told="of 20 nodes 1 with a kubelet that turned pods away lately",
        why="the kubelet of rejecting-001 turned several pods away",
        way_out="see why in the Events of the pods that it turned away",
    ),
    Kind(
        pod("cordoned", 1, "cordoned"),
        "cordoned",
        told="of 20 nodes 2 cordoned (unschedulable)",
        why="cordoned-001 would do, but is cordoned",
        way_out="kubectl uncordon cordoned-001",
    ),
    Kind(
        pod("node-not-ready", 1, "unready"),
        "node-not-ready",
        told="of 20 nodes 1 not ready",
        why="unready-001 would do, but is not ready",
        way_out="see why its kubelet does not report",
    ),
    Kind(
        pod("taint-true", 1, nodeSelector={POOL: "true"}),
        "taint",
        told="1 node would do if the pod tolerated their taint nvidia.com/gpu=true:NoSchedule",
        why="but for a taint that it does not tolerate: nvidia.com/gpu=true:NoSchedule",
        way_out='{key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}',
        doctor=("taint-untolerated",),
    ),
    Kind(
        pod("taint-present", 1, nodeSelector={POOL: "present"}),
        "taint",
        told="1 node would do if the pod tolerated their taint nvidia.com/gpu=present:NoSchedule",
        why="but for a taint that it does not tolerate: nvidia.com/gpu=present:NoSchedule",
        way_out='{key: nvidia.com/gpu, operator: Equal, value: "present", effect: NoSchedule}',
        doctor=("taint-untolerated",),
    ),
    Kind(
        # The toleration is there, and of another value.
        pod(
            "taint-word",
            1,
            nodeSelector={POOL: "word"},
            tolerations=[{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        ),
        "taint",
        told="1 node would do if the pod tolerated their taint gpu=true:NoSchedule",
        why="but for a taint that it does not tolerate: gpu=true:NoSchedule",
        way_out='{key: gpu, operator: Equal, value: "true", effect: NoSchedule}',
        doctor=("taint-untolerated",),
    ),
    Kind(
        pod("selector-slip", 1, nodeSelector={PRODUCT: "NVIDIA-H100-80GB-HMB3"}),
        "selector",
        told="of 20 nodes 1 not selected by the pod's node selector or affinity",
        why=f"no node has {PRODUCT} In [NVIDIA-H100-80GB-HMB3]",
        way_out=f"did you mean {PRODUCT}: NVIDIA-H100-80GB-HBM3?",
        doctor=("selector-matches-nothing",),
    ),
    Kind(
        pod("selector-model", 1, nodeSelector={PRODUCT: "NVIDIA-A100-SXM4-80GB"}),
        "selector",
        told="of 20 nodes 1 not selected by the pod's node selector or affinity",
        why=f"no node has {PRODUCT} In [NVIDIA-A100-SXM4-80GB]",
        way_out=f"nodes have {PRODUCT} as NVIDIA-H100-80GB-HBM3",
        doctor=("selector-matches-nothing",),
        never=NO_SLIP,
    ),
    Kind(
        pod("selector-label", 1, nodeSelector={"accelerator": "nvidia-a100"}),
        "selector",
        told="of 20 nodes 1 not selected by the pod's node selector or affinity",
        why="no node has accelerator In [nvidia-a100]",
        way_out="no node has the label accelerator; label the nodes that are meant, or leave it out",
        doctor=("selector-matches-nothing",),
    ),
)

HOST = (
    Kind(
        pod("cpu", 1, "beside", container=large(cpu="1000")),
        "cpu",
        told="of 20 nodes 1 short of CPU",
        why="it needs 1000 cores of CPU, and the largest node with the GPUs for it has 16 cores",
        way_out="ask for at most 16 cores of CPU",
        doctor=("fits-nowhere",),
    ),
    Kind(
        pod("memory", 1, "beside", container=large(memory="1Ti")),
        "memory",
        told="of 20 nodes 1 short of memory",
        why="it needs 1024 GiB of memory, and the largest node with the GPUs for it has 64 GiB",
        way_out="ask for at most 64 GiB of memory",
        doctor=("fits-nowhere",),
    ),
    Kind(
        pod("storage", 1, "beside", container=large(**{"ephemeral-storage": "2Ti"})),
        "storage",
        told="of 20 nodes 1 short of local storage",
        why="it needs 2048 GiB of local storage, and the largest node with the GPUs for it has 1024 GiB",
        way_out="ask for at most 1024 GiB of local storage",
    ),
    Kind(
        pod("pods", 1, "crowded"),
        "pods",
        told="of 20 nodes 1 at their limit of pods",
        why="as many pods as they may (at most 1)",
        way_out="wait until a pod there ends",
    ),
    Kind(
        pod("other-resource", {GPU: "1", FPGA: "1"}, "beside"),
        "other-resource",
        told="of 20 nodes 1 short of another resource",
        why=f"it needs 1 of {FPGA}, and beside-001 has the most left, 0",
        way_out="it fits on beside-001 when default/holds-beside ends",
    ),
    Kind(
        pod("resource-slip", {"nvidia.com/gpus": "1"}),
        "unknown-resource",
        told="of 20 nodes 1 without a resource that the pod asks for, as all others",
        why="no node offers nvidia.com/gpus",
        way_out="did you mean nvidia.com/gpu?",
        doctor=("resource-misnamed",),
    ),
    Kind(
        pod("mig", {"nvidia.com/mig-3g.40gb": "1"}),
        "unknown-resource",
        told="of 20 nodes 1 without a resource that the pod asks for, as all others",
        why="no node offers nvidia.com/mig-3g.40gb",
        way_out="no GPU is split into MIG instances of this profile",
        doctor=("fits-nowhere",),
        never=NO_SLIP,
    ),
)

KINDS = (*GPUS, *NODES, *HOST)
