"""What readers of guides write a little otherwise than the files of `examples/guides`, and what comes of it.

Each variant is of a kind that guides teach: another label, a toleration that misses, an amount that cannot
be, a resource of another name. ``entries`` has the lines of the guides themselves.
"""

from tests.guides.entries import PRIORITY, Accepted, Refused, Runs, Waits
from tests.guides.variant_objects import (
    GPU,
    Variant,
    kind_of_another_system,
    other,
    pod,
    scaler,
    template,
)
from tests.guides.variants_of_placement import AMOUNTS, SELECTION, TOLERATIONS

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
        pod("model-for-a-name", {"nvidia.com/a100": 1}),
        ("GPU053",),
        Waits(
            "model-for-a-name",
            "foreign",
            "as it asks for nvidia.com/a100, which is no name of a GPU",
            "write nvidia.com/gpu in place of nvidia.com/a100",
        ),
    ),
    Variant(
        pod("capitals", {"nvidia.com/GPU": 1}),
        ("GPU053",),
        Waits(
            "capitals",
            "foreign",
            "as it asks for nvidia.com/GPU, which is no name of a GPU",
            "write nvidia.com/gpu in place of nvidia.com/GPU",
        ),
    ),
    Variant(
        pod("without-a-slash", {"nvidia.gpu": 1}),
        ("GPU053",),
        Refused("must be a standard resource type or fully qualified"),
    ),
    Variant(
        pod("profile-with-dashes", {"nvidia.com/mig-1g-10gb": 1}),
        ("GPU053", PRIORITY),
        Waits(
            "profile-with-dashes",
            "unknown-resource",
            "no node offers nvidia.com/mig-1g-10gb",
            "did you mean nvidia.com/mig-1g.10gb?",
        ),
    ),
    Variant(
        pod("profile-with-underscore", {"nvidia.com/mig_1g.10gb": 1}),
        ("GPU053",),
        Waits(
            "profile-with-underscore",
            "foreign",
            "as it asks for nvidia.com/mig_1g.10gb, which is no name of a GPU",
            "write nvidia.com/mig-1g.10gb in place of nvidia.com/mig_1g.10gb",
        ),
    ),
    Variant(
        pod("virtual", {"nvidia.com/vgpu": 1}),
        (PRIORITY,),
        Waits(
            "virtual",
            "foreign",
            "as it asks for nvidia.com/vgpu, which gpufleet does not serve",
            "see whether the device plugin that offers nvidia.com/vgpu runs on the nodes",
        ),
    ),
    Variant(
        pod("another-device", {"google.com/tpu": 4}),
        ("GPU003",),
        Waits(
            "another-device",
            "foreign",
            "as it asks for google.com/tpu, which gpufleet does not serve",
            "see whether the device plugin that offers google.com/tpu runs on the nodes",
        ),
    ),
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
            "make it anew with schedulerName: gpufleet",
        ),
    ),
)
REST_OF_A_POD = (
    Variant(
        pod("class-in-capitals", priorityClassName="Inference-Critical"),
        (),
        Refused("no PriorityClass with name Inference-Critical was found"),
    ),
    Variant(
        pod("priority-as-a-number", priority=100_000),
        (),
        Refused("the integer value of priority (100000) must not be provided in pod spec"),
    ),
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
        (PRIORITY,),
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
        (PRIORITY, "GPU060"),
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
        other(
            "CronJob",
            "batch/v1",
            "with-seconds",
            spec={
                "schedule": "0 0 3 * * *",
                "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
            },
        ),
        (PRIORITY, "GPU037"),
        Refused("expected exactly 5 fields, found 6"),
    ),
    Variant(
        other(
            "StatefulSet",
            "apps/v1",
            "servers",
            spec={
                "serviceName": "servers",
                "replicas": 2,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "variant"}},
                "template": template(),
            },
        ),
        (PRIORITY, "GPU060"),
        Runs("servers-", count=2),
    ),
    Variant(
        other(
            "StatefulSet",
            "apps/v1",
            "on-a-class",
            spec={
                "serviceName": "on-a-class",
                "selector": {"matchLabels": {"app": "variant"}},
                "template": template(),
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "fast-nvme",
                            "resources": {"requests": {"storage": "10Gi"}},
                        },
                    }
                ],
            },
        ),
        (PRIORITY, "GPU060"),
        Waits(
            "on-a-class-0",
            "class-missing",
            "claim data-on-a-class-0 names class fast-nvme, which is not there",
            "create the StorageClass fast-nvme",
        ),
    ),
    Variant(
        other(
            "Job",
            "batch/v1",
            "started-anew",
            spec={"template": template(restartPolicy="Always")},
        ),
        (PRIORITY, "GPU037"),
        Refused("spec.template.spec.restartPolicy"),
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
        other("ResourceQuota", "v1", "plural", spec={"hard": {"requests.nvidia.com/gpus": "400"}}),
        ("GPU051",),
        Accepted(),
    ),
    Variant(
        other("ResourceQuota", "v1", "of-instances", spec={"hard": {"limits.nvidia.com/mig-1g.10gb": "70"}}),
        ("GPU051",),
        Accepted(),
    ),
    Variant(
        other("ResourceQuota", "v1", "bare", spec={"hard": {"requests.gpu": "4"}}),
        ("GPU051",),
        Refused("must be a standard resource for quota"),
    ),
    Variant(
        other("ResourceQuota", "v1", "of-objects", spec={"hard": {"count/nvidia.com/gpu": "4"}}),
        ("GPU051",),
        Refused("a valid label key must consist of"),
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
