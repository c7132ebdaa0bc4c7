"""What each node has to say to the claims of a pod: devices for them, or what stands in the way there.

Claims alone are judged, with the allocator whose answers are those of Kubernetes' own: a node with devices
for them may be short of something else. ``claim_words`` puts it in words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpufleet.cluster.claims.devices import Devices
from gpufleet.cluster.claims.pod_claims import PodClaims
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.diagnosis import NO_DEVICE_COST, ChoiceDiagnosis
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.obstacles import ObstacleKind
from gpufleet.dra_allocation.results import Allocation, Refusal
from gpufleet.dra_allocation.slices import NodeFacts
from gpufleet.dra_allocation.ways_out import Change, ways_out

NEAREST_MAX = 3
"""Of so many nodes the ways out are looked for: each takes dozens of attempts."""

ELSEWHERE = "elsewhere"
NO_DEVICE = "none"
POOL = "pool"
TOGETHER = "together"
"""Reasons of nodes besides the obstacles of devices."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """A node that cannot serve the claims: reasons by name, the first that of the nearest device.

    ``lacking`` has of each request that is not served the choice that comes nearest.
    """

    node: str
    reasons: tuple[str, ...]
    cost: int
    lacking: tuple[ChoiceDiagnosis, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A change that makes a node serve the claims."""

    node: str
    change: Change


@dataclass(frozen=True, slots=True)
class Judgement:
    """The nodes that serve the claims and those that do not, the nearest first."""

    serving: tuple[str, ...]
    refused: tuple[NodeRefusal, ...]
    changes: tuple[NodeChange, ...] = ()


def judge(claims: PodClaims, nodes: Sequence[NodeFacts], devices: Devices) -> Judgement:
    """Every node's word. Raises ClaimError where a claim can be served nowhere as it is written."""
    held = HeldDevices.of(devices.allocations.values())
    serving, refused, allocators = [], [], {}
    for node in nodes:
        allocator = Allocator(node.name, devices.slices.pools(node), devices.classes)
        found = _refusal(allocator, claims, node, held)
        if found is None:
            serving.append(node.name)
        else:
            refused.append(found)
            allocators[node.name] = allocator
    refused.sort(key=lambda one: (one.cost, one.node))
    if serving:
        return Judgement(tuple(serving), tuple(refused))
    changes = tuple(_changes(refused[:NEAREST_MAX], allocators, claims, devices.allocations))
    return Judgement((), tuple(refused), changes)


def _refusal(
    allocator: Allocator, claims: PodClaims, node: NodeFacts, held: HeldDevices
) -> NodeRefusal | None:
    bound = [one.nodes for one in claims.allocated.values() if one.nodes is not None]
    if not all(term.accepts(node.labels, node.name) for term in bound):
        # Farther than any node without devices: what the pod has already is bound elsewhere.
        return NodeRefusal(node.name, (ELSEWHERE,), 2 * NO_DEVICE_COST)
    found = allocator.allocate(claims.waiting, held)
    if not isinstance(found, Refusal):
        return None
    problem = next(iter(allocator.problems), "")
    if not allocator.candidates:
        return NodeRefusal(node.name, (POOL if problem else NO_DEVICE,), NO_DEVICE_COST + 1, (), problem)
    requests = allocator.diagnosis(claims.waiting, held)
    nearest = [min(choices, key=lambda one: one.cost) for choices in requests]
    lacking = tuple(one for one in nearest if one.lacking)
    reasons = list(dict.fromkeys(_reasons(lacking))) or [POOL if problem else TOGETHER]
    return NodeRefusal(node.name, tuple(reasons), sum(one.cost for one in lacking), lacking, found.reason)


def _reasons(lacking: Sequence[ChoiceDiagnosis]) -> Iterator[str]:
    """The hardest obstacles of the nearest devices first, then those of other devices."""
    for one in lacking:
        nearest = one.nearest
        if nearest is not None:
            yield nearest[1][0].kind.value
    kinds = {each.kind for one in lacking for against in one.refused.values() for each in against}
    yield from (kind.value for kind in ObstacleKind if kind in kinds)


def _changes(
    nearest: Sequence[NodeRefusal],
    allocators: Mapping[str, Allocator],
    claims: PodClaims,
    holders: Mapping[str, Allocation],
) -> Iterator[NodeChange]:
    for refusal in nearest:
        if ELSEWHERE in refusal.reasons:
            continue
        # Devices that the pod's own claims have stay with them.
        found = ways_out(allocators[refusal.node], claims.waiting, holders, claims.allocated)
        for change in found:
            yield NodeChange(refusal.node, change)
