"""Causes that stay until a person or a controller changes the pod or the nodes: labels, taints, cordons,
kinds of GPU.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from gpufleet.explain.answer import Finding
from gpufleet.explain.case import Case, Explain
from gpufleet.explain.driver_causes import old_driver
from gpufleet.kube import resources
from gpufleet.kube.codec.cuda import FEATURES
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.node import is_anonymous
from gpufleet.model import gpu_model
from gpufleet.model.device import Device, Serves
from gpufleet.model.errors import printable
from gpufleet.model.label_advice import Advice, advise
from gpufleet.model.labels import NodeTerm, Operator, Requirement, equals
from gpufleet.model.node import Node
from gpufleet.model.phrases import counted, listed
from gpufleet.model.taint import Taint, tolerates

# Taints that Kubernetes itself puts on nodes: they tell of a node's state and are no wish of a person.
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
BY_KUBERNETES = "node.kubernetes.io/"
VALUES_MAX = 5


def cordoned(case: Case) -> Finding:
    """Nodes that are closed for new pods by a cordon."""
    names = [node.name for node in case.near]
    why = f"{listed(names)} would do, but {'is' if len(names) == 1 else 'are'} cordoned"
    return Finding("cordoned", why, (f"kubectl uncordon {harmless(names[0])}",))


def repelling(case: Case, node: Node) -> list[Taint]:
    """The taints of a node that the pod does not tolerate."""
    return [
        taint
        for taint in node.taints_beside_cordon
        if taint.repels and not any(tolerates(one, taint) for one in case.shape.tolerations)
    ]


def tainted(case: Case) -> Finding:
    """Nodes with a taint that the pod does not tolerate; among them those that are not ready."""
    found = Counter(taint for node in case.near for taint in repelling(case, node))
    if found and all(taint.key in {NOT_READY, UNREACHABLE} for taint in found):
        names = [node.name for node in case.near]
        why = f"{listed(names)} would do, but {'is' if len(names) == 1 else 'are'} not ready"
        return Finding(
            "node-not-ready", why, (f"see why its kubelet does not report: kubectl describe node {names[0]}",)
        )
    taints = listed(str(taint) for taint in found)
    why = f"{counted(len(case.near), 'node')} would do, but for a taint that it does not tolerate: {taints}"
    ways = [_toleration(taint) for taint in found if not taint.key.startswith(BY_KUBERNETES)]
    ways += [
        f"mend what {harmless(taint.key)} stands for on {listed(node.name for node in case.near)}"
        for taint in found
        if taint.key.startswith(BY_KUBERNETES)
    ]
    return Finding("taint", why, tuple(ways))


def _toleration(taint: Taint) -> str:
    how = f"operator: Equal, value: {taint.value}" if taint.value else "operator: Exists"
    return f"add to its tolerations: {{key: {taint.key}, {how}, effect: {taint.effect}}}"


def not_selected(case: Case) -> Finding:
    """No node that would do is selected by the pod's node selector or affinity."""
    shape = case.shape
    known = known_labels(case.nodes)
    own = equals(shape.node_selector)
    terms = shape.affinity.terms or ()
    wrong = [*advise(own, known)]
    unmet = [advise(term.expressions, known) for term in terms]
    if terms and all(unmet):
        wrong += [advice for of_term in unmet for advice in of_term]
    if wrong:
        why = "; ".join(dict.fromkeys(f"no node has {advice.requirement}" for advice in wrong))
        ways = dict.fromkeys(way for advice in wrong for way in _meant(advice, known))
        return Finding("selector", why, tuple(ways))
    return _selected_elsewhere(case, own, terms)


def _meant(advice: Advice, known: dict[str, set[str | None]]) -> Iterable[str]:
    asked = advice.requirement
    if advice.nearest_key is not None:
        yield f"did you mean the label {harmless(advice.nearest_key)} instead of {harmless(asked.key)}?"
    elif advice.nearest_value is not None:
        yield f"did you mean {asked.key}: {harmless(advice.nearest_value)}?"
    values = sorted(value for value in known.get(asked.key, ()) if value is not None)
    if values and values != [advice.nearest_value] and asked.operator in {Operator.IN, Operator.EXISTS}:
        yield f"nodes have {asked.key} as {listed(values, VALUES_MAX)}"
    elif not values and advice.nearest_key is None:
        yield f"no node has the label {harmless(asked.key)}; label the nodes that are meant, or leave it out"


