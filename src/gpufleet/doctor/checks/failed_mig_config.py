"""Nodes with a MIG layout that could not be made, or was asked for where no MIG manager runs."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.views.stack import StackPart, stack_of
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.mig.wanted import STATES_ANNOTATION
from gpufleet.model.fleet_policy import MIG_LAYOUT_LABEL, MIG_STATE_LABEL

WANTED, STATE = MIG_LAYOUT_LABEL, MIG_STATE_LABEL
_ESCAPED_STATES = STATES_ANNOTATION.replace(".", "\\.")
_PAUSED = "paused-for-mig-change"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The nodes by what went wrong."""
    stack = stack_of(facts)
    asked = [one for one in facts.gpu_nodes if one.labels.get(WANTED)]
    failed = [one for one in asked if one.labels.get(STATE) == "failed"]
    # Without a state no manager has looked at the label; one that is there needs a moment for it.
    alone = [
        one
        for one in asked
        if one.labels.get(STATE) in {None, "pending", "rebooting"}
        if not (stack.pods_on(one, StackPart.MIG_MANAGER) or _is_answered_by_agent(one))
    ]
    if failed:
        yield _failure(facts, failed, "the MIG layout could not be made")
    if alone:
        yield _failure(facts, alone, "a MIG layout is asked for, and no MIG manager is there to make it")
    if asked and not failed and not alone:
        yield Good("MIG layouts that nodes ask for are made")


def _failure(facts: Facts, nodes: list[NodeView], says: str) -> Failure:
    managers = [one for node in nodes for one in stack_of(facts).pods_on(node, StackPart.MIG_MANAGER)]
    return Failure(
        f"{listed(one.name for one in nodes)}: {says}",
        tuple(one.title for one in nodes),
        tuple(f"{one.name}: {words}" for one in nodes for words in _state_words(one)),
        _remedies(nodes[0], managers),
        # A label that no manager looked at changes nothing: such a node goes on with what it offers.
        frozenset(one.title for one in nodes)
        | held_up_by(facts, [one for one in nodes if STATE in one.labels or not one.offers]),
    )


def _is_answered_by_agent(node: NodeView) -> bool:
    """Whether gpufleet's agent cuts cards there, and something has answered the label."""
    return node.manifest.annotation(STATES_ANNOTATION) is not None and STATE in node.labels


def _remedies(node: NodeView, managers: list[PodView]) -> tuple[Remedy, ...]:
    if managers:
        return _asked_again(node, managers[0])
    return _of_agent(node) if _is_answered_by_agent(node) else _without_manager(node)


def _of_agent(node: NodeView) -> tuple[Remedy, ...]:
    reasons = f"kubectl get node {node.name} -o jsonpath='{{.metadata.annotations.{_ESCAPED_STATES}}}'"
    return (
        Remedy("read why: gpufleet's agent says it of each card", reasons),
        Remedy(
            "ask for a config that its cards can have",
            f"kubectl label node {node.name} --overwrite {WANTED}=all-balanced",
        ),
    )


def _asked_again(node: NodeView, manager: PodView) -> tuple[Remedy, ...]:
    logs = f"kubectl logs -n {manager.namespace} {manager.manifest.name} --tail=100"
    again = (
        f"kubectl label node {node.name} {WANTED}- && "
        f"kubectl label node {node.name} {WANTED}={node.labels[WANTED]}"
    )
    return (
        Remedy("read why: pods that hold a GPU, or a profile that the card does not have", logs),
        Remedy("drain the node and ask again: the label is read when it changes", again),
    )


def _without_manager(node: NodeView) -> tuple[Remedy, ...]:
    return (
        Remedy(
            "run NVIDIA's MIG manager, part of its operator, or gpufleet's agent with --mig-config-file, "
            "or cut the GPUs with nvidia-smi mig",
            "kubectl get pods -A -o wide -l app=nvidia-mig-manager",
        ),
        Remedy("or take the wish back", f"kubectl label node {node.name} {WANTED}-"),
    )


def _state_words(node: NodeView) -> Iterator[str]:
    for name in (WANTED, STATE):
        yield f"label {name}={node.labels[name]}" if name in node.labels else f"no label {name}"
    for name, value in sorted(node.labels.items()):
        if value == _PAUSED:
            yield f"label {name}={value}"


CHECK = Check(
    "mig-config-failed",
    Point.SHARING,
    Layer.DRIVER,
    "MIG layouts are made",
    "Until it is made, the node offers the old layout, or nothing: its plugin is paused for the change.",
    judge,
    ("Node", "DaemonSet", "Pod"),
)
