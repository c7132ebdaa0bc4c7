"""Lays plans and statuses of FleetPolicies out for people; ``operator.answer`` has what they are made of."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.kube.codec.durations import written_duration
from gpufleet.model.fleet_policy import SKIP_DRIVER_LABEL
from gpufleet.model.phrases import counted, listed
from gpufleet.operator.answer import (
    PlannedChange,
    PlannedNode,
    PlannedRollout,
    PolicyAnswer,
    PolicyPlan,
    PolicyStatuses,
)

ROLLOUT_NOTE = "rollout: brought node by node; runtimes, and drivers of the host after an image, not yet."
PERSON_NOTE = "person: a person has to do it; the operator does not."
UNCHANGED = "Nothing was changed."
NO_OPERATOR = "not told yet: no operator has seen this version of the policy"
US_PER_S = 10**6
NAMES_MAX = 8
"""Names of nodes of which the same is said; as many as a line of a terminal has room for."""

_DIGEST = re.compile(r"(@sha256:[0-9a-f]{12})[0-9a-f]+")


def show_plan(plan: PolicyPlan, output: str) -> None:
    """Print a plan on standard output."""
    if output == "json":
        echo_json(plan)
        return
    for line in plan_lines(plan):
        echo_line(line)


def show_status(statuses: PolicyStatuses, output: str, *, named: bool) -> None:
    """Print statuses; with all their nodes where policies were ``named``."""
    if output == "json":
        echo_json(statuses)
        return
    if not statuses.policies:
        echo_line("There is no FleetPolicy.")
    for position, one in enumerate(statuses.policies):
        if position:
            echo_line("")
        for line in status_lines(one, named=named):
            echo_line(line)


def plan_lines(plan: PolicyPlan) -> Iterator[str]:
    """The whole text of a plan. Nodes of which the same is said stand together."""
    for name, selected in plan.policies.items():
        yield f"FleetPolicy {name}: selects {counted(selected, 'node')}"
    for problem in plan.problems:
        yield f"FleetPolicy {problem.policy}: not in force: {problem.problem}"
    for refusal in plan.refusals:
        yield f"Refused ({refusal.kind}): {refusal.message}"
    for rollout in plan.rollouts:
        yield from rollout_lines(rollout)
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node in plan.nodes:
        groups[tuple(node_lines(node))].append(node.node)
    for lines, names in groups.items():
        yield ""
        yield f"{listed(names, NAMES_MAX)}{f' ({len(names)} nodes)' if len(names) > 1 else ''}:"
        yield from (f"  {line}" for line in lines)
    ways = {change.way for node in plan.nodes for change in node.changes}
    yield ""
    yield from (text for way, text in (("rollout", ROLLOUT_NOTE), ("person", PERSON_NOTE)) if way in ways)
    for note in plan.notes:
        yield f"Note: {note}"
    yield UNCHANGED


def rollout_lines(rollout: PlannedRollout) -> Iterator[str]:
    """How the driver of a policy would go through its nodes."""
    steps = []
    if rollout.canaries:
        canaries = "1 canary" if rollout.canaries == 1 else f"{rollout.canaries} canaries"
        steps.append(f"{canaries} alone, watched for {_length(rollout.soak_seconds)}")
    if rollout.waves:
        at_once = counted(rollout.nodes_at_once, "node")
        steps.append(f"{counted(rollout.waves, 'wave')} of {at_once}")
    yield f"Rollout of {rollout.policy}: {counted(rollout.nodes, 'node')}; {', then '.join(steps)}"
    most = f"at most {_length(rollout.node_seconds_most)} a node, {_length(rollout.seconds_most)} in all"
    if rollout.windows:
        most += f", without the time outside of its {counted(rollout.windows, 'window')}"
    yield f"  {most}"
    if rollout.paused:
        yield "  paused: no node begins"
    groups: dict[str, list[str]] = defaultdict(list)
    for one in rollout.passed_over:
        groups[one.reason].append(one.node)
    for reason, names in groups.items():
        yield f"  passed over as they are now: {listed(names, NAMES_MAX)} ({reason})"


def _length(seconds: int) -> str:
    return written_duration(seconds * US_PER_S)


def node_lines(node: PlannedNode) -> Iterator[str]:
    """What is said of one node."""
    if node.opted_out:
        yield "opts out of all policies: left as it is"
        return
    if node.refused:
        yield f"left as it is by {listed(node.refused)}, refused here"
    yield from (f"conflict  {one}" for one in node.conflicts)
    yield from map(_change_line, node.changes)
    if node.keeps_driver:
        yield f"its driver and its runtime stay as they are by its label {SKIP_DRIVER_LABEL}"
    for one in node.preflight:
        yield f"preflight {one.severity}: {one.message} ({one.rule}); {one.way_out}"
    if not (node.refused or node.conflicts or node.changes or node.keeps_driver):
        yield "as the policies say: nothing to change"


def _change_line(change: PlannedChange) -> str:
    unknown = "not there" if change.way == "write" else "not known"
    before = unknown if change.before is None else change.before or '""'
    after = "taken back" if change.after is None else change.after or '""'
    who = change.policy or "no policy asks for it any more"
    note = f"; {change.note}" if change.note else ""
    return f"{change.way:<8}  {change.field}: {_cut(before)} -> {_cut(after)} ({who}){note}"


def _cut(text: str) -> str:
    """A text with digests cut to what people compare; the JSON has them whole."""
    return _DIGEST.sub(r"\1..", text)


def status_lines(policy: PolicyAnswer, *, named: bool) -> Iterator[str]:
    """What is told of one policy."""
    if not policy.observed:
        yield f"FleetPolicy {policy.name}: {NO_OPERATOR}"
    selected = "" if policy.selected is None else f": {counted(policy.selected, 'node')}"
    if policy.observed:
        yield f"FleetPolicy {policy.name}{selected}"
    for one in policy.conditions:
        message = f": {one.message}" if one.message else ""
        yield f"  {one.type} {one.status} since {one.last_transition_time}, {one.reason}{message}"
    if policy.phases:
        yield f"  {', '.join(f'{one.nodes} {one.phase}' for one in policy.phases)}"
    shown = (
        policy.nodes if named else [one for one in policy.nodes if one.phase not in {"Applied", "OptedOut"}]
    )
    rows = [(one.name, one.phase, one.reason, f"since {one.since}", one.message) for one in shown]
    yield from (f"  {line}" for line in _table(rows))
    if policy.nodes_left_out:
        yield f"  and {counted(policy.nodes_left_out, 'node')} that the status has no room for"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as their widest cell."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
