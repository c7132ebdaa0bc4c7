"""The part of an answer that is about the claims of a pod: whether the cluster has devices for them.

The engine says which nodes have no devices for the claims. What stands in the way of each device is said
here, also of a pod that is left to Kubernetes' own scheduler.
"""

import msgspec

from gpufleet.cluster.claims.devices import read_devices
from gpufleet.cluster.claims.extended_resources import special_claim_of
from gpufleet.cluster.claims.pod_claims import claims_of
from gpufleet.cluster.claims.usable_claims import named_claims
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.watching.mirrors import CLAIM_KINDS
from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.slices import NodeFacts
from gpufleet.engine.node_reasons import claim_devices, claim_elsewhere
from gpufleet.explain import claim_words
from gpufleet.explain.answer import Answer, State
from gpufleet.explain.claim_nodes import judge
from gpufleet.kube import resources
from gpufleet.kube.codec.device_preparation import preparation_of
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.phrases import counted, listed

CAUSES = frozenset((claim_devices.REASON.name, claim_elsewhere.REASON.name))
"""The causes of our pods that are about devices for claims."""

CLAIMS_ALONE = "of nodes its claims alone were judged, not CPU, memory, taints of nodes or affinity"


def with_claims(answer: Answer, facts: Facts, pod: Pod) -> Answer:
    """The answer with what is said of the pod's claims."""
    picture = facts.picture
    kinds = {one.kind for one in CLAIM_KINDS}
    forbidden = kinds.intersection(picture.forbidden)
    # A server that does not serve rules of taints has none, which leaves no gap.
    unread = forbidden or kinds.intersection(picture.absent) - {resources.DEVICE_TAINT_RULES}
    if unread:
        names = listed(sorted(kind.plural for kind in unread))
        why = "you may not list" if forbidden else "the cluster does not serve"
        return _added(answer, notes=[f"{why} {names}: whether there are devices for its claims is not known"])
    devices = read_devices(picture)
    claims = claims_of(pod, picture, devices)
    special = special_claim_of(pod, picture)
    if special is not None:
        path = special.asks.path
        if path in devices.allocations:
            claims.allocated[path] = devices.allocations[path]
        else:
            claims.waiting.append(special.asks)
    unreadable = counted(len(devices.problems), "object")
    notes = (
        [f"of claims and devices {unreadable} cannot be read: {devices.problems[0]}"]
        if devices.problems
        else []
    )
    if claims.problems:
        return _added(answer, "; ".join(claims.problems), claims.ways, notes)
    if not claims.waiting and not claims.allocated:
        return answer
    nodes = [
        NodeFacts(node.metadata.name, node.metadata.labels) for node in facts.picture.all(resources.NODES)
    ]
    try:
        found = judge(claims, nodes, devices)
    except ClaimError as error:
        way = "correct it in a new claim: as it is, no node can serve it"
        return _added(answer, str(error), [way], notes)
    if found.serving:
        return _added(answer, claim_words.served_by(found), [], [*notes, CLAIMS_ALONE])
    whole = _added(answer, claim_words.why(found), claim_words.ways(found, devices), [*notes, CLAIMS_ALONE])
    if answer.state is not State.FOREIGN:
        return whole
    return msgspec.structs.replace(
        whole,
        nodes=len(nodes),
        reasons=claim_words.reason_rows(found),
        nearest=claim_words.near_rows(found, devices),
    )


def with_preparation(answer: Answer, facts: Facts, pod: Pod) -> Answer:
    """The answer for a pod with a place, where devices of its claims are made ready before it is bound."""
    found = [
        (claim, preparation_of(claim))
        for path in named_claims(pod)
        if (
            claim := facts.picture.find(
                resources.RESOURCE_CLAIMS, path.partition("/")[2], path.partition("/")[0]
            )
        )
        and any(user.uid == pod.metadata.uid for user in claim.status.reserved_for)
    ]
    said = [(claim.metadata.name, words) for claim, one in found for words in (*one.failed, *one.awaited)[:1]]
    if not said:
        return answer
    name, words = said[0]
    why = f"it is bound once devices of its ResourceClaim {harmless(name)} are ready: {words}"
    driver = words.partition(" of device ")[2].partition("/")[0]
    way = f"see the driver {driver}: it makes the device ready, and sets that condition in the claim's status"
    return msgspec.structs.replace(answer, why=why, way_out=(way,))


def _added(
    answer: Answer, why: str = "", ways: list[str] | None = None, notes: list[str] | None = None
) -> Answer:
    return msgspec.structs.replace(
        answer,
        why=f"{answer.why}; {why}" if answer.why and why else answer.why or why,
        way_out=(*(ways or ()), *answer.way_out),
        notes=(*answer.notes, *(notes or ())),
    )
