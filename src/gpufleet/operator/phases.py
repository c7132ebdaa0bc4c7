"""How far a node is with one policy: a phase, its reason and a sentence.

What a person has to decide goes before what is still to be written, so that the first thing told is the first
to be done. ``statuses`` puts phases into the status of a policy.
"""

import datetime as dt
import enum

import msgspec

from gpufleet.kube.codec.times import whole_time
from gpufleet.model.fleet_policy import SKIP_DRIVER_LABEL, FleetPolicy
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.plan import Change, NodePlan, Way, mig_state
from gpufleet.operator.rollout.stamp import UNDER_WAY, RolloutPhase
from gpufleet.operator.rollout.windows import EPOCH

MIG_SUCCESS, MIG_FAILED = "success", "failed"
WAITS = "waits for its turn in the rollout"


class Phase(enum.Enum):
    """How far a node is, the worst first."""

    REFUSED = "Refused"
    CONFLICT = "Conflict"
    FAILED = "Failed"
    NEEDS_PERSON = "NeedsPerson"
    ROLLING_OUT = "RollingOut"
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


def phase_of(facts: NodeFacts, plan: NodePlan, policy: FleetPolicy, seen: str = "") -> NodePhase:
    """How far a node is with a policy that selects it; ``seen`` is what is seen of its driver, or ""."""
    if plan.opted_out:
        return NodePhase(Phase.OPTED_OUT, "OptOutLabel", "the node opts out of all policies by its label")
    refusals = [one for one in plan.refusals if policy.name in one.refused]
    if refusals:
        return NodePhase(Phase.REFUSED, refusals[0].kind.value, "; ".join(one.sentence() for one in refusals))
    conflicts = [one for one in plan.conflicts if one.policy == policy.name]
    if conflicts:
        return NodePhase(Phase.CONFLICT, "ForeignValue", "; ".join(one.sentence() for one in conflicts))
    return (
        _of_stamp(facts, policy, seen)
        or _of_changes(plan, policy, seen)
        or _of_mig(facts, policy)
        or _of_skip(plan, policy)
        or NodePhase(Phase.APPLIED, "AsThePolicySays")
    )


def _of_stamp(facts: NodeFacts, policy: FleetPolicy, seen: str) -> NodePhase | None:
    """Where a node is in the rollout of a policy; None where it is in none, or came through it well."""
    if facts.stamp_problem and policy.images.parts:
        return NodePhase(Phase.FAILED, "UnreadableStamp", facts.stamp_problem)
    stamp = facts.stamp
    if stamp is None or stamp.policy != policy.name:
        return None
    if stamp.phase in UNDER_WAY:
        way = "back to" if stamp.is_rollback else "to"
        words = "; ".join(one for one in (stamp.reason, seen) if one)
        until = whole_time(EPOCH + dt.timedelta(microseconds=stamp.deadline_us))
        what = stamp.target or "no toolkit"
        told = f"{way} {what}, at the latest until {until}{f': {words}' if words else ''}"
        return NodePhase(Phase.ROLLING_OUT, stamp.phase.value, told)
    has_failed = stamp.phase is RolloutPhase.FAILED
    wanted = policy.images.text() or None
    # The failure of another image says nothing of the one that is wanted now.
    if wanted in {stamp.target, stamp.failed_target} and (has_failed or stamp.failed_target == wanted):
        return NodePhase(Phase.FAILED, f"Rollout{stamp.phase.value}", stamp.reason)
    return None


def _of_changes(plan: NodePlan, policy: FleetPolicy, seen: str) -> NodePhase | None:
    changes = plan.of_policy(policy.name)
    for way, phase, reason in (
        (Way.PERSON, Phase.NEEDS_PERSON, ""),
        (Way.ROLLOUT, Phase.NEEDS_ROLLOUT, "RolloutNeeded"),
        (Way.WRITE, Phase.PENDING, "NotWrittenYet"),
    ):
        found = [one for one in changes if one.way is way]
        if found:
            words = [_change_words(one) for one in found]
            told = [*words, seen or WAITS] if way is Way.ROLLOUT else words
            return NodePhase(phase, reason or f"Host{found[0].field.capitalize()}", "; ".join(told))
    return None


def _of_skip(plan: NodePlan, policy: FleetPolicy) -> NodePhase | None:
    if not plan.keeps_driver or not policy.images.parts:
        return None
    message = f"its driver and its runtime stay as they are by its label {SKIP_DRIVER_LABEL}"
    return NodePhase(Phase.OPTED_OUT, "DriverSkipLabel", message)


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
