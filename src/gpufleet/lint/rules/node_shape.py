"""GPU046: a pod takes so much CPU or memory for its GPUs that others of the node cannot be used."""

from collections.abc import Iterator
from fractions import Fraction

from gpufleet.kube.meanings.gpu_resources import is_whole_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged

RESOURCES = ("cpu", "memory")
_SHAPE_NEEDED = "a node that may take the pod, with CPU and memory in status.allocatable of each that may"


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template of which every node takes fewer than its GPUs would allow."""
    for template in manifest.templates:
        gpus = _gpus(template)
        if len(gpus) != 1 or template.is_gpu_infrastructure:
            continue
        if context.cluster is None or not context.cluster.knows("Node"):
            yield Unjudged(template.spec, CLUSTER_NEEDED)
            continue
        ((name, count),) = gpus.items()
        nodes = [one for one in context.cluster.candidates(template) if one.gpus[name] >= count]
        if not nodes or any(one.allocatable(each) is None for one in nodes for each in RESOURCES):
            yield Unjudged(template.spec, _SHAPE_NEEDED)
            continue
        found = [_stranding(template, one, name, count) for one in nodes]
        first = found[0]
        # One node on which nothing is stranded is enough: the scheduler may choose it.
        if first is not None and all(one is not None for one in found):
            yield RuleFinding(template.spec, *first)


def _gpus(template: PodTemplate) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in template.containers:
        for name, field in {**container.requests, **container.limits}.items():
            count = amount(field.text)
            if is_whole_gpu(name) and count is not None and count.nano > 0:
                found[name] = found.get(name, 0) + count.value()
    return found


def _stranding(template: PodTemplate, node: ClusterNode, name: str, count: int) -> tuple[str, str] | None:
    """What is said of a node on which GPUs stay over, and the way out."""
    by_gpus = node.gpus[name] // count
    for resource in RESOURCES:
        has = node.allocatable(resource)
        asked = _asked_nano(template, resource)
        if has is None or not asked or has.nano < asked:
            continue
        pods = has.nano // asked
        if pods < by_gpus:
            left = node.gpus[name] - pods * count
            share = _written(Fraction(has.nano, 10**9) * count / node.gpus[name], resource)
            says = f"on node {node.name} its {resource} leaves {left} of {node.gpus[name]} GPUs without use"
            return says, f"up to {share} of {resource} goes with {count} of its GPUs"
    return None


def _asked_nano(template: PodTemplate, resource: str) -> int:
    total = 0
    for container in template.containers:
        field = container.requests.get(resource) or container.limits.get(resource)
        found = amount(field.text) if field is not None else None
        total += 0 if found is None else found.nano
    return total


def _written(share: Fraction, resource: str) -> str:
    if resource == "memory":
        return f"{int(share / 2**20)}Mi"
    return f"{int(share * 1000)}m"


RULE = Rule("GPU046", "CPU or memory that strands GPUs", Severity.INFO, check, Scope.CLUSTER)
