"""No readable report tells which GPUs of the node are free."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import harmless

BIT = 1 << 5


def finding(case: Case) -> Finding:
    """Why nothing tells which GPUs are free: the report was deleted, is not served, or cannot be read."""
    names, known = [node.name for node in case.near], case.details
    bad = [problem for name in names if (problem := known.unread_report(name))]
    why = f"nothing tells which GPUs of {case.near_names} are free: "
    first = harmless(names[0])
    if not known.reports_are_served():
        why += f"the server does not serve {known.names.reports}, in which agents report them"
        ways = ["install gpufleet's definitions again: helm upgrade, or kubectl apply of its manifests"]
    elif bad:
        why += f"their report cannot be read: {bad[0]}"
        ways = [f"correct that field, or let the agent write it anew: kubectl delete nodedevices {first}"]
    else:
        by_id = any(any(one.devices) for one in case.placed if one.node in names)
        why += "there is no NodeDevices of that name"
        why += ", and what runs there holds GPUs by their ids" if by_id else ""
        ways = []
    look = f"kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName={first}"
    ways.append(f"see whether gpufleet's agent runs there, and what its log says: {look}")
    if not bad and known.names.gpu_health:
        ways.append(
            f"where no agent is to run any more, take its condition {known.names.gpu_health} off the Node"
        )
    return Finding(why, tuple(ways))


REASON = NodeReason(
    "gpu-unreported",
    BIT,
    height=5,
    kind=Kind.CHANGE,
    words="without a readable report of their GPUs (NodeDevices)",
    remedy="their agents reported their GPUs again",
    finding=finding,
)
