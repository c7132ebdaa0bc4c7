"""What is seen of a node for the step of a rollout: its driver, its check pod and what stands in the way.

The label says which driver is to be there, the pod of that driver whether it is. ``rollouts`` asks this for
each node and gives the answers to ``rollout.rollout_step``.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.kube.objects.pod import FAILED, SUCCEEDED
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.node_preflight import findings_of
from gpufleet.operator.plan import NodePlan
from gpufleet.operator.rollout.observed import Check, Drain, RolloutNode
from gpufleet.operator.rollout_objects import (
    APP_LABEL,
    CHECK_LABEL,
    DAEMON_SET,
    DRIVER_LABEL,
    VALIDATOR,
    HeldPod,
    check_name,
    driver_key,
    is_turned_away,
)
from gpufleet.preflight.finding import FindingSeverity


class SeenDrivers(msgspec.Struct, frozen=True):
    """The driver pods of one node: those of the driver that its label names, and those of others."""

    wanted: tuple[HeldPod, ...] = ()
    leaving: tuple[HeldPod, ...] = ()


def drivers_of(facts: NodeFacts, pods: Sequence[HeldPod], namespace: str) -> SeenDrivers:
    """The driver pods that run on a node."""
    key = facts.labels.get(DRIVER_LABEL, "")
    found = [
        one
        for one in pods
        if one.metadata.namespace == namespace and DRIVER_LABEL in one.metadata.labels and not one.has_ended
    ]
    wanted = tuple(one for one in found if one.metadata.labels[DRIVER_LABEL] == key and not one.is_ending)
    return SeenDrivers(wanted, tuple(one for one in found if one not in wanted))


def observed(
    facts: NodeFacts,
    pods: Sequence[HeldPod],
    drain: Drain,
    namespace: str,
    *,
    wanted_image: str = "",
    blocker: str = "",
) -> RolloutNode:
    """One node as a rollout to this image sees it."""
    seen = drivers_of(facts, pods, namespace)
    image = _image(facts, wanted_image)
    check, check_words = _check(facts, pods, namespace)
    pod = seen.wanted[0] if seen.wanted else None
    return RolloutNode(
        name=facts.name,
        image=image,
        stamp=facts.stamp,
        is_ready=facts.is_ready,
        is_cordoned=facts.is_cordoned,
        has_opted_out=facts.has_opted_out,
        # Two drivers cannot be in one kernel: the new one works only when the old one has left.
        runs=None if pod is None else pod.is_ready and not seen.leaving,
        driver_words=_driver_words(seen),
        blocker=facts.stamp_problem or blocker,
        drain=drain,
        check=check,
        check_words=check_words,
        is_skipped=facts.keeps_driver,
    )


def blocker_of(facts: NodeFacts, plan: NodePlan, policy: FleetPolicy) -> str:
    """What keeps a node from beginning: a refused policy, or what preflight found; "" for nothing."""
    for refusal in plan.refusals:
        if policy.name in refusal.refused:
            return refusal.sentence()
    findings = findings_of(facts, plan, (policy,))
    return next((one.message for one in findings if one.severity is FindingSeverity.BLOCKS), "")


def _image(facts: NodeFacts, wanted: str) -> str:
    """The image that the node's label stands for, "" where it has none or one that is not known."""
    key = facts.labels.get(DRIVER_LABEL, "")
    stamp = facts.stamp
    # A label has room for a part of the digest alone, so the image is looked for among those that may be
    # there.
    of_stamp = () if stamp is None else (stamp.target, stamp.previous, stamp.failed_target)
    return next(
        (one for one in (*of_stamp, facts.driver_image, wanted) if one and driver_key(one) == key), ""
    )


def _driver_words(seen: SeenDrivers) -> str:
    """What is said of a driver that does not run."""
    if seen.leaving:
        return f"the driver of before has not left: pod {seen.leaving[0].metadata.name}"
    if not seen.wanted:
        return "its pod does not run on the node"
    pod = seen.wanted[0]
    return "" if pod.is_ready else pod.words() or f"pod {pod.metadata.name} is not ready"


def _check(facts: NodeFacts, pods: Sequence[HeldPod], namespace: str) -> tuple[Check, str]:
    checks = [
        one
        for one in pods
        if CHECK_LABEL in one.metadata.labels and one.metadata.namespace == namespace and not one.is_ending
    ]
    if not checks:
        return Check.ABSENT, ""
    target = "" if facts.stamp is None else check_name(facts.name, facts.stamp.target)
    pod = next((one for one in checks if one.metadata.name == target), checks[0])
    if pod.metadata.name != target:
        # Of another image, and not deleted yet: it says nothing of this one.
        return Check.RUNNING, ""
    if is_turned_away(pod):
        return Check.ABSENT, pod.words()
    if pod.status.phase == SUCCEEDED:
        waiting = _unready_validator(pods)
        return (Check.PASSED, "") if waiting is None else (Check.RUNNING, waiting)
    if pod.status.phase == FAILED:
        return Check.FAILED, pod.words() or "it gives no reason"
    return Check.RUNNING, pod.words()


def _unready_validator(pods: Sequence[HeldPod]) -> str | None:
    """What is said of a validator of NVIDIA's operator that has not found all well yet; None without one.

    It belongs to a DaemonSet: the label alone could be written by the author of any pod.
    """
    for one in pods:
        is_validator = one.metadata.labels.get(APP_LABEL) == VALIDATOR
        if not is_validator or one.has_ended or one.is_ending or one.is_ready:
            continue
        controller = one.metadata.controller
        if controller is not None and controller.kind == DAEMON_SET:
            words = one.words()
            return f"pod {one.metadata.name} is not ready{f': {words}' if words else ''}"
    return None
