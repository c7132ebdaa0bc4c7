"""Lays a plan of admission out for people; ``admission.plan`` has what it is made of."""

from collections.abc import Iterator

from gpufleet.admission.plan.answer import (
    OBJECT,
    PODS,
    AdmissionPlan,
    PlannedFinding,
    PlannedNamespace,
    PlannedWorkload,
)
from gpufleet.cli.output import echo_json, echo_line
from gpufleet.model.phrases import counted

NOTHING = "No object with pods is there."
UNCHANGED = "Nothing was changed."
_ACTIONS = {
    "refused": "refused",
    "warned": "warned of",
    "noted": "noted in the audit log",
    "passes": "passes",
}
"""What happens to a finding, as people say it."""


def show_plan(plan: AdmissionPlan, output: str) -> None:
    """Print a plan on standard output."""
    if output == "json":
        echo_json(plan)
        return
    for line in plan_lines(plan):
        echo_line(line)


def plan_lines(plan: AdmissionPlan) -> Iterator[str]:
    """The whole text of a plan."""
    if not any(one.looked_at for one in plan.namespaces):
        yield NOTHING
    for one in plan.namespaces:
        if one.looked_at:
            yield from _namespace_lines(one)
            yield ""
    for note in plan.notes:
        yield f"Note: {note}"
    yield UNCHANGED


def _namespace_lines(one: PlannedNamespace) -> Iterator[str]:
    now = "no label" if one.label is None else one.label
    images = (
        "" if one.images_mode == "off" else f", images {one.images_label or 'no label'} -> {one.images_mode}"
    )
    yield (
        f"Namespace {one.namespace} (admission {now} -> {one.mode}{images}): "
        f"{counted(one.looked_at, 'object')} with pods, {one.refused} would be refused, "
        f"{one.warned} warned of, {one.completed} completed"
    )
    for workload in one.workloads:
        yield from (f"  {line}" for line in _workload_lines(workload))


def _workload_lines(one: PlannedWorkload) -> Iterator[str]:
    pods = "" if one.pods is None else f" ({counted(one.pods, 'pod')} now)"
    yield f"{one.kind} {one.name}{pods}: {_verdict(one)}"
    for finding in one.findings:
        of_webhook = " (by the webhook)" if finding.judge == "webhook" else ""
        place = "" if one.kind == "Pod" else _place(finding)
        yield f"  {_ACTIONS[finding.action]}{of_webhook}{place}: {finding.words}"
    for excepted in one.excepted:
        until = "" if excepted.until is None else f" until {excepted.until}"
        yield f"  excepted from {excepted.rule}{until}: {excepted.reason}"
    for change in one.completed:
        before = "not there" if change.before is None else change.before
        after = "taken away" if change.after is None else change.after
        yield f"  completed  {change.field}: {before} -> {after}"


def _verdict(one: PlannedWorkload) -> str:
    if one.action != "refused":
        return _ACTIONS[one.action]
    refused = [finding for finding in one.findings if finding.action == "refused"]
    if one.kind == "Pod":
        return "refused if it is made anew"
    if any(PODS in finding.at for finding in refused):
        return "its next pods are refused"
    return "refused if it is made anew; its next pods are not"


def _place(finding: PlannedFinding) -> str:
    alone: dict[tuple[str, ...], str] = {(OBJECT,): ", the object alone", (PODS,): ", its pods alone"}
    return alone.get(finding.at, "")
