"""Edges of GPU050: who announces the GPUs of nodes, and what an autoscaler knows of empty groups."""

import pytest

from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.rules import all_rules
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText
from tests.lint.linting import report_of
from tests.lint.test_cluster_rules import A100, node

POOL = (
    "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n"
    "  limits: {%s: 16}\n  template:\n    spec:\n"
    "      nodeClassRef: {group: %s, kind: %s, name: c}\n"
    "      taints: [{key: gpu, effect: NoSchedule}]\n"
    "      requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [g]}]\n"
)
KARPENTER = ("karpenter.k8s.aws", "EC2NodeClass")
NVIDIA_POOL, AMD_POOL = POOL % ("nvidia.com/gpu", *KARPENTER), POOL % ("amd.com/gpu", *KARPENTER)
AUTO_MODE = POOL % ("nvidia.com/gpu", "eks.amazonaws.com", "NodeClass")
AZURE = POOL % ("nvidia.com/gpu", "karpenter.azure.com", "AKSNodeClass")
CLASS = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec: {%s}\n---\n"
AMAZON = CLASS % "amiSelectorTerms: [{alias: al2023@latest}]"
BOTTLEROCKET = CLASS % "amiSelectorTerms: [{alias: bottlerocket@1.51.0}]"


def daemon_set(image: str, folder: str = "") -> str:
    volumes = f"volumes: [{{name: v, hostPath: {{path: {folder}}}}}], " if folder else ""
    return (
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n"
        f"spec: {{template: {{spec: {{{volumes}containers: [{{name: c, image: '{image}'}}]}}}}}}\n---\n"
    )


PLUGINS = "/var/lib/kubelet/device-plugins"
NOTHING = daemon_set("registry.k8s.io/kube-proxy:v1.36.0")
OPERATOR = (
    "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\n"
    "spec: {devicePlugin: {enabled: %s}}\n"
)
DISCOVERY = daemon_set("registry.k8s.io/nfd/node-feature-discovery:v0.18.0")


def judgement(text: str, cluster: str = "") -> str:
    """Whether GPU050 finds something, does not judge, or lets pass."""
    report = report_of(text, cluster=cluster)
    assert report.problems == ()
    if any(one.rule.id == "GPU050" for one in report.findings):
        return "found"
    return "unjudged" if any(one.rule.id == "GPU050" for one in report.unjudged) else "passed"


