"""The answers of ``gpufleet policy plan`` and ``gpufleet policy status``, as their JSON says them."""

import msgspec

from gpufleet.kube.objects.fleet_policies import NodePolicyStatus, PhaseCount
from gpufleet.kube.objects.fleet_queues import Condition

PLAN_SCHEMA = "gpufleet.io/policy-plan/v1"
STATUS_SCHEMA = "gpufleet.io/policy-status/v1"
"""A change that breaks readers of the JSON gets another version."""


class PlannedChange(msgspec.Struct, frozen=True, rename="camel"):
    """One field before and after; null where it is not there or not known.

    ``way`` is write (the operator writes it at once), rollout (the operator brings it node by node) or person
    (a person has to do it).
    ``policy`` is null where no policy asks for it any more.
    """

    field: str
    before: str | None
    after: str | None
    way: str
    policy: str | None
    note: str


class PlannedFinding(msgspec.Struct, frozen=True, rename="camel"):
    """What preflight found: ``severity`` is blocks, warns or unknown."""

    rule: str
    severity: str
    message: str
    way_out: str


class PlannedNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node with what would change, and what stands in the way.

    ``keeps_driver``: another driver or toolkit is wanted, and a label on the node keeps the one of before.
    """

    node: str
    policies: tuple[str, ...]
    opted_out: bool
    changes: tuple[PlannedChange, ...]
    conflicts: tuple[str, ...]
    refused: tuple[str, ...]
    preflight: tuple[PlannedFinding, ...]
    keeps_driver: bool = False


class RefusedPolicies(msgspec.Struct, frozen=True, rename="camel"):
    """Policies that cannot hold together, and on which nodes."""

    policies: tuple[str, ...]
    kind: str
    field: str
    message: str
    nodes: tuple[str, ...]


class PolicyProblem(msgspec.Struct, frozen=True):
    """A policy that says what cannot be."""

    policy: str
    problem: str


class PassedOver(msgspec.Struct, frozen=True):
    """A node that could not begin as it is now, and why."""

    node: str
    reason: str


class PlannedRollout(msgspec.Struct, frozen=True, rename="camel"):
    """How driver and toolkit of a policy would go through the nodes that need them.

    First the ``canaries`` alone, watched for ``soak_seconds``; then ``waves`` of ``nodes_at_once``. One node
    takes at most ``node_seconds_most``, and all of them ``seconds_most``, without the time outside of
    ``windows``, of which the number is told. ``passed_over`` are among ``nodes``.
    """

    policy: str
    nodes: int
    canaries: int
    soak_seconds: int
    nodes_at_once: int
    waves: int
    node_seconds_most: int
    seconds_most: int
    windows: int
    paused: bool
    passed_over: tuple[PassedOver, ...]


class PolicyPlan(msgspec.Struct, frozen=True, rename="camel"):
    """The whole plan. ``policies`` with the number of nodes that each selects."""

    schema: str
    policies: dict[str, int]
    problems: tuple[PolicyProblem, ...]
    refusals: tuple[RefusedPolicies, ...]
    nodes: tuple[PlannedNode, ...]
    notes: tuple[str, ...] = ()
    rollouts: tuple[PlannedRollout, ...] = ()


class PolicyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A policy as the operator told it last; ``observed`` false where it has not seen this version yet."""

    name: str
    observed: bool
    selected: int | None
    conditions: tuple[Condition, ...]
    phases: tuple[PhaseCount, ...]
    nodes: tuple[NodePolicyStatus, ...]
    nodes_left_out: int


class PolicyStatuses(msgspec.Struct, frozen=True):
    """The status of all policies."""

    schema: str
    policies: tuple[PolicyAnswer, ...]
