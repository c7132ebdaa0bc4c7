"""GPU026: a model cannot be divided as its server is told, or is divided over a slow network."""

from collections.abc import Iterator

from gpufleet.fit.division import refusals
from gpufleet.fit.ranks import Division
from gpufleet.kube.meanings.gpu_resources import is_whole_gpu
from gpufleet.lint.objects.cluster import Cluster, ClusterNode
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.fast_links import CLIQUE, offered_links, uses_fast_link
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.vllm_command import MODEL_NEEDED, served
from gpufleet.lint.objects.wide_models import Width, widest_pod, widths
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Severity, Unjudged

# Ends the list of widths that is proposed.
_WIDTHS_MAX = 64
_NETWORK_NEEDED = (
    "whether the pods' claims, further networks or host network are fast, of which they say nothing"
)

Verdicts = Iterator[RuleFinding | Unjudged]


def check(manifest: Manifest, context: Context) -> Verdicts:
    """Each vLLM server that would refuse to start, and each model that is wider than a pod."""
    yield from _indivisible(manifest)
    has = widest_pod(manifest)
    for width in widths(manifest):
        if 0 < has < width.gpus:
            yield from _across(manifest, width, has, context.cluster)


def _indivisible(manifest: Manifest) -> Verdicts:
    for template in manifest.templates:
        for container in template.containers:
            found = served(container) if container.has_gpu else None
            if found is None or found.tensor_parallel == 1:
                continue
            field = container.field.at("args" if container.field.at("args").exists else "command")
            if found.model is None or found.serving is None:
                yield Unjudged(field, MODEL_NEEDED)
                continue
            facts, form, width = found.model.facts, found.serving.form, found.tensor_parallel
            reasons = refusals(facts, form, Division(1, width))
            if reasons:
                fit = [
                    one for one in range(1, _WIDTHS_MAX + 1) if not refusals(facts, form, Division(1, one))
                ]
                says = f"container {container.name} divides {facts.name}: {reasons[0]}"
                yield RuleFinding(field, says, f"what divides it: {', '.join(map(str, fit))}")


def _across(manifest: Manifest, width: Width, has: int, cluster: Cluster | None) -> Verdicts:
    """A model that is divided among more GPUs than a pod has: every layer waits for the link between pods."""
    link, nodes = uses_fast_link(manifest.templates), _nodes(manifest, cluster)
    if link or (nodes and all(CLIQUE in one.labels for one in nodes)):
        return
    if link is None:
        yield Unjudged(width.field, _NETWORK_NEEDED)
    elif not nodes:
        yield Unjudged(width.field, CLUSTER_NEEDED)
    else:
        yield _remark(width, has, nodes)


def _remark(width: Width, has: int, nodes: tuple[ClusterNode, ...]) -> RuleFinding:
    largest = max(_whole_gpus(one) for one in nodes)
    says = (
        f"divides each layer among {width.gpus} GPUs, of which a pod has {has}, over no link said to be fast"
    )
    if largest >= width.gpus:
        advice = f"give one pod {width.gpus} GPUs: there are nodes with {largest}"
    else:
        stages = -(-width.gpus // has)
        advice = f"divide it among the {has} GPUs of a pod and in {stages} pipeline stages"
        links = offered_links(nodes)
        if links:
            advice += f", or ask for {links[0]}, which nodes have"
    return RuleFinding(width.field, says, advice, severity=Severity.WARNING)


def _whole_gpus(node: ClusterNode) -> int:
    return max((count for name, count in node.gpus.items() if is_whole_gpu(name)), default=0)


def _nodes(manifest: Manifest, cluster: Cluster | None) -> tuple[ClusterNode, ...]:
    if cluster is None:
        return ()
    found = {
        node.name: node for one in manifest.templates if one.device_count for node in cluster.candidates(one)
    }
    return tuple(found.values())


RULE = Rule("GPU026", "Model that cannot be divided so", Severity.ERROR, check)
