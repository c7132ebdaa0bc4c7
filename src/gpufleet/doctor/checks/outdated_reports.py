"""Nodes without a report of their agent since they were booted: the last one is from before."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView

STARTS_WITHIN_S = 300.0
"""How long an agent may take after a boot: its image may have to be pulled."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """All nodes with a report from before their boot, in one failure."""
    boots = {one.name: (_now(one), _reported(one)) for one in facts.nodes}
    known = [one for one in facts.nodes if all(boots[one.name])]
    old = [one for one in known if _has_had_time(facts, one) and boots[one.name][0] != boots[one.name][1]]
    if known and not old:
        yield Good("every agent has reported since its node was booted")
    if not old:
        return
    names = [one.name for one in old]
    yield Failure(
        f"{listed(names)}: gpufleet's agent has not reported since the node was booted",
        tuple(one.title for one in old),
        tuple(
            f"{name}: boot {boots[name][0]}, its NodeDevices are of boot {boots[name][1]}" for name in names
        ),
        (
            Remedy(
                "look at the agent's pod on the node",
                "kubectl get pods -A -o wide -l app.kubernetes.io/component=agent"
                f" --field-selector spec.nodeName={names[0]}",
            ),
        ),
        frozenset(one.title for one in old),
    )


def _has_had_time(facts: Facts, node: NodeView) -> bool:
    """Whether the node has been Ready for long enough for its agent to start."""
    ready = node.conditions.get("Ready")
    if ready is None or not ready.is_true:
        return False
    return ready.since is None or (facts.now - ready.since).total_seconds() > STARTS_WITHIN_S


def _now(node: NodeView) -> str:
    return node.manifest.root.text_at("status", "nodeInfo", "bootID") or ""


def _reported(node: NodeView) -> str:
    return "" if node.devices is None else node.devices.root.text_at("spec", "bootID") or ""


CHECK = Check(
    "agent-outdated",
    Point.STACK,
    Layer.STACK,
    "Agents have reported since the last boot",
    "MIG layouts and broken cards change with a boot, and a report from before it is not believed.",
    judge,
    ("Node", "NodeDevices"),
)
