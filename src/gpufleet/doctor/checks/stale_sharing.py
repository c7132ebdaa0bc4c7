"""Nodes that offer their GPUs otherwise than their plugin's configuration says: an edit was not taken up."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.sharing import Declared, declared_for
from gpufleet.doctor.views.stack import stack_of
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.model.phrases import subject


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """The nodes by configuration and difference."""
    stack = stack_of(facts)
    different: dict[tuple[str, str], list[tuple[NodeView, Declared]]] = {}
    followed = 0
    for node in facts.gpu_nodes:
        declared = declared_for(facts, stack, node)
        if declared is None or declared.expected is None or not node.is_ready or not node.offers:
            continue
        seen = {name: node.capacity.get(name, 0) for name in declared.expected}
        if seen == declared.expected:
            followed += 1
        # The agent changes a GPU when its holders have ended: that is no fault.
        elif declared.is_agents and any(one.asks_for_gpu for one in facts.pods_by_node.get(node.name, ())):
            yield Unjudged(f"{node.name}: GPUs that pods hold change their sharing when these have ended")
        else:
            key = declared.where, _words(declared.expected, seen)
            different.setdefault(key, []).append((node, declared))
    for (_, words), nodes in different.items():
        yield _failure(facts, words, [node for node, _ in nodes], nodes[0][1])
    if followed and not different:
        yield Good(f"{subject(followed, 'node', 'offer')} GPUs as the configuration of the plugin there says")


def _words(expected: dict[str, int], seen: dict[str, int]) -> str:
    wrong = {name: count for name, count in expected.items() if seen[name] != count}
    return ", ".join(
        f"{count} {name} are configured, {seen[name]} are offered" for name, count in wrong.items()
    )


def _failure(facts: Facts, words: str, nodes: list[NodeView], declared: Declared) -> Failure:
    names = [one.name for one in nodes]
    daemon = declared.daemon.manifest
    restart = f"kubectl rollout restart daemonset -n {daemon.namespace} {daemon.name}"
    why = (
        "the agent follows edits: read what it says"
        if declared.is_agents
        else "the plugin reads it at its start only"
    )
    return Failure(
        f"{listed(names)}: sharing is not as {declared.where} says: {words}",
        tuple(one.title for one in nodes),
        (f"{declared.where}, read by {daemon.title}", f"each node: {words}"),
        (
            Remedy(
                why,
                f"kubectl logs -n {daemon.namespace} daemonset/{daemon.name}"
                if declared.is_agents
                else restart,
            ),
        ),
        frozenset(one.title for one in nodes) | held_up_by(facts, nodes),
    )


CHECK = Check(
    "sharing-stale",
    Point.SHARING,
    Layer.STACK,
    "GPUs are shared as configured",
    "NVIDIA's plugin does not see an edit of its ConfigMap; until it is restarted the old sharing goes on.",
    judge,
    ("Node", "DaemonSet", "Pod", "ConfigMap"),
)
