"""Preflight of the nodes whose driver has to change, from what the API tells and what a file adds.

The API tells of labels, readiness and the kernel. What stands on the host alone (modules, secure boot, disk,
the runtime's configuration) comes from a file of host facts, and is not known without one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.model.fleet_policy import Driver, DriverSource, FleetPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.model.taint import Taint
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.plan import NodePlan, Way
from gpufleet.operator.upgrade_protocol import own_keys
from gpufleet.preflight.facts import Case, ClusterState, HostFacts, ImageFacts, NodeState
from gpufleet.preflight.finding import PreflightFinding
from gpufleet.preflight.judging import judge, judge_toolkit

SYSTEM_ID = "feature.node.kubernetes.io/system-os_release.ID"
SYSTEM_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
"""The system of a node, as Node Feature Discovery labels it."""


class NodeExtras(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file adds of one node."""

    host: HostFacts = HostFacts()
    gpu_pods: tuple[str, ...] | None = None
    claim_pods: tuple[str, ...] | None = None
    device_plugins: tuple[str, ...] | None = None


class KnownFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of facts: of nodes by name, of images by their names with digest, and of the cluster."""

    nodes: Mapping[str, NodeExtras] = {}
    images: Mapping[str, ImageFacts] = {}
    cluster: ClusterState = ClusterState()


NOTHING_MORE = KnownFacts()


def findings_of(
    facts: NodeFacts, plan: NodePlan, policies: Iterable[FleetPolicy], known: KnownFacts = NOTHING_MORE
) -> tuple[PreflightFinding, ...]:
    """What stands in the way of the rollout that a node needs; nothing where it needs none."""
    asking = {one.policy: one.field for one in plan.changes if one.way is Way.ROLLOUT}
    asked = [one for one in policies if one.name in asking]
    for policy in asked:
        if policy.driver is not None and policy.driver.source is DriverSource.IMAGE:
            return judge(case_of(facts, policy.driver, known))
    # The toolkit alone: the driver stays, wherever it comes from.
    return judge_toolkit(case_of(facts, Driver(DriverSource.HOST), known)) if asked else ()


def case_of(facts: NodeFacts, wanted: Driver, known: KnownFacts = NOTHING_MORE) -> Case:
    """The case that preflight judges."""
    extras = known.nodes.get(facts.name, NodeExtras())
    return Case(
        wanted,
        _host(facts, extras.host),
        known.images.get(wanted.image, ImageFacts()),
        NodeState(
            is_ready=facts.is_ready,
            is_cordoned=facts.is_cordoned,
            cordoned_by_us=facts.stamp is not None and facts.stamp.is_cordon_ours,
            labels=facts.labels,
            annotations=facts.annotations,
            taints=tuple(Taint(key, value, effect) for (key, effect), value in facts.taints.items()),
            gpu_pods=extras.gpu_pods,
            claim_pods=extras.claim_pods,
            device_plugins=extras.device_plugins,
            label_writers=facts.label_managers,
            own_keys=own_keys(facts),
        ),
        known.cluster,
    )


def nodes_with_findings(
    facts: Mapping[NodeName, NodeFacts],
    plans: Mapping[NodeName, NodePlan],
    policies: Iterable[FleetPolicy],
    known: KnownFacts = NOTHING_MORE,
) -> dict[NodeName, tuple[PreflightFinding, ...]]:
    """The findings of every node that needs a rollout."""
    listed = tuple(policies)
    found = {name: findings_of(facts[name], plan, listed, known) for name, plan in plans.items()}
    return {name: findings for name, findings in found.items() if findings}


def _host(facts: NodeFacts, extra: HostFacts) -> HostFacts:
    """What a file says goes before what the API says."""
    told = facts.system
    identity, version = (facts.labels.get(key) for key in (SYSTEM_ID, SYSTEM_VERSION))
    system = f"{identity}{version}" if identity and version else None
    return msgspec.structs.replace(
        extra,
        kernel=extra.kernel or told.kernel_version or None,
        architecture=extra.architecture or told.architecture or None,
        os=extra.os or system,
    )
