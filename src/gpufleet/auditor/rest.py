"""I4, at rest: grants, reports of nodes and kubelets agree on each pod that runs."""

from collections import Counter
from collections.abc import Iterator

from gpufleet.auditor import grants, pods
from gpufleet.auditor.devices import held_by_pod
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.grants import WHOLE, Part
from gpufleet.auditor.record import NODE_DEVICES, Document
from gpufleet.auditor.rules import Evidence, Given, Rules
from gpufleet.auditor.world import World


def disagreements(world: World, rules: Rules, evidence: Evidence) -> Iterator[Finding]:
    """Everything about which two of them differ."""
    running = [
        pod for pod in world.living.values() if pods.phase(pod) == "Running" and not pods.is_leaving(pod)
    ]
    for pod in running:
        yield from _reported(pod, world, rules)
        if evidence.kubelets is not None:
            yield from _kubelet(pod, world, evidence.kubelets)
    for node, report in sorted(world.all(NODE_DEVICES).items()):
        for uid in held_by_pod(report):
            # Devices that something else holds are reported under the name of their node, which is no pod.
            if not uid.startswith("others on ") and uid not in world.living:
                yield Finding("I4", world.at_s, (node,), f"the report names {uid}, which is no living pod")
    yield from _strangers(world, evidence)


def _amounts(parts: tuple[Part, ...]) -> Counter[tuple[str, int, int | None]]:
    return Counter((part.device, part.gpu_milli, part.mig_start) for part in parts)


def _reported(pod: Document, world: World, rules: Rules) -> Iterator[Finding]:
    report = world.all(NODE_DEVICES).get(pods.node(pod))
    grant = grants.of_pod(pod)
    if report is None or grant is None or not grant.parts:
        return
    held = held_by_pod(report).get(pods.uid(pod), ())
    granted, facts = _amounts(grant.parts), _amounts(held)
    if pods.uid(pod) in rules.swapped:
        agree = sorted(milli for _, milli, _ in granted) == sorted(milli for _, milli, _ in facts)
    else:
        agree = granted == facts
    if not agree:
        words = (
            f"it was granted {_words(grant.parts)} and holds {_words(held)} by the report of {pods.node(pod)}"
        )
        yield Finding("I4", world.at_s, (pods.name(pod),), words)


def _kubelet(pod: Document, world: World, kubelets: tuple[Given, ...]) -> Iterator[Finding]:
    """What the kubelet gave, against the report where there is one and the grant elsewhere."""
    grant = grants.of_pod(pod)
    if grant is None or not grant.parts:
        return
    report = world.all(NODE_DEVICES).get(pods.node(pod))
    had = (held_by_pod(report).get(pods.uid(pod), ()) if report is not None else ()) or grant.parts
    given = [one for one in kubelets if one.pod == pods.name(pod) and pods.is_gpu_resource(one.resource)]
    units = {unit for one in given for unit in one.units}
    whole = {part.device for part in had if part.kind == WHOLE}
    names = units if whole and len(whole) == len(had) else {str(len(units))}
    expected = whole if whole and len(whole) == len(had) else {str(len(had))}
    if names != expected:
        words = (
            f"the kubelet says that it has {sorted(names)}, and by report and grant it has {sorted(expected)}"
        )
        yield Finding("I4", world.at_s, (pods.name(pod), pods.node(pod)), words)


def _strangers(world: World, evidence: Evidence) -> Iterator[Finding]:
    """Units of which a kubelet tells for no living pod, or for two."""
    names = {pods.name(pod) for pod in world.living.values()}
    owners: dict[tuple[str, str, str], str] = {}
    for one in evidence.kubelets or ():
        if not pods.is_gpu_resource(one.resource):
            continue
        if one.units and one.pod not in names:
            words = f"the kubelet of {one.node} names it, and it is no living pod"
            yield Finding("I4", world.at_s, (one.pod,), words)
        for unit in sorted(one.units):
            owner = owners.setdefault((one.node, one.resource, unit), one.pod)
            if owner != one.pod:
                words = f"the kubelet of {one.node} has given {unit} to both"
                yield Finding("I1", world.at_s, (owner, one.pod), words)


def _words(parts: tuple[Part, ...]) -> str:
    if not parts:
        return "nothing"
    return ", ".join(
        part.device + (f" from slice {part.mig_start}" if part.mig_start is not None else "")
        + ("" if part.kind == WHOLE else f" to {part.gpu_milli} thousandths")
        for part in sorted(parts, key=lambda part: (part.device, part.mig_start or 0))
    )  # fmt: skip
