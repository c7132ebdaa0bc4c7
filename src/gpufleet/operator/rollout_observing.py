"""What is seen of a node for the step of a rollout: its images, its check pod and what stands in the way.

Labels say which driver and toolkit are to be there, their pods whether they are. ``rollouts`` asks this for
each node and gives the answers to ``rollout.rollout_step``.
"""

from collections.abc import Mapping, Sequence

from gpufleet.kube.objects.pod import FAILED, SUCCEEDED
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.node_images import NodeImages, images_of
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.node_preflight import findings_of
from gpufleet.operator.plan import NodePlan
from gpufleet.operator.rollout.observed import Check, Drain, RolloutNode
from gpufleet.operator.rollout.stamp import RolloutPhase
from gpufleet.operator.rollout_images import SeenPart, images_there, minded_parts, part_of
from gpufleet.operator.rollout_objects import (
    APP_LABEL,
    CHECK_LABEL,
    DAEMON_SET,
    VALIDATOR,
    HeldPod,
    check_name,
    is_turned_away,
)
from gpufleet.preflight.finding import FindingSeverity


def observed(
    facts: NodeFacts,
    pods: Sequence[HeldPod],
    drain: Drain,
    namespace: str,
    *,
    wanted_image: str = "",
    blocker: str = "",
) -> RolloutNode:
    """One node as a rollout to these images sees it."""
    wanted = images_of(wanted_image)
    stamp = facts.stamp
    parts = minded_parts(stamp, wanted)
    seen = {part: part_of(facts, pods, namespace, part) for part in parts}
    image = images_there(facts, parts, wanted)
    # What is to run: a part that only leaves needs no pod. A node that came through has what is wanted now.
    is_through = stamp is None or (stamp.phase is RolloutPhase.RETURNED and bool(wanted.parts))
    goal = wanted if stamp is None or is_through else images_of(stamp.target)
    check, check_words = _check(facts, pods, namespace)
    return RolloutNode(
        name=facts.name,
        image=image.text(),
        stamp=facts.stamp,
        is_ready=facts.is_ready,
        is_cordoned=facts.is_cordoned,
        has_opted_out=facts.has_opted_out,
        runs=_all_run(seen, goal),
        driver_words=_words(seen, goal),
        blocker=facts.stamp_problem or blocker,
        drain=drain,
        check=check,
        check_words=check_words,
        is_skipped=facts.keeps_driver,
    )


def _all_run(seen: Mapping[str, SeenPart], goal: NodeImages) -> bool | None:
    """Whether everything that is to run works; None where that is not known, or nothing is to run."""
    states = [one.runs if part in goal.parts else not one.leaving for part, one in seen.items()]
    if False in states:
        return False
    return True if goal.parts and None not in states else None


def _words(seen: Mapping[str, SeenPart], goal: NodeImages) -> str:
    """What is said of parts that do not run, the driver first: a toolkit waits for it."""
    said = (one.words(part) for part, one in seen.items() if part in goal.parts or one.leaving)
    return next((one for one in said if one), "")


def blocker_of(facts: NodeFacts, plan: NodePlan, policy: FleetPolicy) -> str:
    """What keeps a node from beginning: a refused policy, or what preflight found; "" for nothing."""
    for refusal in plan.refusals:
        if policy.name in refusal.refused:
            return refusal.sentence()
    findings = findings_of(facts, plan, (policy,))
    return next((one.message for one in findings if one.severity is FindingSeverity.BLOCKS), "")


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
