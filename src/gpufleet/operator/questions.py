"""``gpufleet policy``: what policies would change, and how far they are. Nothing is written.

Objects come from a cluster or from files. A policy of a file takes the place of the one of its name in the
cluster, so that an edit is shown before it is applied. ``fleet_state`` finds out the rest.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.files.regular import read_regular, read_standard_input
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.kube.objects.metadata import PartialObject
from gpufleet.kube.resources import FLEET_POLICIES, NODE_DEVICES, NODES, Kind
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.kube.yaml_documents import DOCUMENTS_MAX_BYTES, objects_of
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.operator.answer import (
    PLAN_SCHEMA,
    STATUS_SCHEMA,
    PlannedChange,
    PlannedFinding,
    PlannedNode,
    PolicyAnswer,
    PolicyPlan,
    PolicyProblem,
    PolicyStatuses,
    RefusedPolicies,
)
from gpufleet.operator.assignment import with_nodes
from gpufleet.operator.fleet_state import FleetState, fleet_state
from gpufleet.operator.node_facts import node_facts
from gpufleet.operator.node_objects import DriverReport, PolicyNode
from gpufleet.operator.node_preflight import NOTHING_MORE, KnownFacts, nodes_with_findings
from gpufleet.operator.plan import Change, NodePlan
from gpufleet.operator.planned_rollouts import planned_rollouts
from gpufleet.preflight.finding import PreflightFinding

STANDARD_INPUT = "-"


class FoundPolicies(msgspec.Struct):
    """The objects that a question is about, and what could not be read."""

    policies: dict[str, wire.FleetPolicy] = {}
    nodes: dict[str, PolicyNode] = {}
    reports: dict[str, DriverReport] = {}
    problems: dict[str, str] = {}
    notes: list[str] = []


class PolicySource(msgspec.Struct, frozen=True):
    """Where objects come from: files, and a cluster unless ``is_offline``; ``host_facts`` is a file."""

    files: tuple[str, ...]
    cluster: ClusterChoice
    is_offline: bool = False
    host_facts: str = ""


def plan_of(source: PolicySource) -> PolicyPlan:
    """What policies would change. Raises InputError for files that cannot be read."""
    # What is wrong with a file is told before a cluster is asked.
    of_files, known = _of_files(source), _known(source.host_facts)
    found = FoundPolicies() if source.is_offline else asyncio.run(_of_cluster(source.cluster))
    found.problems = {name: text for name, text in found.problems.items() if name not in of_files.policies}
    found.policies |= of_files.policies
    found.nodes |= of_files.nodes
    found.reports |= of_files.reports
    if not found.policies and not found.problems:
        expected = "FleetPolicies in a file, or in the cluster"
        raise InputError("no FleetPolicy", expected=expected)
    facts = (node_facts(one, found.reports.get(name)) for name, one in found.nodes.items())
    state = fleet_state(found.policies.values(), facts, found.problems.items())
    return _answer(state, found.notes, known)


def status_of(cluster: ClusterChoice, names: Sequence[str]) -> PolicyStatuses:
    """What the operator told last of policies; of all where no name is given."""
    found = asyncio.run(_policies(cluster))
    missing = [name for name in names if name not in found.policies]
    if missing:
        known = ", ".join(sorted(found.policies)) or "none is there"
        raise InputError("no such FleetPolicy", field="POLICY", value=missing[0], expected=known)
    chosen = names or sorted(found.policies)
    return PolicyStatuses(STATUS_SCHEMA, tuple(_policy_answer(found.policies[name]) for name in chosen))


def _policy_answer(policy: wire.FleetPolicy) -> PolicyAnswer:
    status = wire.policy_status_of(policy)
    return PolicyAnswer(
        policy.metadata.name,
        status.observed_generation is not None and status.observed_generation == policy.metadata.generation,
        status.selected,
        status.conditions,
        status.phases,
        status.nodes,
        status.nodes_left_out or 0,
    )


async def _policies(cluster: ClusterChoice) -> FoundPolicies:
    found = FoundPolicies()
    async with connect(cluster) as connection:
        await _list_policies(connection.client, found)
    return found


async def _of_cluster(cluster: ClusterChoice) -> FoundPolicies:
    found = FoundPolicies()
    async with connect(cluster) as connection:
        client = connection.client
        try:
            await _list_policies(client, found)
        except NotFound:
            found.notes.append("the cluster does not serve FleetPolicies; those of files are looked at alone")
        for raw in await _listed(client, NODES):
            node = msgspec.json.decode(raw, type=PolicyNode)
            found.nodes[node.metadata.name] = node
        try:
            for raw in await _listed(client, NODE_DEVICES):
                report = msgspec.json.decode(raw, type=DriverReport)
                found.reports[report.metadata.name] = report
        except (Forbidden, NotFound) as error:
            found.notes.append(f"drivers are known by labels alone: {error}")
    return found


async def _list_policies(client: Client, found: FoundPolicies) -> None:
    for raw in await _listed(client, FLEET_POLICIES):
        try:
            policy = msgspec.json.decode(raw, type=wire.FleetPolicy)
        except msgspec.ValidationError as error:
            found.problems[msgspec.json.decode(raw, type=PartialObject).metadata.name] = str(error)
        else:
            found.policies[policy.metadata.name] = policy


async def _listed(client: Client, kind: Kind) -> list[msgspec.Raw]:
    return [raw async for page in client.list_pages(kind) for raw in page.items or ()]


def _of_files(source: PolicySource) -> FoundPolicies:
    """The objects of the files. Raises InputError, also where there are files and no FleetPolicy in them."""
    found = FoundPolicies()
    for path in source.files:
        if path == STANDARD_INPUT:
            text, where = read_standard_input(DOCUMENTS_MAX_BYTES), "standard input"
        else:
            text, where = read_regular(Path(path), DOCUMENTS_MAX_BYTES), path
        documents = objects_of(text, where)
        if not documents:
            raise InputError("no object in it", where=where, expected="FleetPolicies as YAML or JSON")
        for document in documents:
            _add(found, document, where, takes_nodes=source.is_offline)
    if source.files and not found.policies:
        where = ", ".join(source.files)
        raise InputError("no FleetPolicy", where=where, expected="FleetPolicies in one of the files")
    return found


def _add(found: FoundPolicies, document: dict[str, Any], where: str, *, takes_nodes: bool) -> None:
    kind, name = document.get("kind"), _name(document, where)
    raw = msgspec.json.encode(document)
    try:
        if kind == FLEET_POLICIES.name:
            found.policies[name] = msgspec.json.decode(raw, type=wire.FleetPolicy)
        elif kind == NODES.name and takes_nodes:
            found.nodes[name] = msgspec.json.decode(raw, type=PolicyNode)
        elif kind == NODE_DEVICES.name and takes_nodes:
            found.reports[name] = msgspec.json.decode(raw, type=DriverReport)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=f"{where}, {kind} {name}", expected=f"a {kind}") from None


def _name(document: dict[str, Any], where: str) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        raise InputError("an object without a name", field="metadata.name", where=where, expected="a name")
    return name


def _known(path: str) -> KnownFacts:
    if not path:
        return NOTHING_MORE
    text = read_regular(Path(path), DOCUMENTS_MAX_BYTES, field="--host-facts")
    try:
        return msgspec.yaml.decode(text, type=KnownFacts)
    except msgspec.MsgspecError as error:
        expected = "nodes, images and cluster, as docs/fleet-policies.md has them"
        raise InputError(str(error), field="--host-facts", where=path, expected=expected) from None


def _answer(state: FleetState, notes: Iterable[str], known: KnownFacts) -> PolicyPlan:
    findings = nodes_with_findings(state.nodes, state.plans, state.policies.values(), known)
    selected = {
        name: sum(name in plan.policies for plan in state.plans.values()) for name in sorted(state.policies)
    }
    return PolicyPlan(
        PLAN_SCHEMA,
        selected,
        tuple(PolicyProblem(name, problem) for name, problem in sorted(state.problems.items())),
        tuple(
            RefusedPolicies(one.policies, one.kind.value, one.field, with_nodes(one, nodes), nodes)
            for one, nodes in state.refusals.items()
        ),
        tuple(_planned(plan, findings.get(plan.node, ())) for plan in state.plans.values()),
        (*notes, *_restoring_waits(state)),
        tuple(planned_rollouts(state, findings)),
    )


def _restoring_waits(state: FleetState) -> tuple[str, ...]:
    if not state.problems:
        return ()
    return (f"nothing is taken back while {counted(len(state.problems), 'policy that')} cannot be read",)


def _planned(plan: NodePlan, findings: tuple[PreflightFinding, ...]) -> PlannedNode:
    return PlannedNode(
        plan.node,
        plan.policies,
        plan.opted_out,
        tuple(_change(one) for one in plan.changes),
        tuple(one.sentence() for one in plan.conflicts),
        tuple(sorted({name for one in plan.refusals for name in one.refused})),
        tuple(PlannedFinding(one.rule, one.severity.value, one.message, one.way_out) for one in findings),
        plan.keeps_driver,
    )


def _change(change: Change) -> PlannedChange:
    return PlannedChange(
        change.field, change.before, change.after, change.way.value, change.policy, change.note
    )
