"""Variants of where a pod may run and how much it asks for: labels, tolerations and amounts.

``variants`` has those of names and of other kinds, and the table of all.
"""

from tests.guides.entries import PRIORITY, Refused, Runs, Waits
from tests.guides.variant_objects import GPU, ONE, Variant, affinity, pod, toleration

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
        pod("model-in-short", nodeSelector={"nvidia.com/gpu.product": "T4"}),
        (PRIORITY,),
        Waits(
            "model-in-short",
            "selector",
            "no node has nvidia.com/gpu.product In [T4]",
            "did you mean nvidia.com/gpu.product: Tesla-T4?",
        ),
    ),
    Variant(
        pod("product-in-small-letters", nodeSelector={"nvidia.com/gpu.product": "nvidia-a100-sxm4-80gb"}),
        (PRIORITY,),
        Waits(
            "product-in-small-letters",
            "selector",
            "no node has nvidia.com/gpu.product In [nvidia-a100-sxm4-80gb]",
            "did you mean nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB?",
        ),
    ),
    Variant(
        pod("product-without-board", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-80GB"}),
        (PRIORITY,),
        Waits(
            "product-without-board",
            "selector",
            "no node has nvidia.com/gpu.product In [NVIDIA-A100-80GB]",
            "did you mean nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB?",
        ),
    ),
    Variant(
        pod("product-of-another-card", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-PCIe"}),
        (PRIORITY,),
        Waits(
            "product-of-another-card",
            "selector",
            "no node has nvidia.com/gpu.product In [NVIDIA-H100-PCIe]",
            "nodes have nvidia.com/gpu.product as NVIDIA-A100-SXM4-80GB and Tesla-T4",
        ),
    ),
    Variant(
        pod("label-with-a-dash", nodeSelector={"nvidia.com/gpu-product": "Tesla-T4"}),
        (PRIORITY,),
        Waits(
            "label-with-a-dash",
            "selector",
            "no node has nvidia.com/gpu-product In [Tesla-T4]",
            "did you mean the label nvidia.com/gpu.product instead of nvidia.com/gpu-product?",
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
