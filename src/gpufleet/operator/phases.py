"""How far a node is with one policy: a phase, its reason and a sentence.

What a person has to decide goes before what is still to be written, so that the first thing told is the first
to be done. ``statuses`` puts phases into the status of a policy.
"""

import enum

import msgspec

from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.plan import Change, NodePlan, Way, mig_state

MIG_SUCCESS, MIG_FAILED = "success", "failed"
NO_ROLLOUT = "this version of the operator changes no drivers and no runtimes"


class Phase(enum.Enum):
    """How far a node is, the worst first."""

    REFUSED = "Refused"
    CONFLICT = "Conflict"
    FAILED = "Failed"
    NEEDS_PERSON = "NeedsPerson"
    NEEDS_ROLLOUT = "NeedsRollout"
    PENDING = "Pending"
    OPTED_OUT = "OptedOut"
    APPLIED = "Applied"


DEGRADED = frozenset({Phase.REFUSED, Phase.CONFLICT, Phase.FAILED, Phase.NEEDS_PERSON})
"""Phases in which a person has to decide something."""

SETTLED = frozenset({Phase.APPLIED, Phase.OPTED_OUT})
"""Phases in which nothing is to be done."""


class NodePhase(msgspec.Struct, frozen=True):
    """A phase with its reason, one word for programs, and its message for people."""

    phase: Phase
    reason: str
    message: str = ""


def phase_of(facts: NodeFacts, plan: NodePlan, policy: FleetPolicy) -> NodePhase:
    """How far a node is with a policy that selects it."""
    if plan.opted_out:
        return NodePhase(Phase.OPTED_OUT, "OptOutLabel", "the node opts out of all policies by its label")
    refusals = [one for one in plan.refusals if policy.name in one.refused]
    if refusals:
        return NodePhase(Phase.REFUSED, refusals[0].kind.value, "; ".join(one.sentence() for one in refusals))
    conflicts = [one for one in plan.conflicts if one.policy == policy.name]
    if conflicts:
        return NodePhase(Phase.CONFLICT, "ForeignValue", "; ".join(one.sentence() for one in conflicts))
    return _of_changes(plan, policy) or _of_mig(facts, policy) or NodePhase(Phase.APPLIED, "AsThePolicySays")


def _of_changes(plan: NodePlan, policy: FleetPolicy) -> NodePhase | None:
    changes = plan.of_policy(policy.name)
    for way, phase, reason in (
        (Way.PERSON, Phase.NEEDS_PERSON, "HostDriver"),
        (Way.ROLLOUT, Phase.NEEDS_ROLLOUT, "RolloutNeeded"),
        (Way.WRITE, Phase.PENDING, "NotWrittenYet"),
    ):
        found = [one for one in changes if one.way is way]
        if found:
            words = [_change_words(one) for one in found]
            told = [*words, NO_ROLLOUT] if way is Way.ROLLOUT else words
            return NodePhase(phase, reason, "; ".join(told))
    return None


def _change_words(change: Change) -> str:
    note = f" ({change.note})" if change.note else ""
    unknown = "not there" if change.way is Way.WRITE else "not known"
    return f"{change.field}: {change.before or unknown} -> {change.after}{note}"


def _of_mig(facts: NodeFacts, policy: FleetPolicy) -> NodePhase | None:
    if not policy.mig_layout:
        return None
    state = mig_state(facts)
    if state == MIG_SUCCESS:
        return None
    if state == MIG_FAILED:
        message = f"the MIG manager could not make the layout {policy.mig_layout}: see its log on the node"
        return NodePhase(Phase.FAILED, "MigLayoutFailed", message)
    told = "has not said anything yet" if state is None else f"says {state}"
    return NodePhase(
        Phase.PENDING, "MigLayoutPending", f"the MIG manager {told} of the layout {policy.mig_layout}"
    )
