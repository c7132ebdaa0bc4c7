"""GPU042: no GPU of the cluster can be cut into the MIG instance that a pod asks for."""

from collections.abc import Iterator

from gpufleet.kube.meanings.node_labels import NVIDIA_PRODUCT
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged
from gpufleet.lint.source.fields import Field
from gpufleet.model import gpu_model
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.resource_names import MIG_PREFIX, is_mig_instance


def _concerns(manifest: Manifest) -> bool:
    return any(
        is_mig_instance(name)
        for one in manifest.templates
        for part in one.all_containers
        for name in part.gpu_names
    )


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each profile that no node has, and that no card of the nodes knows."""
    for template in manifest.templates:
        for container in template.all_containers:
            for name in filter(is_mig_instance, container.gpu_names):
                field = container.limits.get(name) or container.requests[name]
                if context.cluster is None or not context.cluster.knows("Node"):
                    yield Unjudged(field, CLUSTER_NEEDED)
                else:
                    yield from _judged(template, name, field, context.cluster)


def _judged(
    template: PodTemplate, name: str, field: Field, cluster: Cluster
) -> Iterator[RuleFinding | Unjudged]:
    profile = name.removeprefix(MIG_PREFIX).removesuffix(".shared").replace(".me", "+me")
    nodes = cluster.selected(template, [one for one in cluster.nodes if one.gpus])
    products = {one.labels.get(NVIDIA_PRODUCT, "") for one in nodes}
    offered = {product: _profiles(product) for product in sorted(products)}
    # What a node gives exists, whatever the tables say.
    if any(name in one.gpus for one in nodes) or any(profile in (own or ()) for own in offered.values()):
        return
    if not nodes or any(own is None for own in offered.values()):
        yield Unjudged(field, f"a known GPU in {NVIDIA_PRODUCT} on every node that may take the pod")
        return
    says = f"no GPU of the cluster can be cut into {profile}"
    told = "; ".join(
        f"{product}: {', '.join(own) if own else 'no MIG'}"
        for product, own in offered.items()
        if own is not None
    )
    # A cloud may add a node with such a card.
    severity = Severity.WARNING if cluster.may_grow else None
    yield RuleFinding(field, says, f"what there is: {told}", severity=severity)


def _profiles(product: str) -> tuple[str, ...] | None:
    """The profiles of a card; of a name for several sizes, those of all. None for an unknown card."""
    models = gpu_model.matching(product)
    if not models:
        return None
    boards = [BOARDS[one.name] for one in models if one.name in BOARDS]
    return tuple(dict.fromkeys(one.name for board in boards for one in board.profiles))


RULE = Rule(
    "GPU042", "MIG profile that no card has", Severity.ERROR, check, Scope.CLUSTER, concerns=_concerns
)