def _selected_elsewhere(case: Case, own: tuple[Requirement, ...], terms: tuple[NodeTerm, ...]) -> Finding:
    selected = [node for node in case.nodes if "selector" not in case.by_node.get(node.name, ())]
    would = counted(len(case.near), "node")
    asked = " and ".join([*map(str, own), *(["its affinity"] if terms else [])])
    if not selected:
        why = f"no node has all of {asked} at once"
        return Finding("selector", why, (f"{would} would do otherwise: {listed(n.name for n in case.near)}",))
    first = {case.by_node[node.name][0] for node in selected if case.by_node.get(node.name)}
    barred = ", ".join(sorted(first))
    only = listed(node.name for node in selected)
    why = f"it may only run on {only} ({asked}), where it does not fit ({barred})"
    return Finding(
        "selector", why, (f"let it also run on {listed(node.name for node in case.near)}, which would do",)
    )


def known_labels(nodes: Iterable[Node]) -> dict[str, set[str | None]]:
    """The values of each label of the fleet, with None where some node lacks the label."""
    every = list(nodes)
    known: dict[str, set[str | None]] = {}
    counts: Counter[str] = Counter()
    for node in every:
        for key, value in node.labels.items():
            known.setdefault(key, set()).add(value)
            counts[key] += 1
    for key, values in known.items():
        if counts[key] < len(every):
            values.add(None)
    return known


def no_gpu(case: Case) -> Finding:
    """No node that could be had has any GPU."""
    why = "no node of the cluster has a GPU that Kubernetes knows of"
    if any(node.devices for node in case.nodes):
        why = "the nodes that it may run on have no GPUs"
    columns = "NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu"
    way = f"see whether the GPU's device plugin runs: kubectl get nodes -o custom-columns='{columns}'"
    return Finding("no-gpu", why, (way,))


def other_model(case: Case) -> Finding:
    """No node has the model of GPU asked for."""
    asked = case.shape.gpu.models
    there = Counter(str(device.model) or "unknown" for node in case.nodes for device in node.devices)
    have = listed((f"{model} ({count})" for model, count in there.most_common()), VALUES_MAX)
    wanted = [str(model) for model in asked]
    if not any(model in there for model in wanted):
        why = f"no node has a GPU of the model {listed(wanted)}; the cluster has {have}"
    else:
        why = f"no node that would do has a GPU of the model {listed(wanted)}; the cluster has {have}"
    near = [gpu_model.nearest_name(model) for model in wanted if gpu_model.find(model) is None]
    ways = [f"did you mean {model}?" for model in near if model]
    return Finding("gpu-model", why, (*ways, f"ask for {have}, or for any model"))