ANNOUNCED = [
    (NVIDIA_POOL, "", "unjudged"),
    (NVIDIA_POOL, node(A100, allocatable="cpu: '4'"), "unjudged"),
    (NVIDIA_POOL, AMAZON + NOTHING, "found"),
    # A node class that is not known may bring the plugin with its image.
    (NVIDIA_POOL, NOTHING, "unjudged"),
    (NVIDIA_POOL, BOTTLEROCKET + NOTHING, "passed"),
    (NVIDIA_POOL, CLASS % "amiFamily: Bottlerocket" + NOTHING, "passed"),
    (AUTO_MODE, NOTHING, "passed"),
    (AZURE, NOTHING, "unjudged"),
    (AZURE, daemon_set("mcr.microsoft.com/oss/v2/nvidia/k8s-device-plugin:v0.17.0"), "passed"),
    (NVIDIA_POOL, AMAZON + daemon_set("nvcr.io/nvidia/k8s-device-plugin:v0.17.4"), "passed"),
    (NVIDIA_POOL, AMAZON + daemon_set("gke.gcr.io/nvidia-gpu-device-plugin@sha256:0123"), "passed"),
    (
        NVIDIA_POOL,
        AMAZON + daemon_set("registry.k8s.io/dra-driver-nvidia/k8s-dra-driver-gpu:v25.8"),
        "passed",
    ),
    (NVIDIA_POOL, AMAZON + daemon_set("projecthami/hami:v2.6"), "passed"),
    (NVIDIA_POOL, AMAZON + daemon_set("ghcr.io/gpufleet/gpufleet:0.1"), "passed"),
    # The plugin of another maker announces none of these.
    (NVIDIA_POOL, AMAZON + daemon_set("rocm/k8s-device-plugin:1.31"), "found"),
    (AMD_POOL, AMAZON + daemon_set("rocm/k8s-device-plugin:1.31"), "passed"),
    (AMD_POOL, AMAZON + daemon_set("nvcr.io/nvidia/k8s-device-plugin:v0.17.4"), "found"),
    # Some plugin of unknown origin may announce GPUs; one for network cards does not.
    (NVIDIA_POOL, AMAZON + daemon_set("own/plugin:1", PLUGINS), "unjudged"),
    (NVIDIA_POOL, AMAZON + daemon_set("ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5", PLUGINS), "found"),
    (NVIDIA_POOL, AMAZON + NOTHING + OPERATOR % "true", "passed"),
    (NVIDIA_POOL, AMAZON + NOTHING + OPERATOR % "false", "found"),
    # Where discovery runs there may be an operator, which brings its plugin with the first GPU node.
    (NVIDIA_POOL, AMAZON + DISCOVERY, "unjudged"),
    (NVIDIA_POOL, AMAZON + DISCOVERY + OPERATOR % "false", "found"),
    # Nodes that have GPUs to give have them from somebody.
    (NVIDIA_POOL, AMAZON + NOTHING + node(A100), "passed"),
    (NVIDIA_POOL + "---\n" + daemon_set("nvcr.io/nvidia/k8s-device-plugin:v0.17.4"), "", "passed"),
    (node("nvidia.com/gpu.present: 'true'", allocatable="cpu: '4'"), NOTHING, "found"),
    (node("nvidia.com/gpu.present: 'true'"), NOTHING, "passed"),
    (node("nvidia.com/gpu.present: 'false'", allocatable="cpu: '4'"), NOTHING, "passed"),
    (
        node("feature.node.kubernetes.io/pci-0302_10de.present: 'true'", allocatable="cpu: '4'"),
        NOTHING,
        "found",
    ),
    (node("k8s.amazonaws.com/accelerator: a100", allocatable="cpu: '4'"), NOTHING, "found"),
    (node("k8s.amazonaws.com/accelerator: a100", allocatable="cpu: '4'"), "", "unjudged"),
]


@pytest.mark.parametrize(("text", "cluster", "expected"), ANNOUNCED)
def test_gpus_that_nobody_announces_are_found(text: str, cluster: str, expected: str) -> None:
    assert judgement(text, cluster) == expected


def test_a_kind_that_was_listed_and_is_empty_counts_as_known() -> None:
    reading = read(SourceText("0.yaml", NVIDIA_POOL))
    objects = read(SourceText("cluster", AMAZON + DISCOVERY)).manifests
    found = [
        lint([reading], all_rules(), cluster=Cluster(objects, frozenset(kinds))).findings
        for kinds in ((), ("ClusterPolicy",))
    ]
    assert [any(one.rule.id == "GPU050" for one in each) for each in found] == [False, True]


GROUP = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: c}\n%s:\n  - {name: g, %s}\n"
TAG = "k8s.io/cluster-autoscaler/node-template"
EMPTY = "instanceType: p5.48xlarge, minSize: 0"
TAINT_TAG = f"{TAG}/taint/nvidia.com/gpu: 'true:NoSchedule'"
EKSCTL = [
    ("nodeGroups", f"{EMPTY}, labels: {{a: b}}", "found"),
    ("nodeGroups", f"{EMPTY}, labels: {{a: b}}, propagateASGTags: true", "passed"),
    ("nodeGroups", f"{EMPTY}, labels: {{a: b}}, tags: {{{TAG}/label/a: b}}", "passed"),
    ("nodeGroups", f"{EMPTY}, labels: {{a: b, c: d}}, tags: {{{TAG}/label/a: b}}", "found"),
    ("nodeGroups", f"{EMPTY}, taints: {{nvidia.com/gpu: 'true:NoSchedule'}}", "found"),
    (
        "nodeGroups",
        f"{EMPTY}, taints: {{nvidia.com/gpu: 'true:NoSchedule'}}, tags: {{{TAINT_TAG}}}",
        "passed",
    ),
    ("nodeGroups", f"{EMPTY}, taints: [{{key: nvidia.com/gpu, effect: NoSchedule}}]", "found"),
    # Of AWS's types of instances the autoscaler knows the GPUs by itself.
    ("nodeGroups", EMPTY, "passed"),
    ("nodeGroups", "instanceType: p5.48xlarge, minSize: 1, labels: {a: b}", "passed"),
    ("nodeGroups", "instanceType: m7i.large, minSize: 0, labels: {a: b}", "passed"),
    (
        "nodeGroups",
        "instancesDistribution: {instanceTypes: [g5.xlarge]}, minSize: 0, labels: {a: b}",
        "found",
    ),
    # EKS tells the autoscaler, if the autoscaler may ask.
    ("managedNodeGroups", f"{EMPTY}, labels: {{a: b}}", "unjudged"),
    ("managedNodeGroups", f"{EMPTY}, labels: {{a: b}}, propagateASGTags: true", "passed"),
    ("managedNodeGroups", "instanceTypes: [g6.xlarge], minSize: 0, labels: {a: b}", "unjudged"),
]


