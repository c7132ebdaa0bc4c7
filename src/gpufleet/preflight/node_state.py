"""Rules about the node as the API has it: states that an earlier upgrade left, and what works there now."""

from collections.abc import Iterator

from gpufleet.model.fleet_policy import DEPLOY_PREFIX, MIG_STATE_LABEL, UPGRADE_STATE_LABEL, DriverSource
from gpufleet.model.phrases import listed
from gpufleet.preflight.facts import Case
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding

DEPLOY_DRIVER = "nvidia.com/gpu.deploy.driver"
PRE_INSTALLED, PAUSED = "pre-installed", "paused-for-"
SETTLED_STATES = ("", "upgrade-done")
"""States of nodes on which no operator is at work."""

WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
MACHINES = frozenset({"vm-passthrough", "vm-vgpu"})
"""Values of ``WORKLOAD_LABEL``: the GPUs are given to virtual machines, by another driver."""

MIG_AT_WORK = frozenset({"pending", "rebooting"})
CRASHING = "CrashLoopBackOff"
WRITERS_MAX = 1
"""A label of a driver manager has one writer; two take turns for ever."""


def judge(case: Case) -> Iterator[PreflightFinding]:
    """What of the node's state stands in the way."""
    yield from _readiness(case)
    yield from _labels(case)
    if case.wanted.source is DriverSource.IMAGE:
        yield from _other_uses(case)
    yield from _pods(case)


def _readiness(case: Case) -> Iterator[PreflightFinding]:
    if case.node.is_ready is False:
        yield PreflightFinding(
            "node-not-ready",
            FindingSeverity.BLOCKS,
            "the node is not ready",
            "repair it first; other nodes go on without it",
        )
    if case.node.is_cordoned and not case.node.cordoned_by_us:
        yield PreflightFinding(
            "cordoned-by-others",
            FindingSeverity.WARNS,
            "the node is cordoned, and not by gpufleet",
            "it stays cordoned afterwards: its cordon is undone only by what made it",
        )


def _labels(case: Case) -> Iterator[PreflightFinding]:
    labels = case.node.labels
    state = labels.get(UPGRADE_STATE_LABEL, "")
    # A rollout of ours writes the same label while it is at work.
    if state not in SETTLED_STATES and UPGRADE_STATE_LABEL not in case.node.own_keys:
        yield PreflightFinding(
            "foreign-upgrade-unfinished",
            FindingSeverity.BLOCKS,
            f"an upgrade by another operator stands at {state}",
            "let it finish, or end it and take its labels away",
        )
    if labels.get(DEPLOY_DRIVER) == PRE_INSTALLED and case.wanted.source is DriverSource.IMAGE:
        yield PreflightFinding(
            "host-driver-labelled",
            FindingSeverity.BLOCKS,
            "another operator found a driver of the host: its validation waits for that one",
            "choose source Host, or remove the host's driver and the label",
        )
    paused = sorted(
        name
        for name, value in labels.items()
        if name.startswith(DEPLOY_PREFIX) and PAUSED in value and name not in case.node.own_keys
    )
    if paused:
        yield PreflightFinding(
            "operands-left-paused",
            FindingSeverity.BLOCKS,
            f"{listed(paused)} is still paused by an earlier change",
            "set these labels to true again, after you have seen that nothing is at work",
        )
    contended = sorted(
        name
        for name, writers in case.node.label_writers.items()
        if name.startswith(DEPLOY_PREFIX) and len(writers) > WRITERS_MAX
    )
    if contended:
        yield PreflightFinding(
            "labels-contended",
            FindingSeverity.BLOCKS,
            f"{listed(contended)} is written by {listed(case.node.label_writers[contended[0]])}",
            "leave one writer: they undo each other's work",
        )


def _other_uses(case: Case) -> Iterator[PreflightFinding]:
    """What holds the GPUs that no pod tells of."""
    workload = case.node.labels.get(WORKLOAD_LABEL, "")
    if workload in MACHINES:
        yield PreflightFinding(
            "gpus-of-virtual-machines",
            FindingSeverity.BLOCKS,
            f"the GPUs are for virtual machines ({workload}), and a driver for containers finds none",
            f"leave the node out of the policy, or take its label {WORKLOAD_LABEL} away",
        )
    state = case.node.labels.get(MIG_STATE_LABEL, "")
    if state in MIG_AT_WORK:
        yield PreflightFinding(
            "mig-change-unfinished",
            FindingSeverity.BLOCKS,
            f"the MIG manager changes the layout of the GPUs: its state is {state}",
            "let it finish; if its pod is gone, see why, and take the label away",
        )


def _pods(case: Case) -> Iterator[PreflightFinding]:
    # The init container unloads the old driver; a later container that fails has another cause.
    crashing = [one for one in case.node.driver_pods if one.is_init and one.waiting == CRASHING]
    if crashing:
        yield PreflightFinding(
            "driver-in-use",
            FindingSeverity.BLOCKS,
            f"{crashing[0].name} cannot start: the old driver is still in use",
            "drain the GPUs of the node, then let the pod start again",
        )
    if case.node.claim_pods:
        yield PreflightFinding(
            "claims-held",
            FindingSeverity.WARNS,
            f"{listed(case.node.claim_pods)} hold GPUs by claims: their driver has to outlive them",
            "drain these pods before the DRA driver's pod stops",
        )
    elif case.node.gpu_pods:
        yield PreflightFinding(
            "gpu-pods-running",
            FindingSeverity.WARNS,
            f"{listed(case.node.gpu_pods)} hold GPUs, and with them files of the old driver",
            "each of them has to start anew; the node is drained first",
        )
