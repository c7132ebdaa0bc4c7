"""The pod's node selector or node affinity does not select the node."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.taint import repelling, tolerations
from gpufleet.model import gpu_model
from gpufleet.model.label_advice import Advice, advise
from gpufleet.model.labels import NodeTerm, Operator, Requirement, equals
from gpufleet.model.node import Node
from gpufleet.model.phrases import counted, harmless, listed

BIT = 1 << 2

VALUES_MAX = 5
"""Of more values of a label a person reads only the first."""


def finding(case: Case) -> Finding:
    """Which part of the selector no node meets, or where the selected nodes fail."""
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
        return Finding(why, tuple(dict.fromkeys(way for advice in wrong for way in _meant(advice, known))))
    return _selected_elsewhere(case, own, terms)


def _meant(advice: Advice, known: dict[str, set[str | None]]) -> Iterator[str]:
    asked = advice.requirement
    if advice.nearest_key is not None:
        yield f"did you mean the label {harmless(advice.nearest_key)} instead of {harmless(asked.key)}?"
    elif advice.nearest_value is not None and not names_a_model(asked):
        yield f"did you mean {asked.key}: {harmless(advice.nearest_value)}?"
    elif (same := _same_model(asked, known)) is not None:
        yield f"did you mean {asked.key}: {harmless(same)}?"
    values = sorted((value for value in known.get(asked.key, ()) if value is not None), key=_as_a_person)
    if (
        values
        and (values != [advice.nearest_value] or names_a_model(asked))
        and asked.operator is not Operator.DOES_NOT_EXIST
    ):
        yield f"nodes have {asked.key} as {listed(values, VALUES_MAX)}"
    elif not values and advice.nearest_key is None:
        yield f"no node has the label {harmless(asked.key)}; label the nodes that are meant, or leave it out"


def _same_model(asked: Requirement, known: dict[str, set[str | None]]) -> str | None:
    """The one value of the label that has all words of a model that was asked for: Tesla-T4 for T4."""
    if asked.operator is not Operator.IN:
        return None
    words = [_words(value) - {"nvidia"} for value in asked.values if gpu_model.matching(value)]
    found = {value for value in known.get(asked.key, ()) if value for one in words if one <= _words(value)}
    return found.pop() if len(found) == 1 else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.casefold()))


def _as_a_person(value: str) -> tuple[bool, int, str]:
    """Numbers before words, and by their size."""
    return (not value.isdecimal(), int(value) if value.isdecimal() else 0, value)


def names_a_model(asked: Requirement) -> bool:
    """True if a value that no node has is the name of a model of GPU, and so no slip for another one."""
    return any(gpu_model.matching(value) for value in asked.values)


def _selected_elsewhere(case: Case, own: tuple[Requirement, ...], terms: tuple[NodeTerm, ...]) -> Finding:
    shape = case.shape
    selected = [node for node in case.nodes if "selector" not in case.by_node.get(node.name, ())]
    would = counted(len(case.near), "node")
    asked = " and ".join([*map(str, own), *(["its affinity"] if terms else [])])
    if not selected:
        why = f"no node has all of {asked} at once"
        return Finding(why, (f"{would} would do otherwise: {case.near_names}",))
    taints = dict.fromkeys(one for node in selected for one in repelling(shape, node))
    against = {reason for node in selected for reason in case.by_node.get(node.name, ())} - {"taint"}
    only = listed(node.name for node in selected)
    why = f"it may only run on {only} ({asked})"
    if against:
        nodes = "a node" if len(selected) == 1 else "nodes"
        why += f", {nodes} {' and '.join(case.words[reason] for reason in sorted(against))}"
    if taints:
        why += f", where it does not tolerate {listed(map(str, taints))}"
    elif not against:
        why += ", where it does not fit"
    return Finding(why, (*tolerations(taints), f"let it also run on {case.near_names}, which would do"))


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


REASON = NodeReason(
    "selector",
    BIT,
    # Above a taint together with all that lacks room: the nodes that the selector chose are meant.
    height=11,
    kind=Kind.CHANGE,
    words="not selected by the pod's node selector or affinity",
    remedy="the pod's node selector or affinity selected them",
    finding=finding,
)
