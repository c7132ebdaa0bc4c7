"""Nodes that have GPUs, of which the kubelet offers none because no device plugin comes there."""

import json
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.growth import is_joining
from gpufleet.doctor.views.offers import nodes_with_slices
from gpufleet.doctor.views.stack import Daemon, StackPart, stack_of
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.doctor.views.warnings import warnings_of
from gpufleet.model.phrases import each_of
from gpufleet.model.taint import Taint

_INSTALL = Remedy(
    "install a device plugin: gpufleet's agent, or NVIDIA's GPU operator",
    "helm install gpufleet charts/gpufleet --namespace gpufleet-system --create-namespace",
)


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """Nodes that offer no GPU, by why no plugin is on them."""
    stack, slices = stack_of(facts), nodes_with_slices(facts)
    plugins = stack.having(StackPart.PLUGIN)
    bare = [one for one in facts.gpu_nodes if one.is_ready and not one.offers and one.name not in slices]
    joining = [one for one in bare if is_joining(one, facts.now)]
    if joining:
        yield Unjudged(f"{listed(one.name for one in joining)}: came lately, no GPU is offered yet")
    served = len(facts.gpu_nodes) - len(bare)
    late = [one for one in bare if not is_joining(one, facts.now)]
    without = [one for one in late if not stack.pods_on(one, StackPart.PLUGIN)]
    titled = {one.title: one for one in plugins}
    for (title, unmet, taint), nodes in _by_reason(without, plugins).items():
        yield _failure(facts, nodes, titled.get(title), unmet, taint)
    if served and not bare:
        yield Good(f"a device plugin has told the kubelet of GPUs on {each_of(served, 'node')}")


_Reason = tuple[str, str, Taint | None]
"""The title of a plugin, empty if there is none, the label it misses, and the taint that keeps it out."""


def _by_reason(nodes: list[NodeView], plugins: tuple[Daemon, ...]) -> dict[_Reason, list[NodeView]]:
    """The nodes by the plugin that ought to be there, the label it misses, the taint that keeps it out."""
    found: dict[_Reason, list[NodeView]] = {}
    for node in nodes:
        reason = _reason(node, [one for one in plugins if one.serves(node)])
        # Where the kubelet had a plugin and none ought to come, it was removed: that is another check's.
        if reason[0] or not any(node.capacity.values()):
            found.setdefault(reason, []).append(node)
    return found


def _reason(node: NodeView, plugins: list[Daemon]) -> _Reason:
    if not plugins:
        return ("", "", None)
    # A plugin that selects the node, and is only kept away by a taint, is nearer to it than any other.
    chosen = next((one for one in plugins if not one.unmet(node)), plugins[0])
    return (chosen.title, chosen.unmet(node), chosen.repelled_by(node))


def _failure(
    facts: Facts, nodes: list[NodeView], plugin: Daemon | None, unmet: str, taint: Taint | None
) -> Failure:
    names = [one.name for one in nodes]
    seen = [f"{one.name}: {one.promise or 'GPUs in its capacity'}, and no GPU to give" for one in nodes]
    if plugin is None:
        says = "GPUs, and no device plugin that offers them"
        mends: tuple[Remedy, ...] = (_INSTALL,)
        seen.append("no DaemonSet of the cluster is a device plugin for them")
    else:
        why, mends = _kept_away(facts, plugin, names, unmet, taint)
        says = f"GPUs, and {plugin.title} does not come there: {why}"
        wanted = plugin.manifest.root.text_at("status", "desiredNumberScheduled")
        seen.append(f"{plugin.title}: status.desiredNumberScheduled {wanted or 'not told'}")
    return Failure(
        f"{listed(names)}: {says}",
        tuple(one.title for one in nodes),
        tuple(seen),
        mends,
        frozenset(one.title for one in nodes) | held_up_by(facts, nodes),
    )


def _kept_away(
    facts: Facts, plugin: Daemon, names: list[str], unmet: str, taint: Taint | None
) -> tuple[str, tuple[Remedy, ...]]:
    """Why a plugin does not come to the nodes, and what lets it."""
    place = f"-n {plugin.manifest.namespace} {plugin.manifest.name}"
    if unmet:
        ways = Remedy(
            "let its selector match the nodes: label them, or change the selector where it is installed",
            f"kubectl get nodes {' '.join(names)} --show-labels",
        )
        return f"its pods select {unmet}", (ways,)
    if taint is not None:
        has_some = bool(plugin.template.tolerations)
        value: dict[str, object] = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        path = "/spec/template/spec/tolerations" + ("/-" if has_some else "")
        patch = json.dumps([{"op": "add", "path": path, "value": value if has_some else [value]}])
        mend = Remedy(
            f"let it tolerate {taint}; where a chart or an operator made it, in its values",
            f"kubectl patch daemonset {place} --type=json -p '{patch}'",
        )
        return f"its pods do not tolerate {taint}", (mend,)
    told = [one.message for one in warnings_of(facts) if one.is_about(plugin.manifest)]
    why = f"its pods cannot be made: {told[-1]}" if told else "nothing in its selector or in taints says why"
    return why, (Remedy("see what the DaemonSet says", f"kubectl describe daemonset {place}"),)


CHECK = Check(
    "plugin-missing",
    Point.STACK,
    Layer.STACK,
    "A device plugin serves every GPU node",
    "The kubelet learns of GPUs from a device plugin alone; without one the node offers none, and pods wait.",
    judge,
    ("Node", "DaemonSet", "Pod"),
)
