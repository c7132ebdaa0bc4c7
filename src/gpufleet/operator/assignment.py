"""Which policies hold for which node, and which of them are refused there.

One field of one node has one policy. Where two policies name the same field of a node, both are refused
there, whether their values differ or agree, and the node is left as it is by both. No order decides among
them. A policy that writes a label which another one selects by is refused on all its nodes, because it would
change what the other one is about; so are two that start one driver image in two ways.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.identifiers import FleetPolicyName, NodeName
from gpufleet.model.phrases import harmless, listed
from gpufleet.operator.node_facts import NodeFacts


class RefusalKind(enum.Enum):
    """Why policies are refused."""

    CONTRADICTION = "Contradiction"
    OVERLAP = "Overlap"
    SELECTOR = "WritesSelector"
    TWO_ROLLOUTS = "TwoRollouts"
    SHARED_IMAGE = "SharedImage"


class PolicyRefusal(msgspec.Struct, frozen=True):
    """Two policies that cannot both hold: the field, both names in their order, and what each says of it."""

    kind: RefusalKind
    field: str
    first: FleetPolicyName
    second: FleetPolicyName
    first_says: str = ""
    second_says: str = ""

    @property
    def policies(self) -> tuple[FleetPolicyName, FleetPolicyName]:
        """The names of the two policies."""
        return self.first, self.second

    @property
    def refused(self) -> tuple[FleetPolicyName, ...]:
        """The policies that are refused: one that only selects by a label does nothing wrong."""
        return (self.first,) if self.kind is RefusalKind.SELECTOR else self.policies

    def sentence(self) -> str:
        """What is wrong and what to do about it."""
        both = f"{harmless(self.first)} and {harmless(self.second)}"
        if self.kind is RefusalKind.SELECTOR:
            return (
                f"{harmless(self.first)} writes {self.field}, which {harmless(self.second)} selects nodes by;"
                " select by a label that no policy writes"
            )
        if self.kind is RefusalKind.TWO_ROLLOUTS:
            return (
                f"{both} bring one node its {self.first_says} and its {self.second_says}, "
                "which is one rollout; name both in one of them"
            )
        if self.kind is RefusalKind.SHARED_IMAGE:
            return (
                f"{both} start one driver image with kernelModules {self.first_says} and {self.second_says}; "
                "name the same in both, or another image"
            )
        if self.kind is RefusalKind.OVERLAP:
            return f"{both} both set {self.field} to {self.first_says}; keep it in one of them"
        return (
            f"{both} set {self.field} to {self.first_says} and to {self.second_says}; "
            "take it out of one of them, or select other nodes"
        )


class Assigned(msgspec.Struct, frozen=True):
    """The policies of one node: all that select it, those that hold there, and why the others do not."""

    node: NodeName
    selecting: tuple[FleetPolicy, ...] = ()
    holding: tuple[FleetPolicy, ...] = ()
    refusals: tuple[PolicyRefusal, ...] = ()


def assign(policies: Iterable[FleetPolicy], nodes: Iterable[NodeFacts]) -> dict[NodeName, Assigned]:
    """The policies of each node; a node that opted out has those that select it, and none holds."""
    ordered = sorted(policies, key=lambda one: one.name)
    writers = tuple(_selector_refusals(ordered))
    shared = tuple(_image_refusals(ordered))
    found = {}
    for node in nodes:
        selecting = tuple(one for one in ordered if one.selector.accepts(node.labels))
        if node.has_opted_out:
            found[node.name] = Assigned(node.name, selecting)
            continue
        names = {one.name for one in selecting}
        refusals = (
            *(one for one in writers if one.first in names),
            *(one for one in shared if names & set(one.policies)),
            *_field_refusals(selecting),
            *_rollout_refusals(selecting),
        )
        refused = {name for one in refusals for name in one.refused}
        holding = tuple(one for one in selecting if one.name not in refused)
        found[node.name] = Assigned(node.name, selecting, holding, refusals)
    return found


def nodes_by_refusal(assigned: Mapping[NodeName, Assigned]) -> dict[PolicyRefusal, tuple[NodeName, ...]]:
    """Each refusal with the nodes that it concerns."""
    found: dict[PolicyRefusal, list[NodeName]] = defaultdict(list)
    for name in sorted(assigned):
        for one in assigned[name].refusals:
            found[one].append(name)
    return {one: tuple(names) for one, names in found.items()}


def with_nodes(refusal: PolicyRefusal, nodes: Iterable[str]) -> str:
    """The sentence of a refusal with the nodes that it concerns."""
    return f"{refusal.sentence()} (on {listed(nodes)})"


def said(policy: FleetPolicy) -> Iterator[tuple[str, str]]:
    """Every field that a policy names, with what it says of it."""
    if policy.driver is not None:
        driver = policy.driver
        parts = (
            driver.source.value,
            driver.image,
            driver.version,
            driver.build.value,
            driver.kernel_modules.value,
        )
        yield "driver", " ".join(part for part in parts if part)
    if policy.runtime is not None:
        yield "runtime", " ".join(part for part in (policy.runtime.mode.value, policy.runtime.image) if part)
    if policy.sharing_config:
        yield "sharingConfig", policy.sharing_config
    if policy.mig_layout:
        yield "migLayout", policy.mig_layout
    if policy.mig_periods:
        yield "migPeriods", "; ".join(one.words() for one in policy.mig_periods)
    for key, value in policy.labels:
        yield f"labels[{key}]", value or '""'
    for taint in policy.taints:
        yield f"taints[{taint.key}:{taint.effect}]", taint.value or '""'


def _field_refusals(policies: tuple[FleetPolicy, ...]) -> Iterator[PolicyRefusal]:
    by_field: dict[str, list[tuple[FleetPolicyName, str]]] = defaultdict(list)
    if len(policies) < 2:
        return
    for policy in policies:
        for field, value in said(policy):
            by_field[field].append((policy.name, value))
    for field, sayings in sorted(by_field.items()):
        # Each is compared with the first alone: with one contradiction all that name the field are refused.
        first, value = sayings[0]
        for second, other in sayings[1:]:
            kind = RefusalKind.OVERLAP if value == other else RefusalKind.CONTRADICTION
            yield PolicyRefusal(kind, field, first, second, value, other)


def _rollout_refusals(policies: tuple[FleetPolicy, ...]) -> Iterator[PolicyRefusal]:
    """A node is in one rollout at a time, and its stamp has one policy: so all images are of one."""
    bringing = [one for one in policies if one.images.parts]
    for other in bringing[1:]:
        first, parts = bringing[0], other.images.parts
        # What both bring is refused as the field that both name.
        if not set(first.images.parts) & set(parts):
            says, others = (" and ".join(one) for one in (first.images.parts, parts))
            yield PolicyRefusal(RefusalKind.TWO_ROLLOUTS, "the rollout", first.name, other.name, says, others)


def _image_refusals(policies: list[FleetPolicy]) -> Iterator[PolicyRefusal]:
    """Pods of one driver image come from one DaemonSet, on all nodes alike."""
    by_image: dict[str, FleetPolicy] = {}
    for policy in policies:
        driver = policy.driver
        if driver is None or not driver.image:
            continue
        first = by_image.setdefault(driver.image, policy)
        # It is there by that image.
        if first.driver is not None and first.driver.kernel_modules is not driver.kernel_modules:
            says, others = (one.kernel_modules.value for one in (first.driver, driver))
            kind, field = RefusalKind.SHARED_IMAGE, "driver.kernelModules"
            yield PolicyRefusal(kind, field, first.name, policy.name, says, others)


def _selector_refusals(policies: list[FleetPolicy]) -> Iterator[PolicyRefusal]:
    readers: dict[str, list[FleetPolicyName]] = defaultdict(list)
    for policy in policies:
        for key in {one.key for one in policy.selector.requirements}:
            readers[key].append(policy.name)
    for policy in policies:
        for key, value in policy.written_labels():
            for reader in readers.get(key, ()):
                yield PolicyRefusal(RefusalKind.SELECTOR, f"label {key}", policy.name, reader, value)
