"""Another pod uses a claim that is for one pod at a time (ReadWriteOncePod)."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.other_pods import named
from gpufleet.model.phrases import listed

BIT = 1 << 21


def finding(case: Case) -> Finding:
    """Which claim is in use, and by which pod."""
    claims = case.shape.relations.volumes.exclusive
    users = [one for one in case.placed if set(claims) & set(one.pod.shape.relations.volumes.exclusive)]
    why = f"claim {listed(claims)} is ReadWriteOncePod, and {named(users)} uses it"
    ways = (f"wait until {named(users)} ends", "make the claim ReadWriteOnce or ReadWriteMany to share it")
    return Finding(why, ways)


REASON = NodeReason(
    "volume-in-use",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="ruled out because another pod uses a claim that is for one pod at a time",
    remedy="another pod uses the claim",
    finding=finding,
)
