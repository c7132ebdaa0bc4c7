"""How driver and toolkit would go through the nodes of each policy: in which waves, and for how long at most.

A wave is as many nodes as may be under way at a time. Which nodes a wave has is not told: the engine chooses
them while the rollout goes, those first that lose least. ``rollout.rollout_step`` follows the same settings.
"""

from collections.abc import Iterator, Mapping

from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.model.rollout_settings import RolloutSettings
from gpufleet.operator.answer import PassedOver, PlannedRollout
from gpufleet.operator.fleet_state import FleetState
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.plan import NodePlan, Way
from gpufleet.operator.rollout.stamp import RolloutPhase
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding

Findings = Mapping[NodeName, tuple[PreflightFinding, ...]]


def planned_rollouts(state: FleetState, findings: Findings) -> Iterator[PlannedRollout]:
    """The rollout of each policy with nodes that need another driver or toolkit, by name."""
    for name in sorted(state.policies):
        policy = state.policies[name]
        if not policy.images.parts:
            continue
        selected = [node for node, plan in state.plans.items() if name in plan.policies]
        pending = [node for node in selected if _needs_rollout(state.plans[node], policy)]
        if pending:
            passed = _canaries_passed(state, policy, selected)
            over = [(node, _obstacle(state.nodes[node], findings.get(node, ()))) for node in pending]
            yield _planned(policy, len(selected), len(pending), passed, over)


def _needs_rollout(plan: NodePlan, policy: FleetPolicy) -> bool:
    return any(one.way is Way.ROLLOUT for one in plan.of_policy(policy.name))


def _canaries_passed(state: FleetState, policy: FleetPolicy, selected: list[NodeName]) -> int:
    image = policy.images.text()
    stamps = [stamp for node in selected if (stamp := state.nodes[node].stamp) is not None]
    return sum(one.is_canary and one.target == image and one.phase is RolloutPhase.RETURNED for one in stamps)


def _obstacle(facts: NodeFacts, findings: tuple[PreflightFinding, ...]) -> str:
    """Why a node cannot begin as it is now, or ""."""
    if facts.is_ready is False:
        return "not ready"
    if facts.is_ready is None:
        return "not known to be ready"
    if facts.is_cordoned and (facts.stamp is None or not facts.stamp.is_cordon_ours):
        return "cordoned by others"
    blocking = (one.message for one in findings if one.severity is FindingSeverity.BLOCKS)
    return facts.stamp_problem or next(blocking, "")


def _planned(
    policy: FleetPolicy, selected: int, pending: int, passed: int, over: list[tuple[NodeName, str]]
) -> PlannedRollout:
    settings = policy.rollout or RolloutSettings()
    canaries = min(pending, max(0, settings.canaries - passed))
    # A percentage is of all nodes that the policy selects, and not of those that are left.
    at_once = settings.nodes_at_once.of(selected)
    waves = -(-(pending - canaries) // at_once)
    node_s = settings.drain_s + settings.change_s + settings.validation_s
    return PlannedRollout(
        policy=policy.name,
        nodes=pending,
        canaries=canaries,
        soak_seconds=settings.soak_s,
        nodes_at_once=at_once,
        waves=waves,
        node_seconds_most=node_s,
        # Canaries go side by side, and are watched before the first wave.
        seconds_most=node_s * (waves + bool(canaries)) + (settings.soak_s if canaries else 0),
        windows=len(settings.windows),
        paused=settings.is_paused,
        passed_over=tuple(PassedOver(node, why) for node, why in over if why),
    )
