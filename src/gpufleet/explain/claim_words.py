"""What nodes say to the claims of a pod, in words: why it waits for devices, and ways out."""

from collections import Counter
from collections.abc import Sequence

from gpufleet.cluster.claims.devices import Devices
from gpufleet.dra_allocation.diagnosis import ChoiceDiagnosis
from gpufleet.dra_allocation.obstacles import ObstacleKind, taint_words
from gpufleet.dra_allocation.slices import DeviceId
from gpufleet.dra_allocation.ways_out import (
    Change,
    FewerDevices,
    HoldersEnd,
    LessCapacity,
    Tolerating,
    WithoutConstraint,
    WithoutSelector,
)
from gpufleet.explain.answer import NearRow, ReasonRow
from gpufleet.explain.claim_nodes import (
    ELSEWHERE,
    NEAREST_MAX,
    NO_DEVICE,
    POOL,
    TOGETHER,
    Judgement,
    NodeRefusal,
)
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, listed, subject, verb

WORDS_BY_REASON = {
    ELSEWHERE: "where devices that its claims have already cannot be used",
    NO_DEVICE: "without devices in a ResourceSlice",
    POOL: "with a pool of devices that is being changed, or is invalid",
    TOGETHER: "whose devices would do one by one, and not together",
    ObstacleKind.SELECTOR.value: "whose devices the selectors do not select",
    ObstacleKind.NODE.value: "which do not reach the devices that would do",
    ObstacleKind.ATTRIBUTE.value: "whose devices lack an attribute that a constraint compares",
    ObstacleKind.CAPACITY.value: "whose devices have less than the claim asks for",
    ObstacleKind.UNSERVED.value: "whose devices are to be used without the kubelet, which is not served",
    ObstacleKind.TAINT.value: "whose devices have taints that the claim does not tolerate",
    ObstacleKind.GROUP.value: "where other compatibility groups hold the counters of the devices",
    ObstacleKind.DEPARTED.value: "where a held device has left its slice, so counters are not known",
    ObstacleKind.COUNTER.value: "where too little is left of a counter that devices share",
    ObstacleKind.ROOM.value: "whose shared devices have too little room left",
    ObstacleKind.HELD.value: "whose devices are held by other claims",
}
"""Of nodes: "3  whose devices are held by other claims"."""

WORDS_BY_KIND = {
    ObstacleKind.SELECTOR: "not selected by",
    ObstacleKind.NODE: "not reached from the node",
    ObstacleKind.ATTRIBUTE: "without the attribute",
    ObstacleKind.CAPACITY: "too small:",
    ObstacleKind.UNSERVED: "for use without the kubelet",
    ObstacleKind.TAINT: "tainted with",
    ObstacleKind.GROUP: "of another compatibility group than those in use",
    ObstacleKind.DEPARTED: "short of counters that may be drawn on by a device that left its slice,",
    ObstacleKind.COUNTER: "short of the counter",
    ObstacleKind.ROOM: "without room:",
    ObstacleKind.HELD: "held by other claims",
}
"""Of devices: "3 are held by other claims"."""

DETAIL_MAX = 160
"""Of a selector, in characters: a selector may have ten thousand."""

KINDS_MAX = 3
"""Kinds of obstacles that a sentence tells; ``-o json`` has the reasons of all nodes."""

WAYS_MAX = 5
"""Ways out that an answer tells: those of the nearest nodes come first."""


def why(judgement: Judgement) -> str:
    """Why no node serves the claims, told of the node that comes nearest."""
    if not judgement.refused:
        return "the cluster has no nodes"
    first = judgement.refused[0]
    if not first.lacking:
        words = WORDS_BY_REASON[first.reasons[0]]
        problem = f" ({first.problem})" if first.problem else ""
        return f"no node serves its claims; nearest is {harmless(first.node)}, one {words}{problem}"
    node = harmless(first.node)
    said = "; ".join(_lacking(one, node) for one in first.lacking)
    return f"no node serves its claims; {node} comes nearest: {said}"


def served_by(judgement: Judgement) -> str:
    """A sentence that there are devices for the claims, and where."""
    number = len(judgement.serving)
    return f"{subject(number, 'node', 'have')} devices for its claims ({listed(judgement.serving)})"


def ways(judgement: Judgement, devices: Devices) -> list[str]:
    """Changes that were tried, in words, each once."""
    found = [_change(one.change, harmless(one.node), devices) for one in judgement.changes]
    return list(dict.fromkeys(found))[:WAYS_MAX]


