"""Causes of nodes that cannot be relied on: no readable report tells their GPUs, because it was deleted, is
not served, or is bad; or their kubelet turned pods away.
"""

import datetime as dt

from gpufleet.explain.answer import Finding
from gpufleet.explain.case import Case, Explain
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.lasting_conditions import START_OF_1970
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.objects.node import GPU_HEALTHY
from gpufleet.model.phrases import listed

DEFINITION = f"{resources.NODE_DEVICES.plural}.{resources.NODE_DEVICES.group}"
"""The name of the CustomResourceDefinition that a person has to look for."""


def unreported(case: Case) -> Finding:
    """Nodes on which devices are given out by id, or an agent watches them, without a report of them now."""
    names = [node.name for node in case.near]
    unread = case.facts.unread_reports()
    bad = [unread[name] for name in names if name in unread]
    why = f"nothing tells which GPUs of {listed(names)} are free: "
    first = harmless(names[0])
    if resources.NODE_DEVICES in case.facts.picture.absent:
        why += f"the server does not serve {DEFINITION}, in which agents report them"
        ways = ["install gpufleet's definitions again: helm upgrade, or kubectl apply of its manifests"]
    elif bad:
        why += f"their report cannot be read: {bad[0]}"
        ways = [f"correct that field, or let the agent write it anew: kubectl delete nodedevices {first}"]
    else:
        why += "there is no NodeDevices of that name, and what runs there holds GPUs by their ids"
        if not any(case.facts.pods.held_on(node.name).by_id for node in case.near):
            why = (
                f"nothing tells which GPUs of {listed(names)} are free: there is no NodeDevices of that name"
            )
        ways = []
    look = f"kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName={first}"
    ways.append(f"see whether gpufleet's agent runs there, and what its log says: {look}")
    if not bad:
        ways.append(f"where no agent is to run any more, take its condition {GPU_HEALTHY} off the Node")
    return Finding("gpu-unreported", why, tuple(ways))


def rejecting(case: Case) -> Finding:
    """Nodes that are left alone for a while because their kubelet turned pods away."""
    names = [node.name for node in case.near]
    before = case.facts.nodes.distrusted_before
    until = min((before[name].until_us for name in names if name in before), default=0)
    when = f" until {whole_time(START_OF_1970 + dt.timedelta(microseconds=until))}" if until else ""
    why = f"the kubelet of {listed(names)} turned several pods away, so nothing new is placed there{when}"
    first = harmless(names[0])
    ways = (
        f"see why in the Events of the pods that it turned away: kubectl get events -A | grep {first}",
        "nothing is to be done where the cause is gone: the node is tried again then",
    )
    return Finding("rejects-pods", why, ways)


CAUSES: dict[str, Explain] = {"gpu-unreported": unreported, "rejects-pods": rejecting}