@pytest.mark.parametrize(("kind", "fields", "expected"), EKSCTL)
def test_a_group_of_eksctl_that_starts_empty_needs_its_tags(kind: str, fields: str, expected: str) -> None:
    assert judgement(GROUP % (kind, fields)) == expected


MACHINES = (
    "apiVersion: cluster.x-k8s.io/v1beta1\nkind: %s\nmetadata: {name: m, annotations: {%s}}\n"
    "spec: {template: {metadata: {labels: {%s}},"
    " spec: {infrastructureRef: {kind: AWSMachineTemplate, name: t}}}}\n"
)
TEMPLATE = (
    "---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n"
    "kind: AWSMachineTemplate\nmetadata: {name: t}\n"
    "spec: {template: {spec: {instanceType: p5.48xlarge}}}\nstatus: {%s}\n"
)
BOUNDS = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-%s-size: '%d'"
FROM_ZERO = f"{BOUNDS % ('min', 0)}, {BOUNDS % ('max', 4)}"
FROM_ONE = f"{BOUNDS % ('min', 1)}, {BOUNDS % ('max', 4)}"
KIND = "capacity.cluster-autoscaler.kubernetes.io/gpu-type: nvidia.com/gpu"
COUNT = "capacity.cluster-autoscaler.kubernetes.io/gpu-count: '8'"
DRIVER = "capacity.cluster-autoscaler.kubernetes.io/dra-driver: gpu.nvidia.com"
LABEL = "cluster-api/accelerator: h100"
CLUSTER_API = [
    ("MachineDeployment", f"{FROM_ZERO}, {COUNT}", "", "", "found"),
    ("MachineSet", f"{FROM_ZERO}, {KIND}", "", "", "found"),
    ("MachinePool", f"{FROM_ZERO}, {KIND}, {COUNT}", "", "", "passed"),
    ("MachineDeployment", f"{FROM_ZERO}, {DRIVER}, {COUNT}", "", "", "passed"),
    ("MachineDeployment", f"{FROM_ONE}, {COUNT}", "", "", "passed"),
    # Without a least size the autoscaler takes 0; without a largest it leaves the group alone.
    ("MachineDeployment", f"{BOUNDS % ('max', 4)}, {COUNT}", "", "", "found"),
    ("MachineDeployment", COUNT, "", "", "passed"),
    ("MachineDeployment", FROM_ZERO, "", "", "passed"),
    ("MachineDeployment", FROM_ZERO, LABEL, "", "unjudged"),
    ("MachineDeployment", FROM_ZERO, LABEL, TEMPLATE % "", "unjudged"),
    ("MachineDeployment", FROM_ZERO, "", TEMPLATE % "", "unjudged"),
    ("MachineDeployment", FROM_ZERO, "", TEMPLATE % "capacity: {cpu: '192', memory: 2Ti}", "found"),
    ("MachineDeployment", FROM_ZERO, "", TEMPLATE % "capacity: {cpu: '192', nvidia.com/gpu: '8'}", "passed"),
]


@pytest.mark.parametrize(("kind", "annotations", "labels", "template", "expected"), CLUSTER_API)
def test_a_group_of_machines_that_starts_empty_needs_its_capacity(
    kind: str, annotations: str, labels: str, template: str, expected: str
) -> None:
    assert judgement(MACHINES % (kind, annotations, labels) + template) == expected
