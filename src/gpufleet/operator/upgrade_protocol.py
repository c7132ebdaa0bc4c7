"""The keys by which driver managers, validators and people follow the upgrade of a node's driver.

NVIDIA's operator keeps them on its nodes. A rollout writes them in the same write as its stamp, so that
images made for that operator run unchanged beside it: driver managers leave evictions to the controller that
the annotation announces, and dashboards and alerts read the state. ``rollout_actions`` writes them, preflight
asks which of them are ours, and ``leaving`` takes those back.
"""

from gpufleet.model.fleet_policy import UPGRADE_STATE_LABEL
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.node_objects import PAUSED_ANNOTATION
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.preflight.facts import EVICTION_BY_CONTROLLER
from gpufleet.preflight.node_state import SETTLED_STATES

PAUSED = "paused-for-driver-upgrade"
"""The value by which driver managers pause a part of NVIDIA's operator while a driver changes."""

EVICTS = "true"
"""The value of ``EVICTION_BY_CONTROLLER`` on nodes where a controller evicts, and not the driver manager."""

STATES = {
    # The cordon and the stamp are one write, so that no node is in the state before, ``cordon-required``.
    RolloutPhase.CORDONED: "wait-for-jobs-required",
    RolloutPhase.WAITING: "wait-for-jobs-required",
    RolloutPhase.ASKING: "wait-for-jobs-required",
    RolloutPhase.EVICTING: "pod-deletion-required",
    RolloutPhase.STUCK: "pod-deletion-required",
    RolloutPhase.CHANGING: "pod-restart-required",
    RolloutPhase.VALIDATING: "validation-required",
    RolloutPhase.RETURNED: "upgrade-done",
    # The driver of before works, and the upgrade that was asked for has failed all the same.
    RolloutPhase.ROLLED_BACK: "upgrade-failed",
    RolloutPhase.FAILED: "upgrade-failed",
}
"""The state of NVIDIA's operator that says what a phase says."""


def written_state(facts: NodeFacts, stamp: Stamp | None) -> dict[str, str | None]:
    """The change of labels that a stamp brings; none where another operator is at work on the node."""
    found = facts.labels.get(UPGRADE_STATE_LABEL, "")
    is_ours = UPGRADE_STATE_LABEL in own_keys(facts)
    if stamp is None:
        return {UPGRADE_STATE_LABEL: None} if is_ours else {}
    state = STATES[stamp.phase]
    # A settled state of another operator is what its last upgrade left: the next controller goes on from it.
    may_write = is_ours or found in SETTLED_STATES
    return {UPGRADE_STATE_LABEL: state} if may_write and found != state else {}


def written_annotations(facts: NodeFacts, stamp: Stamp | None) -> dict[str, str | None]:
    """The change of annotations that a stamp brings: what others wrote stays."""
    if stamp is None:
        return {EVICTION_BY_CONTROLLER: None} if EVICTION_BY_CONTROLLER in facts.rollout_keys else {}
    return {} if EVICTION_BY_CONTROLLER in facts.annotations else {EVICTION_BY_CONTROLLER: EVICTS}


def own_keys(facts: NodeFacts) -> frozenset[str]:
    """The keys of driver managers on a node that a rollout of ours has written.

    The API server remembers who wrote a key. ``kubectl get`` does not tell that, so that of a node in a file
    the stamp is asked: what it stands for is ours.
    """
    found = set(facts.rollout_keys)
    if facts.stamp is not None:
        if facts.labels.get(UPGRADE_STATE_LABEL) == STATES[facts.stamp.phase]:
            found.add(UPGRADE_STATE_LABEL)
        if EVICTION_BY_CONTROLLER in facts.annotations:
            found.add(EVICTION_BY_CONTROLLER)
    paused = facts.annotations.get(PAUSED_ANNOTATION, "").split(",")
    found.update(key for key in paused if facts.labels.get(key) == PAUSED)
    return frozenset(found)
