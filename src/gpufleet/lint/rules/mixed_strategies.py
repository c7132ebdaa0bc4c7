"""GPU043: one resource name stands for whole GPUs on some nodes and for MIG instances on others."""

from collections.abc import Iterator

from gpufleet.kube.meanings.node_labels import MIG_STRATEGY, NVIDIA_PRODUCT
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged
from gpufleet.model.resource_names import NVIDIA_GPU

_SINGLE = "single"


def _asks(template: PodTemplate) -> bool:
    return not template.is_gpu_infrastructure and any(
        NVIDIA_GPU in one.gpu_names for one in template.all_containers
    )


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template that would take an instance as well as a whole GPU."""
    for template in filter(_asks, manifest.templates):
        if context.cluster is None or not context.cluster.knows("Node"):
            yield Unjudged(template.spec, CLUSTER_NEEDED)
            continue
        if _SINGLE not in context.cluster.values_of(MIG_STRATEGY):
            return
        nodes = context.cluster.candidates(template)
        cut = next((one for one in nodes if _is_cut(one)), None)
        whole = next((one for one in nodes if not _is_cut(one)), None)
        if cut is not None and whole is not None:
            says = f"{NVIDIA_GPU} is a MIG instance on node {cut.name} and a whole GPU on node {whole.name}"
            advice = f"select the nodes by {NVIDIA_PRODUCT}; give node pools with MIG the strategy mixed"
            yield RuleFinding(template.spec, says, advice)


def _is_cut(node: ClusterNode) -> bool:
    """With the strategy single, discovery writes the profile into the product: ...-MIG-1g.10gb."""
    return node.labels.get(MIG_STRATEGY) == _SINGLE and "-MIG-" in node.labels.get(NVIDIA_PRODUCT, "")


RULE = Rule(
    "GPU043",
    "Whole GPUs and MIG instances under one name",
    Severity.WARNING,
    check,
    Scope.CLUSTER,
    concerns=lambda manifest: any(map(_asks, manifest.templates)),
)
