"""The status of each policy: its nodes with their phases, their sums, and three conditions.

Ready is whether each node is as the policy says, Progressing whether the operator still writes, Degraded
whether a person has to decide something. ``service`` writes it, ``questions`` shows it.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping

from gpufleet.kube.codec.policy_status import PolicyCondition, ReportedNode, policy_status
from gpufleet.kube.objects.fleet_policies import DEGRADED, PROGRESSING, READY, FleetPolicyStatus
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.model.phrases import counted, listed
from gpufleet.operator import phases
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.phases import NodePhase, Phase, phase_of
from gpufleet.operator.plan import NodePlan

NOTHING_SEEN: Mapping[NodeName, str] = {}
ORDER = {phase: height for height, phase in enumerate(Phase)}


def node_phases(
    policy: FleetPolicy,
    facts: Mapping[NodeName, NodeFacts],
    plans: Mapping[NodeName, NodePlan],
    seen: Mapping[NodeName, str] = NOTHING_SEEN,
) -> dict[NodeName, NodePhase]:
    """The phase of each node that a policy selects; the worst first, then by name.

    ``seen`` is what a rollout sees of nodes.
    """
    found = {
        name: phase_of(facts[name], plan, policy, seen.get(name, ""))
        for name, plan in plans.items()
        if policy.name in plan.policies
    }
    ordered = sorted(found, key=lambda name: (ORDER[found[name].phase], name))
    return {name: found[name] for name in ordered}


def status_of_policy(
    before: FleetPolicyStatus, generation: int, nodes: Mapping[NodeName, NodePhase], now: dt.datetime
) -> FleetPolicyStatus:
    """The status of a policy that can be read."""
    counts = Counter(one.phase for one in nodes.values())
    told = [ReportedNode(name, one.phase.value, one.reason, one.message) for name, one in nodes.items()]
    return policy_status(
        before,
        conditions_of(nodes),
        told,
        [(phase.value, counts[phase]) for phase in Phase],
        generation,
        now,
    )


def status_of_unreadable(
    before: FleetPolicyStatus, generation: int, problem: str, now: dt.datetime
) -> FleetPolicyStatus:
    """The status of a policy that says what cannot be: nothing is written for it, and nothing taken back."""
    conditions = (
        PolicyCondition(READY, False, "InvalidPolicy", problem),
        PolicyCondition(PROGRESSING, False, "InvalidPolicy", "nothing is written for it"),
        PolicyCondition(DEGRADED, True, "InvalidPolicy", problem),
    )
    return policy_status(before, conditions, None, (), generation, now)


def conditions_of(nodes: Mapping[NodeName, NodePhase]) -> tuple[PolicyCondition, ...]:
    """The three conditions over all nodes of a policy."""
    return (_ready(nodes), _progressing(nodes), _degraded(nodes))


def _ready(nodes: Mapping[NodeName, NodePhase]) -> PolicyCondition:
    if not nodes:
        return PolicyCondition(READY, True, "NoNodes", "no node has the labels of nodeSelector")
    open_ones = {name: one for name, one in nodes.items() if one.phase not in phases.SETTLED}
    if not open_ones:
        return PolicyCondition(READY, True, "AsThePolicySays", f"{counted(len(nodes), 'node')}")
    # The worst comes first.
    worst = next(iter(open_ones.values()))
    named = listed(name for name, one in open_ones.items() if one.phase is worst.phase)
    sum_of = f"{len(open_ones)} of {counted(len(nodes), 'node')} not as the policy says"
    message = f"{sum_of}; {worst.phase.value}: {named}"
    return PolicyCondition(READY, False, worst.reason, message)


def _progressing(nodes: Mapping[NodeName, NodePhase]) -> PolicyCondition:
    pending = [name for name, one in nodes.items() if one.phase is Phase.PENDING]
    if pending:
        return PolicyCondition(PROGRESSING, True, "Writing", listed(pending))
    rolling = [name for name, one in nodes.items() if one.phase is Phase.ROLLING_OUT]
    if rolling:
        return PolicyCondition(PROGRESSING, True, "RollingOut", listed(rolling))
    return PolicyCondition(PROGRESSING, False, "NothingToWrite", "nothing is being written")


def _degraded(nodes: Mapping[NodeName, NodePhase]) -> PolicyCondition:
    bad = [(name, one) for name, one in nodes.items() if one.phase in phases.DEGRADED]
    if not bad:
        return PolicyCondition(DEGRADED, False, "NothingInTheWay", "nothing waits for a person")
    name, worst = bad[0]
    more = f" ({listed(other for other, _ in bad)})" if len(bad) > 1 else f" ({name})"
    return PolicyCondition(DEGRADED, True, worst.reason, f"{worst.message}{more}")
