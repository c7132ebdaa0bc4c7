"""Writes what a plan asks for on one node, and nothing that is equal already.

Labels go by server-side apply, so that the API server remembers which are ours and takes back those that
are applied no more. Taints are one list for all writers: they go by a patch of the version that was read,
together with the annotation that says which are ours. Each of the two writes is whole by itself, so a process
that ends between them leaves a state that the next one goes on from. ``service`` says when.
"""

import msgspec

from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.resources import NODES
from gpufleet.operator.node_facts import FIELD_MANAGER, NodeFacts, written_taints
from gpufleet.operator.node_objects import TAINTS_ANNOTATION, NodeTaint
from gpufleet.operator.plan import WrittenState


def labels_differ(facts: NodeFacts, written: WrittenState) -> bool:
    """Whether labels, or whose they are, are not as they are to be."""
    if facts.owned_labels != set(written.labels):
        return True
    return any(facts.labels.get(key) != value for key, value in written.labels.items())


def taints_differ(facts: NodeFacts, written: WrittenState) -> bool:
    """Whether taints, or whose they are, are not as they are to be."""
    if facts.owned_taints != set(written.taints):
        return True
    return any(facts.taints.get(place) != value for place, value in written.taints.items())


def labels_patch(facts: NodeFacts, written: WrittenState) -> dict[str, object]:
    """The labels as they are applied. The uid keeps the apply from making a node that was just deleted."""
    metadata = {"name": facts.name, "uid": facts.uid, "labels": written.labels}
    return {"apiVersion": NODES.api_version, "kind": NODES.name, "metadata": metadata}


def taints_patch(facts: NodeFacts, written: WrittenState) -> dict[str, object]:
    """All taints with ours in them, and the annotation that says which are ours.

    Taints of others stay as they came, with the time since which they are there.
    """
    ours = facts.owned_taints
    kept = [one for one in facts.taint_list if (one.key, one.effect) not in ours]
    known = {(one.key, one.effect): one for one in facts.taint_list}
    for (key, effect), value in written.taints.items():
        before = known.get((key, effect))
        same = before is not None and before.value == value
        kept.append(before if before is not None and same else NodeTaint(key, effect, value))
    # None takes the annotation away.
    annotation = written_taints(frozenset(written.taints)) or None
    return {
        "metadata": {
            "resourceVersion": facts.resource_version,
            "annotations": {TAINTS_ANNOTATION: annotation},
        },
        "spec": {"taints": msgspec.to_builtins(kept)},
    }


async def apply_state(client: Client, facts: NodeFacts, written: WrittenState) -> int:
    """Write what differs; the number of writes. Raises KubeError: Conflict where the node has changed."""
    writes = 0
    # Taints first: they are tied to the version that was read, which an apply of labels changes.
    if taints_differ(facts, written):
        await client.patch(NODES, facts.name, taints_patch(facts, written))
        writes += 1
    if labels_differ(facts, written):
        await client.patch(
            NODES,
            facts.name,
            labels_patch(facts, written),
            patch_type=PatchType.APPLY,
            field_manager=FIELD_MANAGER,
        )
        writes += 1
    return writes
