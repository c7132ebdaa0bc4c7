"""The status of a FleetPolicy, put on top of the one that is there.

Times change only with what they are the time of: a condition's with its status, a node's with its phase and
reason. Equal in, equal out, so that nothing is written where nothing is new. ``operator.statuses`` says what
is to be told.
"""

import datetime as dt
from collections.abc import Sequence

import msgspec

from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.objects.fleet_policies import FleetPolicyStatus, NodePolicyStatus, PhaseCount
from gpufleet.kube.objects.fleet_queues import Condition

MESSAGE_LENGTH_MAX = 1024
"""As in the definition of FleetPolicy."""

NODES_MAX = 2000
"""As many nodes as a status has room for: an object of the API has at most about a megabyte."""


class PolicyCondition(msgspec.Struct, frozen=True):
    """A condition without its times: ``holds`` is None where it is not known.

    The definition of FleetPolicy wants a message of each.
    """

    type: str
    holds: bool | None
    reason: str
    message: str


class ReportedNode(msgspec.Struct, frozen=True):
    """A node with its phase, without its time."""

    name: str
    phase: str
    reason: str
    message: str = ""


def policy_status(
    before: FleetPolicyStatus,
    conditions: Sequence[PolicyCondition],
    nodes: Sequence[ReportedNode] | None,
    phases: Sequence[tuple[str, int]],
    generation: int,
    now: dt.datetime,
) -> FleetPolicyStatus:
    """The status that is to stand there.

    ``nodes`` in the order in which they are to be told; None where it is not known which ones are selected.
    """
    since = {(one.name, one.phase, one.reason): one.since for one in before.nodes}
    told = tuple(
        NodePolicyStatus(
            one.name,
            one.phase,
            one.reason,
            shortened(one.message),
            since.get((one.name, one.phase, one.reason)) or whole_time(now),
        )
        for one in (nodes or ())[:NODES_MAX]
    )
    return FleetPolicyStatus(
        observed_generation=generation,
        conditions=conditions_on_top(before.conditions, conditions, generation, now),
        selected=None if nodes is None else len(nodes),
        phases=tuple(PhaseCount(phase, count) for phase, count in phases if count),
        nodes=told,
        nodes_left_out=len(nodes or ()) - len(told) or None,
        rollout=before.rollout,
    )


def status_patch(status: FleetPolicyStatus) -> dict[str, object]:
    """The merge patch that makes the status so. What is left out is written as null, or as an empty list.

    What it says of a rollout stays as it is there: that is written for itself.
    """
    written = msgspec.to_builtins(status)
    written.pop("rollout", None)
    empty: dict[str, object] = {
        "phases": [],
        "nodes": [],
        "conditions": [],
        "nodesLeftOut": None,
        "selected": None,
    }
    return {"status": {**empty, **written}}


def shortened(message: str) -> str:
    """A message that the definition has room for."""
    return message if len(message) <= MESSAGE_LENGTH_MAX else f"{message[: MESSAGE_LENGTH_MAX - 3]}..."


def conditions_on_top(
    before: Sequence[Condition], now_told: Sequence[PolicyCondition], generation: int, now: dt.datetime
) -> tuple[Condition, ...]:
    """Conditions as they are now told. Those of other types stay, and a time stays with its status."""
    known = {one.type: one for one in before}
    ours = {one.type for one in now_told}
    found = [one for one in before if one.type not in ours]
    for told in now_told:
        status = "Unknown" if told.holds is None else str(told.holds)
        old = known.get(told.type)
        same = old is not None and old.status == status and old.last_transition_time
        since = old.last_transition_time if old is not None and same else whole_time(now)
        found.append(Condition(told.type, status, told.reason, shortened(told.message), since, generation))
    return tuple(found)