def reason_rows(judgement: Judgement) -> tuple[ReasonRow, ...]:
    """The reasons with their nodes; a node counts first under the reason of its nearest device."""
    first = Counter(one.reasons[0] for one in judgement.refused)
    nodes: dict[str, list[str]] = {}
    for one in judgement.refused:
        for reason in one.reasons:
            nodes.setdefault(reason, []).append(one.node)
    order = sorted(nodes, key=lambda reason: (-first[reason], reason))
    return tuple(
        ReasonRow(
            f"claim-{one}", WORDS_BY_REASON[one], first[one], len(nodes[one]), tuple(sorted(nodes[one]))
        )
        for one in order
    )


def near_rows(judgement: Judgement, devices: Devices) -> tuple[NearRow, ...]:
    """The nodes that come nearest, how many devices of which request are missing, and the claims there."""
    return tuple(
        NearRow(
            one.node,
            tuple(f"claim-{reason}" for reason in one.reasons),
            {choice.request: choice.lacking for choice in one.lacking},
            tuple(_holders(one, devices)),
        )
        for one in judgement.refused[:NEAREST_MAX]
    )


def _holders(refusal: NodeRefusal, devices: Devices) -> list[str]:
    here: set[DeviceId] = {device for one in refusal.lacking for device in one.refused}
    return sorted(
        path
        for path, allocation in devices.allocations.items()
        if any(device.id in here for device in allocation.devices)
    )


def _lacking(one: ChoiceDiagnosis, node: str) -> str:
    """What devices of a node have against a request."""
    every = len(one.serving) + len(one.refused)
    wanted = "all devices" if one.count is None else counted(one.count, "device")
    has = f"{len(one.serving)} of {counted(every, 'device')} of {node} would do"
    name = f"request {harmless(one.request)} of claim {harmless(one.claim)}"
    text = f"{name} asks for {wanted} of class {harmless(one.class_name)}, and {has}"
    kinds = Counter(against[0].kind for against in one.refused.values())
    parts = [_obstacle(one, kind, number) for kind, number in kinds.most_common(KINDS_MAX)]
    return f"{text}: {', '.join(parts)}" if parts else text


def _obstacle(one: ChoiceDiagnosis, kind: ObstacleKind, number: int) -> str:
    details = [
        (device.device, each.detail)
        for device, against in one.refused.items()
        for each in against[:1]
        if each.kind is kind
    ]
    text = f"{number} {verb(number, 'are')} {WORDS_BY_KIND[kind]}"
    device, detail = details[0]
    if not detail:
        return text
    same = len({each for _, each in details}) == 1
    example = "" if same and number > 1 else f" ({harmless(device)})"
    return f"{text} {_plain(detail)}{example}"


def _change(change: Change, node: str, devices: Devices) -> str:
    match change:
        case HoldersEnd(claims):
            return f"{node} has the devices for it when {_ends(claims, devices)}"
        case WithoutConstraint(claim, constraint):
            kind = "distinctAttribute" if constraint.is_distinct else "matchAttribute"
            what = f"leave out {kind} {harmless(constraint.attribute)}"
            return f"{what} {_in(claim)}: {node} has the devices then"
        case WithoutSelector(claim, request, selector):
            what = f"leave out the selector {_plain(selector)} of request {harmless(request)}"
            return f"{what} {_in(claim)}: {node} has the devices then"
        case Tolerating(claim, request, taint):
            what = f"tolerate {_plain(taint_words(taint))} in request {harmless(request)}"
            return f"{what} {_in(claim)}: {node} has the devices then"
        case FewerDevices(claim, request, count):
            what = f"ask for {counted(count, 'device')} in request {harmless(request)}"
            return f"{what} {_in(claim)}: {node} has so many"
        case LessCapacity(claim, request, capacity, amount):
            what = f"ask for {amount} of {harmless(capacity)} in request {harmless(request)}"
            return f"{what} {_in(claim)}: {node} has so much"


def _plain(text: str) -> str:
    """The text as it is written; quoted where it could forge a line, and cut where it is long."""
    return listed([text]) if len(text) <= DETAIL_MAX else printable(text, DETAIL_MAX)


def _in(claim: str) -> str:
    return f"(a claim is made anew for that: {harmless(claim)})"


def _ends(claims: Sequence[str], devices: Devices) -> str:
    users = [name for path in claims for name in devices.users.get(path, ())]
    of = f" (in use by {listed(users)})" if users else " (in use by no pod)"
    gives, its = ("gives", "its devices") if len(claims) == 1 else ("give", "their devices")
    return f"{'claim' if len(claims) == 1 else 'claims'} {listed(claims)}{of} {gives} back {its}"
