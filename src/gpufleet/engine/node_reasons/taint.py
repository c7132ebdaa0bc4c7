"""The node has a taint that the pod does not tolerate."""

from collections import Counter
from collections.abc import Iterable, Iterator

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_not_ready import is_of_readiness
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.node import Node
from gpufleet.model.phrases import counted, harmless, listed
from gpufleet.model.shape import Shape
from gpufleet.model.taint import Taint, tolerates

BIT = 1 << 1

# Taints of this prefix tell of a node's state: they are no wish of a person.
BY_KUBERNETES = "node.kubernetes.io/"


def finding(case: Case) -> Finding:
    """The taints that are not tolerated."""
    found = Counter(taint for node in case.near for taint in repelling(case.shape, node))
    taints = listed(str(taint) for taint in found)
    why = f"{counted(len(case.near), 'node')} would do, but for a taint that it does not tolerate: {taints}"
    ways = list(tolerations(found))
    ways += [
        f"mend what {harmless(taint.key)} stands for on {case.near_names}"
        for taint in found
        if taint.key.startswith(BY_KUBERNETES)
    ]
    return Finding(why, tuple(ways))


def repelling(shape: Shape, node: Node) -> list[Taint]:
    """The taints of a node that the pod does not tolerate, without those of a node that is not ready."""
    return [
        taint
        for taint in node.taints_beside_cordon
        if taint.repels and not is_of_readiness(taint)
        if not any(tolerates(one, taint) for one in shape.tolerations)
    ]


def detail(case: Case) -> str:
    """How many nodes have each of the taints."""
    barred = [node for node in case.nodes if "taint" in case.by_node.get(node.name, ())]
    taints = Counter(str(taint) for node in barred for taint in repelling(case.shape, node))
    return listed(f"{taint} on {count}" for taint, count in taints.most_common())


def tolerations(taints: Iterable[Taint]) -> Iterator[str]:
    """What to add to the pod for these taints, as far as a person may want them tolerated."""
    for taint in taints:
        if not taint.key.startswith(BY_KUBERNETES):
            # In quotes: without them YAML reads true and 1 as no text, and the API server refuses the pod.
            how = f'operator: Equal, value: "{taint.value}"' if taint.value else "operator: Exists"
            yield f"add to its tolerations: {{key: {taint.key}, {how}, effect: {taint.effect}}}"


REASON = NodeReason(
    "taint",
    BIT,
    height=6,
    kind=Kind.CHANGE,
    words="tainted, and the pod does not tolerate it",
    remedy="the pod tolerated their taint",
    finding=finding,
    detail=detail,
)
