"""A node that forgets, under the auditor: pods as API objects, what runs with which units, what is listed."""

import itertools

from gpufleet.agent.state.node_state import NodePod
from gpufleet.auditor.audit import Audit
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.record import PODS, Document, Write
from gpufleet.auditor.rules import Evidence, Given, Rules, Seen
from gpufleet.kube.codec.grant import write_grant
from tests.agent.forgetful_node import ForgetfulNode

NODE = "node"


def twice(node: ForgetfulNode) -> list[Finding]:
    """Every unit that is in two containers, or that the kubelet gave to two pods, as the auditor finds it."""
    audit = Audit(Rules())
    for pod in node.api.values():
        audit.follow(Write(PODS, _document(pod, node)))
    seen = tuple(Seen(uid, container, units) for (uid, container), units in sorted(node.using.items()))
    given = tuple(
        Given(
            NODE,
            f"{node.api[uid].namespace}/{node.api[uid].name}",
            container,
            node.resource,
            frozenset(units),
        )
        for (uid, container), units in sorted(node.listed.items())
        if uid in node.api
    )
    return [one for one in audit.at_rest(Evidence(given, seen)) if one.promise == "I1"]


def _document(pod: NodePod, node: ForgetfulNode) -> Document:
    notes = {} if pod.grant is None else {"gpufleet.io/grant": write_grant(pod.grant)}
    runs = any(uid == pod.uid for uid, _ in node.using)
    phase = "Succeeded" if pod.finished else "Running" if runs else "Pending"
    asked = [
        {"name": name, "resources": {"limits": {key: str(count) for key, count in amounts.items()}}}
        for name, amounts in pod.requests.items()
    ]
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "annotations": notes}
    return {"metadata": metadata, "spec": {"nodeName": NODE, "containers": asked}, "status": {"phase": phase}}


def pairs(findings: list[Finding]) -> set[tuple[str, str]]:
    """Who has what another has, too."""
    return {pair for one in findings for pair in itertools.combinations(sorted(one.objects), 2)}
