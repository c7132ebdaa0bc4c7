"""GPU039: a container asks for several shares of time-sliced GPUs."""

from collections.abc import Iterator

from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged
from gpufleet.lint.source.fields import Field
from gpufleet.model.resource_names import NVIDIA_GPU, NVIDIA_SHARED, is_mig_instance

STRATEGY = "nvidia.com/gpu.sharing-strategy"
# Values with which one unit is a share.
_SLICED = frozenset({"time-slicing", "mps"})


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each container that counts shares as if they were GPUs."""
    for template in manifest.templates:
        for container in template.all_containers:
            for name, field in {**container.requests, **container.limits}.items():
                count = amount(field.text)
                if count is None or count.value() <= 1:
                    continue
                if name == NVIDIA_SHARED or (is_mig_instance(name) and name.endswith(".shared")):
                    yield _remark(container, field, "")
                elif name == NVIDIA_GPU and (context.cluster is None or not context.cluster.knows("Node")):
                    yield Unjudged(field, CLUSTER_NEEDED)
                elif name == NVIDIA_GPU and context.cluster and _SLICED & context.cluster.values_of(STRATEGY):
                    shared = next(filter(_shares, context.cluster.candidates(template)), None)
                    if shared is not None:
                        yield _remark(container, field, f", which are shares on node {shared.name}")


def _shares(node: ClusterNode) -> bool:
    return node.labels.get(STRATEGY) in _SLICED


def _remark(container: Container, field: Field, where: str) -> RuleFinding:
    says = f"container {container.name} asks for {field.text} of {field.key}{where}"
    advice = "ask for one: two shares are not twice the GPU, and the plugin may refuse more than one"
    return RuleFinding(field, says, advice)


RULE = Rule("GPU039", "Several shares for one container", Severity.WARNING, check, Scope.CLUSTER)
