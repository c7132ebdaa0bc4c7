"""What readers of guides write a little otherwise than the files of `examples/guides`, and what comes of it.

Each variant is of a kind that guides teach: another label, a toleration that misses, an amount that cannot
be, a resource of another name. ``entries`` has the lines of the guides themselves.
"""

from tests.guides.entries import PRIORITY, Accepted, Refused, Runs, Waits
from tests.guides.variant_objects import (
    GPU,
    ONE,
    Variant,
    affinity,
    kind_of_another_system,
    other,
    pod,
    scaler,
    template,
    toleration,
)

LABEL_IT = "label the nodes that are meant, or leave it out"
TOLERATE = 'add to its tolerations: {key: gpu, operator: Equal, value: "true", effect: NoSchedule}'
BARRED = "1 node would do, but for a taint that it does not tolerate"

SELECTION = (
    Variant(
        pod("accelerator", nodeSelector={"accelerator": "nvidia-a100"}),
        (PRIORITY,),
        Runs("accelerator", node="a100-"),
    ),
    Variant(
        pod("gpu-present", nodeSelector={"nvidia.com/gpu.present": "true"}), (PRIORITY,), Runs("gpu-present")
    ),
    Variant(
        pod(
            "not-in", affinity=affinity("nvidia.com/gpu.product", "NotIn", "Tesla-T4", "AMD-Instinct-MI300X")
        ),
        (PRIORITY,),
        Runs("not-in", node="a100-"),
    ),
    Variant(
        pod("other-accelerator", nodeSelector={"accelerator": "nvidia-tesla-v100"}),
        (PRIORITY,),
        Waits(
            "other-accelerator",
            "selector",
            "no node has accelerator In [nvidia-tesla-v100]",
            "nodes have accelerator as nvidia-a100",
        ),
    ),
    Variant(
        pod("label-of-a-cloud", nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}),
        (PRIORITY,),
        Waits(
            "label-of-a-cloud",
            "selector",
            "no node has cloud.google.com/gke-accelerator In [nvidia-tesla-t4]",
            f"no node has the label cloud.google.com/gke-accelerator; {LABEL_IT}",
        ),
    ),
    Variant(
        pod("instance-type", nodeSelector={"node.kubernetes.io/instance-type": "p4d.24xlarge"}),
        (PRIORITY,),
        Waits(
            "instance-type",
            "selector",
            "no node has node.kubernetes.io/instance-type In [p4d.24xlarge]",
            f"no node has the label node.kubernetes.io/instance-type; {LABEL_IT}",
        ),
    ),
    Variant(
        pod("spot", nodeSelector={"karpenter.sh/capacity-type": "spot"}),
        ("GPU034", PRIORITY),
        Waits(
            "spot",
            "selector",
            "no node has karpenter.sh/capacity-type In [spot]",
            f"no node has the label karpenter.sh/capacity-type; {LABEL_IT}",
        ),
    ),
    Variant(
        pod("more-memory", affinity=affinity("nvidia.com/gpu.memory", "Gt", "90000")),
        (PRIORITY,),
        Waits(
            "more-memory",
            "selector",
            "no node has nvidia.com/gpu.memory Gt [90000]",
            "nodes have nvidia.com/gpu.memory as 16384 and 81920",
        ),
    ),
)
TOLERATIONS = (
    Variant(
        pod(
            "other-case",
            nodeSelector={"pool": "taint-gpu"},
            tolerations=toleration("GPU", "true", "NoSchedule"),
        ),
        (PRIORITY,),
        Waits("other-case", "taint", f"{BARRED}: gpu=true:NoSchedule", TOLERATE),
    ),
    Variant(
        pod(
            "no-dedicated-toleration",
            nodeSelector={"pool": "taint-dedicated"},
            tolerations=toleration("nvidia.com/gpu", "present", "NoSchedule"),
        ),
        (PRIORITY,),
        Waits(
            "no-dedicated-toleration",
            "taint",
            f"{BARRED}: dedicated=gpu:NoSchedule",
            'add to its tolerations: {key: dedicated, operator: Equal, value: "gpu", effect: NoSchedule}',
        ),
    ),
    Variant(
        pod("tolerates-all", nodeSelector={"pool": "taint-true"}, tolerations=[{"operator": "Exists"}]),
        (PRIORITY,),
        Runs("tolerates-all", node="true-"),
    ),
    Variant(
        pod(
            "other-effect",
            nodeSelector={"pool": "taint-gpu"},
            tolerations=toleration("gpu", "true", "NoExecute"),
        ),
        (PRIORITY,),
        Waits("other-effect", "taint", f"{BARRED}: gpu=true:NoSchedule", TOLERATE),
    ),
    Variant(
        pod(
            "other-key",
            nodeSelector={"pool": "taint-gpu"},
            tolerations=toleration("nvidia.com/gpu", "true", "NoSchedule"),
        ),
        (PRIORITY,),
        Waits("other-key", "taint", f"{BARRED}: gpu=true:NoSchedule", TOLERATE),
    ),
    Variant(
        pod(
            "other-value",
            nodeSelector={"pool": "taint-present"},
            tolerations=toleration("nvidia.com/gpu", "true", "NoSchedule"),
        ),
        (PRIORITY,),
        Waits(
            "other-value",
            "taint",
            f"{BARRED}: nvidia.com/gpu=present:NoSchedule",
            'add to its tolerations: {key: nvidia.com/gpu, operator: Equal, value: "present", '
            "effect: NoSchedule}",
        ),
    ),
)
AMOUNTS = (
    Variant(pod("as-a-text", {GPU: "2"}, requests={GPU: "2"}), ("GPU021", PRIORITY), Runs("as-a-text")),
    Variant(
        pod("with-a-unit", {GPU: "1k"}),
        ("GPU021", PRIORITY),
        Waits(
            "with-a-unit",
            "malformed",
            "too many GPUs, found 1000; expected at most 256 GPUs in one pod",
            "correct that field; labels and annotations can be edited, most of a spec only by a new pod",
        ),
    ),
    Variant(pod("in-thousandths", {GPU: "500m"}), ("GPU002", PRIORITY), Refused("must be an integer")),
    Variant(
        pod("negative", {GPU: "-1"}), ("GPU002", PRIORITY), Refused("must be greater than or equal to 0")
    ),
    Variant(
        pod("requests-alone", {}, requests=dict(ONE)),
        ("GPU001", PRIORITY),
        Refused("Limit must be set for non overcommitable resources"),
    ),
    Variant(
        pod("requests-fewer", {GPU: 2}, requests=dict(ONE)),
        ("GPU001", "GPU021", PRIORITY),
        Refused("must be equal to nvidia.com/gpu limit of 2"),
    ),
    Variant(pod("half", {GPU: 0.5}), ("GPU002", PRIORITY), Refused("must be an integer")),
    Variant(pod("zero", {GPU: "0"}), ("GPU003",), Runs("zero")),
    Variant(
        pod("nine", {GPU: 9}),
        ("GPU021", PRIORITY),
        Waits(
            "nine",
            "gpu-count",
            "it asks for 9 GPUs on one node, and the largest have 8",
            "ask for at most 8 in one pod, for example 2 pods with 5 each as a gang",
        ),
    ),
    Variant(
        pod("five-hundred-cores", {GPU: 1, "cpu": 500}),
        (PRIORITY,),
        Waits(
            "five-hundred-cores",
            "cpu",
            "it needs 500 cores of CPU, and the largest node with the GPUs for it has 128 cores of CPU",
            "ask for at most 128 cores of CPU",
        ),
    ),
)
NAMES = (
    Variant(
        pod("bare-name", {"gpu": 1}),
        ("GPU053",),
        Refused("must be a standard resource type or fully qualified"),
    ),
    Variant(
        pod("plural", {"nvidia.com/gpus": 1}),
        ("GPU053",),
        Waits(
            "plural",
            "foreign",
            "default-scheduler, as it asks for nvidia.com/gpus, which is no name of a GPU",
            "write nvidia.com/gpu in place of nvidia.com/gpus",
        ),
    ),
    Variant(
        pod("old-name", {"alpha.kubernetes.io/nvidia-gpu": 1}),
        ("GPU020", PRIORITY),
        Waits(
            "old-name",
            "foreign",
            "as it asks for alpha.kubernetes.io/nvidia-gpu, which is no name of a GPU",
            "write nvidia.com/gpu in place of alpha.kubernetes.io/nvidia-gpu",
        ),
    ),
    Variant(
        pod("other-driver", {"gpu.intel.com/i915": 1}),
        (PRIORITY,),
        Waits(
            "other-driver",
            "gpu-vendor",
            "no node has GPUs that are asked for as gpu.intel.com/i915",
            "ask for gpu.intel.com/xe",
        ),
    ),
    Variant(
        pod("two-vendors", {GPU: 1, "amd.com/gpu": 1}),
        ("GPU021", PRIORITY),
        Waits(
            "two-vendors",
            "malformed",
            "several kinds of GPU",
            "correct that field; labels and annotations can be edited, most of a spec only by a new pod",
        ),
    ),
    Variant(
        pod("two-instances", {"nvidia.com/mig-1g.10gb": 2}),
        ("GPU021", PRIORITY, "GPU044"),
        Runs("two-instances"),
    ),
    Variant(
        pod("eight-instances", {"nvidia.com/mig-1g.10gb": 8}),
        ("GPU021", PRIORITY, "GPU044"),
        Waits(
            "eight-instances",
            "other-resource",
            "it needs 8 of nvidia.com/mig-1g.10gb, and the most that a node that would do offers is 7",
            "ask for at most 7 of nvidia.com/mig-1g.10gb",
        ),
    ),
    Variant(pod("two-slices", {"nvidia.com/mig-2g.20gb": 1}), (PRIORITY,), Runs("two-slices", node="mixed-")),
    Variant(
        pod("four-slices", {"nvidia.com/mig-4g.40gb": 1}), (PRIORITY,), Runs("four-slices", node="mixed-")
    ),
    Variant(pod("whole-card", {"nvidia.com/mig-7g.80gb": 1}), (PRIORITY,), Runs("whole-card", node="whole-")),
    Variant(
        pod("instance-with-media", {"nvidia.com/mig-1g.10gb.me": 1}),
        (PRIORITY,),
        Waits(
            "instance-with-media",
            "unknown-resource",
            "no node offers nvidia.com/mig-1g.10gb.me",
            "did you mean nvidia.com/mig-1g.10gb?",
        ),
    ),
    Variant(
        pod("instance-of-another-card", {"nvidia.com/mig-1g.5gb": 1}),
        (PRIORITY,),
        Waits(
            "instance-of-another-card",
            "unknown-resource",
            "no node offers nvidia.com/mig-1g.5gb",
            "did you mean nvidia.com/mig-1g.10gb?",
        ),
    ),
    Variant(
        pod("fast-network", {GPU: 1, "rdma/hca_shared_devices_a": 1}),
        (PRIORITY,),
        Waits(
            "fast-network",
            "unknown-resource",
            "no node offers rdma/hca_shared_devices_a",
            "if a device plugin shall offer it, see whether the plugin runs on the nodes",
        ),
    ),
    Variant(
        pod("huge-pages", {GPU: 1, "hugepages-2Mi": "1Gi", "memory": "2Gi"}),
        (PRIORITY,),
        Waits(
            "huge-pages",
            "unknown-resource",
            "no node offers hugepages-2Mi",
            "reserve huge pages of 2Mi in the kernels of the nodes",
        ),
    ),
    Variant(
        pod("claim", {}, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]),
        (PRIORITY,),
        Waits(
            "claim",
            "foreign",
            "as it asks for devices by a ResourceClaim",
            "ask for nvidia.com/gpu in resources.limits: gpufleet does not allocate claims",
        ),
    ),
)
REST_OF_A_POD = (
    Variant(
        pod("runtime-class", runtimeClassName="nvidia-legacy"),
        (PRIORITY,),
        Refused('RuntimeClass "nvidia-legacy" not found'),
    ),
    Variant(
        pod("priority-class", priorityClassName="gpu-high"),
        (),
        Refused("no PriorityClass with name gpu-high was found"),
    ),
    Variant(
        pod("node-name", nodeName="a100-001"),
        (PRIORITY,),
        Refused("a pod that asks for GPUs may not name its node"),
    ),
    Variant(
        pod("volume", volumes=[{"name": "models", "persistentVolumeClaim": {"claimName": "no-such"}}]),
        (PRIORITY,),
        Waits(
            "volume",
            "claim-missing",
            "claim no-such is not there",
            "create the PersistentVolumeClaim no-such",
        ),
    ),
    Variant(
        pod("slip-of-scheduler", schedulerName="gpu-fleet"),
        (PRIORITY,),
        Waits(
            "slip-of-scheduler",
            "foreign",
            "it is not ours: its schedulerName is gpu-fleet",
            "make it anew with schedulerName: gpufleet",
        ),
    ),
)
OTHER_KINDS = (
    Variant(
        other(
            "Job",
            "batch/v1",
            "indexed",
            spec={
                "completions": 2,
                "parallelism": 2,
                "completionMode": "Indexed",
                "backoffLimit": 2,
                "ttlSecondsAfterFinished": 3600,
                "activeDeadlineSeconds": 3600,
                "template": template(restartPolicy="Never"),
            },
        ),
        ("GPU023", PRIORITY),
        Runs("indexed-", count=2),
    ),
    Variant(
        other(
            "DaemonSet",
            "apps/v1",
            "burn-in",
            spec={
                "selector": {"matchLabels": {"app": "variant"}},
                "template": template(
                    nodeSelector={"pool": "full"}, tolerations=[{"key": "full", "operator": "Exists"}]
                ),
            },
        ),
        (PRIORITY,),
        Runs("burn-in-", node="full-"),
    ),
    Variant(
        other(
            "CronJob",
            "batch/v1",
            "nightly",
            spec={
                "schedule": "0 3 * * *",
                "jobTemplate": {"spec": {"backoffLimit": 2, "template": template(restartPolicy="Never")}},
            },
        ),
        (PRIORITY, "GPU037"),
        Accepted(),
    ),
    Variant(
        scaler(
            "on-queue-depth",
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue_depth"},
                    "target": {"type": "AverageValue", "averageValue": "30"},
                },
            },
        ),
        (),
        Accepted(),
    ),
    Variant(
        scaler(
            "on-the-resource",
            {
                "type": "Resource",
                "resource": {"name": GPU, "target": {"type": "Utilization", "averageUtilization": 70}},
            },
        ),
        ("GPU029",),
        Accepted(),
    ),
    Variant(
        other("ResourceQuota", "v1", "no-prefix", spec={"hard": {GPU: "400"}}),
        ("GPU051",),
        Accepted(),
    ),
    Variant(
        # Where it is, a pod that asks for no GPU is refused, so it has another namespace.
        other(
            "LimitRange",
            "v1",
            "of-pods",
            metadata={"name": "of-pods", "namespace": "given"},
            spec={"limits": [{"type": "Pod", "max": {GPU: "80"}}]},
        ),
        (),
        Accepted(),
    ),
    Variant(
        other(
            "PrometheusRule",
            "monitoring.coreos.com/v1",
            "aliases",
            spec={
                "groups": [
                    {
                        "name": "gpu",
                        "rules": [
                            {
                                "alert": "GPUMemoryNearlyFull",
                                "expr": "dcgm_fb_used_bytes / dcgm_fb_total_bytes > 0.95",
                            }
                        ],
                    }
                ]
            },
        ),
        ("GPU054",),
        Accepted(),
    ),
    Variant(
        other(
            "ServiceMonitor",
            "monitoring.coreos.com/v1",
            "dcgm-exporter",
            spec={
                "selector": {"matchLabels": {"app.kubernetes.io/name": "dcgm-exporter"}},
                "namespaceSelector": {"matchNames": ["gpu-operator"]},
                "endpoints": [{"port": "metrics", "interval": "15s"}],
            },
        ),
        (),
        Accepted(),
    ),
    kind_of_another_system("ClusterPolicy", "nvidia.com/v1"),
    kind_of_another_system("ClusterQueue", "kueue.x-k8s.io/v1beta1"),
    kind_of_another_system("PyTorchJob", "kubeflow.org/v1"),
    kind_of_another_system("RayCluster", "ray.io/v1"),
    kind_of_another_system("NodePool", "karpenter.sh/v1"),
    kind_of_another_system("KubeletConfiguration", "kubelet.config.k8s.io/v1beta1"),
)
VARIANTS = (*SELECTION, *TOLERATIONS, *AMOUNTS, *NAMES, *REST_OF_A_POD, *OTHER_KINDS)