def too_few(case: Case) -> Finding:
    """No node has so many GPUs."""
    largest = max(len(node.devices) for node in case.near)
    count = case.shape.gpu.count
    why = f"it asks for {counted(count, 'GPU')} on one node, and the largest have {largest}"
    pods = -(-count // largest)
    example = f"{pods} pods with {-(-count // pods)} each as a gang"
    return Finding("gpu-count", why, (f"ask for at most {largest} in one pod, for example {example}",))


def not_served(case: Case) -> Finding:
    """GPUs that are not given out in this way."""
    counted_only = [node for node in case.near if any(is_anonymous(device.id) for device in node.devices)]
    if not case.shape.gpu.whole and counted_only:
        names = listed(node.name for node in counted_only)
        have = "has" if len(counted_only) == 1 else "have"
        why = f"parts of GPUs need a NodeDevices report, and {names} {have} none"
        return Finding("gpu-sharing", why, ("ask for whole GPUs", "see whether gpufleet's agent runs there"))
    uncounted = [node.name for node in case.near if node.devices and not node.gpu_resources]
    if case.shape.gpu.whole and uncounted:
        kubelets = "the kubelet" if len(uncounted) == 1 else "the kubelets"
        counts = "counts" if len(uncounted) == 1 else "count"
        why = f"{kubelets} of {listed(uncounted)} {counts} no GPU, so the device plugin there is away"
        look = "see whether gpufleet's agent runs there, and what its log says"
        return Finding("gpu-uncounted", why, (look, "gpufleet doctor looks further"))
    foreign = [words for node in case.near for words in _foreign(case, node)]
    if foreign:
        hands = f"{counted(len(foreign), 'GPU')} that it could use {'is' if len(foreign) == 1 else 'are'}"
        why = f"{hands} in foreign hands: {listed(foreign)}"
        return Finding("gpu-foreign", why, ("end what holds it there: nothing in the API does",))
    kind, wanted = ("whole GPUs", Serves.WHOLE) if case.shape.gpu.whole else ("parts of GPUs", Serves.SHARE)
    other = "parts only" if case.shape.gpu.whole else "whole only, or not at all"
    serving = [node.name for node in case.nodes if any(device.serves & wanted for device in node.devices)]
    why = f"the GPUs of {listed(node.name for node in case.near)} are given out {other}; it asks for {kind}"
    ways = (
        (f"{listed(serving)} give out {kind}",)
        if serving
        else (f"no node gives out {kind}; ask for the other",)
    )
    return Finding("gpu-sharing", why, ways)


def _foreign(case: Case, node: Node) -> Iterator[str]:
    """The GPUs of a node that are held by a process of no known pod."""
    report = case.facts.picture.find(resources.NODE_DEVICES, node.name)
    for holder in () if report is None else report.spec.holders:
        if not holder.pod_uid:
            # The words are free text from a report and may hold anything.
            said = f" ({printable(holder.foreign)})" if holder.foreign else ""
            yield f"{harmless(holder.device)} on {node.name}{said}"


def sick(case: Case) -> Finding:
    """Too few healthy GPUs."""
    reports = {node.name: case.facts.picture.find(resources.NODE_DEVICES, node.name) for node in case.near}
    found = []
    for node in case.near:
        report = reports[node.name]
        reasons = {} if report is None else {one.id: one.health_reason for one in report.spec.devices}
        found += [
            _sickness(node, device, reasons.get(device.id, ""))
            for device in node.devices
            if not device.healthy
        ]
    are = "is" if len(found) == 1 else "are"
    why = f"{counted(len(found), 'GPU')} that it could use {are} not healthy: {listed(found)}"
    return Finding("gpu-sick", why, (f"see to the GPU of {harmless(case.near[0].name)}, or replace it",))


def _sickness(node: Node, device: Device, reason: str) -> str:
    # The reason is free text from a report and may hold anything.
    said = f" ({printable(reason)})" if reason else ""
    return f"{device.id} on {node.name}{said}"


def featureless(case: Case) -> Finding:
    """Nodes without a feature that the pod's spec needs."""
    lacking = {
        feature for node in case.near for feature in case.shape.features if feature not in node.features
    }
    if lacking <= FEATURES:
        return old_driver(case, lacking)
    others = sorted(lacking - FEATURES)
    why = f"no node that would do declares {listed(others)}"
    return Finding("feature", why, ("upgrade the kubelets, or leave the field out that needs it",))


def outside_domain(_case: Case) -> Finding:
    """Nodes outside of the domain that the gang must share."""
    why = "the gang must be in one topology domain, and none has room for it"
    return Finding("domain", why, ("wait until a whole domain has room", "allow a wider level"))


CAUSES: dict[str, Explain] = {
    "cordoned": cordoned,
    "taint": tainted,
    "selector": not_selected,
    "no-gpu": no_gpu,
    "gpu-model": other_model,
    "gpu-count": too_few,
    "gpu-sharing": not_served,
    "gpu-sick": sick,
    "feature": featureless,
    "domain": outside_domain,
}
