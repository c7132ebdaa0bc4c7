"""All policies and nodes at one moment, and everything that follows from them.

The operator makes one at each round, and ``gpufleet policy plan`` makes one of the cluster and of files: both
see the same. ``plan`` and ``statuses`` do the work.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.fleet_policies import read_fleet_policy
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.operator.assignment import PolicyRefusal, assign, nodes_by_refusal
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.plan import NodePlan, plan_nodes
from gpufleet.operator.rollout import windows


class FleetState(msgspec.Struct, frozen=True):
    """The state. ``problems`` by the name of a policy that cannot be read."""

    policies: dict[str, FleetPolicy]
    problems: dict[str, str]
    nodes: dict[NodeName, NodeFacts]
    plans: dict[NodeName, NodePlan]
    refusals: dict[PolicyRefusal, tuple[NodeName, ...]]


def fleet_state(
    policies: Iterable[wire.FleetPolicy],
    nodes: Iterable[NodeFacts],
    unreadable: Iterable[tuple[str, str]] = (),
) -> FleetState:
    """What follows from policies and nodes; ``unreadable`` are policies that could not even be decoded."""
    read: dict[str, FleetPolicy] = {}
    problems = dict(unreadable)
    for one in policies:
        if one.metadata.name in problems:
            continue
        try:
            read[one.metadata.name] = checked_policy(one)
        except ObjectError as error:
            problems[one.metadata.name] = str(error)
    by_name = {one.name: one for one in nodes}
    assigned = assign(read.values(), by_name.values())
    # What a policy wrote that cannot be read now looks as if no policy asked for it, so nothing is taken
    # back.
    plans = plan_nodes(by_name, assigned, takes_back=not problems)
    return FleetState(read, problems, by_name, {one.node: one for one in plans}, nodes_by_refusal(assigned))


def checked_policy(found: wire.FleetPolicy) -> FleetPolicy:
    """What a policy means. Raises ObjectError, also for windows that no calendar knows."""
    policy = read_fleet_policy(found)
    if policy.rollout is not None:
        for position, window in enumerate(policy.rollout.windows):
            with of_object("FleetPolicy", policy.name), inside(f"spec.rollout.windows[{position}]"):
                windows.check(window)
    for position, period in enumerate(policy.mig_periods):
        with of_object("FleetPolicy", policy.name), inside(f"spec.migPeriods[{position}]"):
            windows.check(period.window)
    return policy
