"""GPU050: GPU nodes that take every pod, grow without end, announce no GPUs, or never start from nothing."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.device_plugins import ANNOUNCING_KINDS, Announcers, announcers
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.node_groups import (
    DRA_DRIVER,
    GPU_COUNT,
    GPU_TYPE,
    EksctlGroup,
    MachineGroup,
    eksctl_groups,
    is_eksctl,
    is_machine_group,
)
from gpufleet.lint.objects.node_pools import (
    NODE_CLASS,
    brings_gpus,
    brings_own_plugin,
    gpu_makers,
    is_pool,
    node_gpu_makers,
)
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged, cluster_needed
from gpufleet.lint.source.fields import Field
from gpufleet.model.gpu_catalogue import Vendor

# PreferNoSchedule lets other pods in where they fit nowhere else.
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_CLASS_NEEDED = "the pool's node class, whose image may bring the plugin: an EC2NodeClass"
_RIGHTS_NEEDED = (
    "whether the autoscaler may ask EKS for the group's labels and taints (eks:DescribeNodegroup)"
)
_CAPACITY_NEEDED = "the capacity that the template of its machines reports: the template with its status"
_PLUGIN_ADVICE = "run the maker's device plugin, its operator, or gpufleet's agent there"

Verdicts = Iterator[RuleFinding | Unjudged]


def _concerns(manifest: Manifest) -> bool:
    return (
        is_pool(manifest)
        or is_eksctl(manifest)
        or is_machine_group(manifest)
        or (manifest.kind == "Node" and node_gpu_makers(manifest) is not None)
    )


def check(manifest: Manifest, context: Context) -> Verdicts:
    """What is wrong with a pool, a node or a node group that has GPUs."""
    if is_pool(manifest):
        yield from _pool(manifest, context)
    elif is_eksctl(manifest):
        for group in eksctl_groups(manifest):
            yield from _eksctl_group(group)
    elif is_machine_group(manifest):
        yield from _machine_group(MachineGroup(manifest, _template(manifest, context)))
    else:
        yield from _node(manifest, context)


def _pool(pool: Manifest, context: Context) -> Verdicts:
    spec = pool.root.at("spec")
    has_gpus = brings_gpus(pool)
    if has_gpus is None:
        yield Unjudged(spec, "requirements, taints or limits that tell whether the pool's nodes have GPUs")
    if not has_gpus:
        return
    place = spec.at("template", "spec")
    if not any(one.at("effect").text in _KEEPS_AWAY for one in place.at("taints").items()):
        says = "brings GPU nodes that keep no pod away"
        yield RuleFinding(place, says, "give them the taint nvidia.com/gpu with the effect NoSchedule")
    if not any(True for _ in spec.at("limits").entries()):
        says = "brings as many GPU nodes as pods ask for"
        yield RuleFinding(spec, says, "set limits, such as nvidia.com/gpu: 16")
    reference = place.at("nodeClassRef")
    brings = brings_own_plugin(pool, _of_kind(context, NODE_CLASS))
    if not brings:
        says = "brings GPU nodes, and nothing in the cluster announces their GPUs"
        yield from _announced(
            reference, gpu_makers(pool), context, says, _CLASS_NEEDED if brings is None else ""
        )


def _node(node: Manifest, context: Context) -> Verdicts:
    makers = node_gpu_makers(node)
    if makers is None or announcers([node]).vendors:
        return
    says = "has a GPU by its labels and announces none, and nothing in the cluster would"
    yield from _announced(node.root.at("metadata", "labels"), makers, context, says, "")


def _announced(
    place: Field, makers: frozenset[Vendor], context: Context, says: str, lacks_besides: str
) -> Verdicts:
    """A remark where no program announces the GPUs of these makers, or of any maker where none is named."""
    found = announcers(context.of_kind(*ANNOUNCING_KINDS))
    if context.cluster is not None:
        found |= context.cluster.announcers
    if found.vendors and makers <= found.vendors:
        return
    lacks = _unknown(found, context) or lacks_besides
    if lacks:
        yield Unjudged(place, lacks)
    else:
        names = " and ".join(sorted(one.value for one in makers - found.vendors))
        yield RuleFinding(place, f"{says} ({names})" if names else says, _PLUGIN_ADVICE)


def _unknown(found: Announcers, context: Context) -> str:
    """What would have to be known to say that no program announces them; empty if it is known."""
    cluster = context.cluster
    if cluster is None or not cluster.knows("DaemonSet"):
        return cluster_needed("daemonsets", "clusterpolicies")
    if found.unknown:
        return f"what {found.unknown[0]} announces, whose image is not known"
    if found.has_feature_discovery and not cluster.knows("ClusterPolicy"):
        return cluster_needed("clusterpolicies")
    return ""


def _eksctl_group(group: EksctlGroup) -> Verdicts:
    if not (group.has_gpus and group.starts_empty and group.untold):
        return
    if group.is_managed:
        yield Unjudged(group.field, _RIGHTS_NEEDED)
    else:
        says = (
            f"node group {group.name} starts from nothing, and no tag tells the autoscaler what it would have"
        )
        advice = f"set propagateASGTags: true, or tags such as {group.untold[0]}"
        yield RuleFinding(group.field, says, advice)


def _machine_group(group: MachineGroup) -> Verdicts:
    if not (group.starts_empty and group.has_gpus):
        return
    annotations = group.manifest.root.at("metadata", "annotations")
    told = [name for name in (GPU_TYPE, GPU_COUNT, DRA_DRIVER) if group.manifest.annotation(name)]
    if group.reports_gpus or (GPU_COUNT in told and len(told) > 1):
        return
    if told or group.capacity is not None:
        missing = [name for name in (GPU_TYPE, GPU_COUNT) if name not in told]
        says = "starts from nothing, and the autoscaler does not know that a new node would have GPUs"
        yield RuleFinding(annotations, says, f"annotate it with {' and '.join(missing)}")
    else:
        yield Unjudged(annotations, f"{_CAPACITY_NEEDED}, or the annotations {GPU_TYPE} and {GPU_COUNT}")


def _template(group: Manifest, context: Context) -> Manifest | None:
    reference = group.root.at("spec", "template", "spec", "infrastructureRef")
    name = reference.at("name").text
    return next((one for one in _of_kind(context, reference.at("kind").text or "") if one.name == name), None)


def _of_kind(context: Context, kind: str) -> Iterator[Manifest]:
    yield from context.of_kind(kind)
    if context.cluster is not None:
        yield from context.cluster.of_kind(kind)


RULE = Rule("GPU050", "GPU nodes without taint, plugin or tags", Severity.WARNING, check, concerns=_concerns)
