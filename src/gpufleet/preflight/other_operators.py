"""Rules about what else brings drivers: two that do the same undo each other's work."""

from collections.abc import Iterator

from gpufleet.model.phrases import listed
from gpufleet.model.taint import untolerated
from gpufleet.preflight.facts import EVICTION_BY_CONTROLLER, Case
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding


def judge(case: Case) -> Iterator[PreflightFinding]:
    """What else works on the node, or has been left behind."""
    yield from _operators(case)
    yield from _daemon_sets(case)
    yield from _definitions(case)
    plugins = case.node.device_plugins
    if plugins is not None and len(plugins) > 1:
        yield PreflightFinding(
            "second-device-plugin",
            FindingSeverity.BLOCKS,
            f"{listed(plugins)} offer GPUs to one kubelet",
            "leave one of them on the node",
        )


def _operators(case: Case) -> Iterator[PreflightFinding]:
    bringing = [one for one in case.cluster.operators if one.brings_drivers]
    if bringing:
        yield PreflightFinding(
            "second-operator",
            FindingSeverity.BLOCKS,
            f"{listed(one.name for one in bringing)} brings drivers too",
            "turn its driver off (driver.enabled: false), or choose source Host",
        )
    # None is not known, and accuses no operator.
    silent = [one for one in bringing if one.leads is False]
    if silent:
        yield PreflightFinding(
            "operator-without-leader",
            FindingSeverity.BLOCKS,
            f"{listed(one.name for one in silent)} brings drivers, and no process of it leads",
            "start it again and let it finish, or take it away",
        )
    # A rollout of ours sets it too while it is at work, and takes it away itself.
    is_foreign = EVICTION_BY_CONTROLLER not in case.node.own_keys
    if case.node.annotations.get(EVICTION_BY_CONTROLLER) == "true" and is_foreign and not bringing:
        yield PreflightFinding(
            "eviction-left-to-no-controller",
            FindingSeverity.BLOCKS,
            f"the node says {EVICTION_BY_CONTROLLER}=true, and no controller is there that evicts",
            f"take the annotation away: kubectl annotate node NODE {EVICTION_BY_CONTROLLER}-",
        )


def _daemon_sets(case: Case) -> Iterator[PreflightFinding]:
    for one in case.cluster.daemon_sets:
        if one.misscheduled:
            yield PreflightFinding(
                "driver-pods-misscheduled",
                FindingSeverity.WARNS,
                f"{one.name} has pods on {one.misscheduled} of the nodes that it does not select",
                "let them end: an operator that counts its pods stops all upgrades over them",
            )
        taint = untolerated(case.node.taints, one.tolerations)
        if taint is not None:
            yield PreflightFinding(
                "taint-not-tolerated",
                FindingSeverity.BLOCKS,
                f"{one.name} does not tolerate {taint}, so its pods are made and deleted again",
                "add the toleration to its operator, or take the taint away",
            )


def _definitions(case: Case) -> Iterator[PreflightFinding]:
    for one in case.cluster.definitions:
        # The API server drops fields that a definition lacks, and answers that all is well.
        if one.missing_fields:
            yield PreflightFinding(
                "definition-too-old",
                FindingSeverity.BLOCKS,
                f"the definition {one.name} drops {listed(one.missing_fields)} without a word",
                "apply the definitions of the operator's own version",
            )
        if one.is_missing or one.is_terminating:
            state = "is going away" if one.is_terminating else "is missing beside the others"
            yield PreflightFinding(
                "definitions-partly-removed",
                FindingSeverity.BLOCKS,
                f"the definition {one.name} {state}",
                "finish the removal of that operator, or install all of its definitions",
            )
    for left in case.cluster.left_objects:
        yield PreflightFinding(
            "finalizer-left",
            FindingSeverity.BLOCKS,
            f"{left.name} is deleted and held by {listed(left.finalizers)}",
            "start the operator that takes it away, or remove the finalizer",
        )
