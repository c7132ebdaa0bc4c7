"""No pod that the pod must be near runs in the node's domain."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.free_room import PlacedPod
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.other_pods import named, selects
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import harmless, listed
from gpufleet.model.pod_affinity import PodTerm

BIT = 1 << 25


def finding(case: Case) -> Finding:
    """Which pods it must be near, and where they are."""
    for term in case.shape.relations.affinity:
        if not any(selects(case, term, one.pod) for one in case.placed):
            return _no_such_pod(case, term)
    term = case.shape.relations.affinity[0]
    near = [one for one in case.placed if selects(case, term, one.pod)]
    labels = {node.name: node.labels for node in case.nodes}
    domains = listed(sorted({labels.get(one.node, {}).get(term.topology_key, "") for one in near}))
    share = f"it must share {harmless(term.topology_key)} with {named(near)} ({domains})"
    why = f"{share}, and there is no room there"
    return Finding(why, (f"make room where {harmless(term.topology_key)} is {domains}",))


def _no_such_pod(case: Case, term: PodTerm) -> Finding:
    requirements = () if term.selector is None else term.selector.requirements
    asked = " and ".join(map(str, requirements)) or "any label"
    why = f"it must share {harmless(term.topology_key)} with a pod that has {asked}, and no such pod runs"
    ways = ["start such a pod first, or use preferred affinity"]
    for one in requirements:
        values = _values(case.placed, one.key)
        meant = [nearest(value, values) for value in one.values]
        ways = [f"did you mean {one.key}: {harmless(value)}?" for value in meant if value] + ways
        if not values:
            key = nearest(one.key, {key for other in case.placed for key, _ in other.pod.labels})
            ways = ([f"did you mean the label {harmless(key)}?"] if key and key != one.key else []) + ways
    return Finding(why, tuple(ways))


def _values(placed: list[PlacedPod], key: str) -> list[str]:
    """The values of a label of pods, each once."""
    values = (dict(one.pod.labels).get(key) for one in placed)
    return list(dict.fromkeys(value for value in values if value))


REASON = NodeReason(
    "pod-affinity",
    BIT,
    height=4,
    kind=Kind.UNMET,
    words="away from the pods that the pod must be near",
    remedy="it can run once a pod that it must be near runs where there is room",
    finding=finding,
)
