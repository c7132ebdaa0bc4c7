"""What would change on a node, before and after, and how each change is carried out.

The operator writes what this says and nothing else, so that what a person was shown is what happens. A label
or taint of another value that is not ours is a conflict, and stays. ``applying`` writes, ``questions`` shows.
"""

import enum
from collections.abc import Iterator, Mapping

import msgspec

from gpufleet.model.fleet_policy import (
    MIG_STATE_LABEL,
    Driver,
    DriverSource,
    FleetPolicy,
    Runtime,
    RuntimeMode,
)
from gpufleet.model.identifiers import FleetPolicyName, NodeName
from gpufleet.operator.assignment import Assigned, PolicyRefusal
from gpufleet.operator.node_facts import NodeFacts, TaintKey
from gpufleet.operator.node_objects import DRIVER_IMAGE_ANNOTATION, DRIVER_LABEL, TOOLKIT_LABEL
from gpufleet.preflight.facts import TOOLKIT_IMAGE_ANNOTATION

CONTAINERD_WITH_CDI = 2
"""The first version of containerd that has CDI on unless its configuration turns it off.

CRI-O has it on in every version that a supported Kubernetes runs with.
"""


OWN_CONFIGURATION = ("k3s", "rke2")
"""Parts of versions of containerd whose configuration its distribution writes anew at each start."""


class Way(enum.Enum):
    """How a change comes about."""

    WRITE = "write"
    ROLLOUT = "rollout"
    PERSON = "person"


class Change(msgspec.Struct, frozen=True):
    """One field of a node before and after; None where it is not there, or not known.

    ``policy`` is "" where no policy wants it any more.
    """

    field: str
    before: str | None
    after: str | None
    way: Way
    policy: FleetPolicyName | None = None
    note: str = ""


class Conflict(msgspec.Struct, frozen=True):
    """A field that others have set to another value, with the managers that set it."""

    field: str
    found: str
    wanted: str
    managers: tuple[str, ...]
    policy: FleetPolicyName

    def sentence(self) -> str:
        """What stands in the way, and what to do about it."""
        managers = ", ".join(self.managers) or "an unknown writer"
        found, wanted = self.found or '""', self.wanted or '""'
        return (
            f"{self.field} is {found}, set by {managers}, and not {wanted}; remove it there, or in the policy"
        )


class WrittenState(msgspec.Struct, frozen=True):
    """Everything that the operator keeps on a node: its labels, and its taints with their values."""

    labels: dict[str, str] = {}
    taints: dict[TaintKey, str] = {}


class NodePlan(msgspec.Struct, frozen=True):
    """What is to become of one node.

    ``written`` is what the operator keeps there when all is written; None where it writes nothing at all,
    because the node opted out. ``keeps_driver``: it lacks the driver or the toolkit of a policy, and a label
    on it keeps what is there.
    """

    node: NodeName
    policies: tuple[FleetPolicyName, ...]
    opted_out: bool = False
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    refusals: tuple[PolicyRefusal, ...] = ()
    written: WrittenState | None = None
    keeps_driver: bool = False

    def of_policy(self, policy: FleetPolicyName) -> tuple[Change, ...]:
        """The changes that one policy asks for."""
        return tuple(one for one in self.changes if one.policy == policy)


def plan_node(facts: NodeFacts, assigned: Assigned, *, takes_back: bool = True) -> NodePlan:
    """The plan for a node and the policies that were assigned to it.

    Without ``takes_back`` what is ours stays, because a policy that cannot be read may ask for it.
    """
    names = tuple(one.name for one in assigned.selecting)
    if facts.has_opted_out:
        return NodePlan(facts.name, names, opted_out=True)
    planner = _Planner(facts, keeps_all=bool(assigned.refusals) or not takes_back)
    for policy in assigned.holding:
        planner.add(policy)
    planner.take_back()
    return NodePlan(
        facts.name,
        names,
        changes=tuple(planner.changes),
        conflicts=tuple(planner.conflicts),
        refusals=assigned.refusals,
        written=WrittenState(planner.labels, planner.taints),
        keeps_driver=planner.keeps_driver,
    )


class _Planner:
    """Collects the changes of one node.

    ``keeps_all``: what is ours stays where no policy asks for it any more, since one that is refused may.
    """

    def __init__(self, facts: NodeFacts, *, keeps_all: bool) -> None:
        self.facts = facts
        self.keeps_all = keeps_all
        self.changes: list[Change] = []
        self.conflicts: list[Conflict] = []
        self.labels: dict[str, str] = {}
        self.taints: dict[TaintKey, str] = {}
        self.wanted_labels: set[str] = set()
        self.wanted_taints: set[TaintKey] = set()
        self.keeps_driver = False

    def add(self, policy: FleetPolicy) -> None:
        """What one policy asks for."""
        for key, value in policy.written_labels():
            self._label(key, value, policy.name)
        for taint in policy.taints:
            self._taint((taint.key, taint.effect), taint.value, policy.name)
        if policy.driver is not None:
            self._changed(self._kept(_driver_change(self.facts, policy.driver)), policy.name)
        if policy.runtime is not None:
            self._changed(self._kept(_runtime_change(self.facts, policy.runtime)), policy.name)

    def take_back(self) -> None:
        """What is ours and asked for no more."""
        facts = self.facts
        for key in sorted(facts.owned_labels - self.wanted_labels):
            found = facts.labels.get(key)
            if self.keeps_all and found is not None:
                self.labels[key] = found
            # With another manager the API server keeps the label when we give it up, so nothing changes.
            elif found is not None and not facts.label_managers.get(key):
                self.changes.append(Change(label_field(key), found, None, Way.WRITE))
        for place in sorted(facts.owned_taints - self.wanted_taints):
            value = facts.taints.get(place)
            if value is None:
                continue
            if self.keeps_all:
                self.taints[place] = value
            else:
                self.changes.append(Change(taint_field(place), value, None, Way.WRITE))

    def _label(self, key: str, value: str, policy: FleetPolicyName) -> None:
        facts, field = self.facts, label_field(key)
        self.wanted_labels.add(key)
        found, managers = facts.labels.get(key), facts.label_managers.get(key, ())
        if found is not None and found != value and managers:
            self.conflicts.append(Conflict(field, found, value, managers, policy))
            # Shared so far: it stays ours too, with the value that is there.
            if key in facts.owned_labels:
                self.labels[key] = found
            return
        self.labels[key] = value
        if found != value:
            self.changes.append(Change(field, found, value, Way.WRITE, policy))

    def _taint(self, place: TaintKey, value: str, policy: FleetPolicyName) -> None:
        facts, field = self.facts, taint_field(place)
        self.wanted_taints.add(place)
        found = facts.taints.get(place)
        # Taints have no managers, so one that our annotation does not name is another writer's.
        if found is None or place in facts.owned_taints:
            self.taints[place] = value
            if found != value:
                self.changes.append(Change(field, found, value, Way.WRITE, policy))
        elif found != value:
            self.conflicts.append(Conflict(field, found, value, (), policy))

    def _kept(self, change: Change | None) -> Change | None:
        """A change; None where a label of the node keeps its rollouts off."""
        if change is None or change.way is not Way.ROLLOUT or not self.facts.keeps_driver:
            return change
        self.keeps_driver = True
        return None

    def _changed(self, change: Change | None, policy: FleetPolicyName) -> None:
        if change is not None:
            self.changes.append(msgspec.structs.replace(change, policy=policy))


def label_field(key: str) -> str:
    """How a label is called in a plan."""
    return f"label {key}"


def taint_field(place: TaintKey) -> str:
    """How a taint is called in a plan."""
    return f"taint {place[0]}:{place[1]}"


def plan_nodes(
    nodes: Mapping[NodeName, NodeFacts], assigned: Mapping[NodeName, Assigned], *, takes_back: bool = True
) -> Iterator[NodePlan]:
    """The plans of all nodes that a policy selects, or that bear something of one, by name."""
    for name in sorted(nodes):
        facts = nodes[name]
        if assigned[name].selecting or facts.owned_labels or facts.owned_taints:
            yield plan_node(facts, assigned[name], takes_back=takes_back)


def _driver_change(facts: NodeFacts, wanted: Driver) -> Change | None:
    before = driver_in_place(facts)
    if wanted.source is DriverSource.IMAGE:
        if facts.driver_image == wanted.image:
            return None
        return Change("driver", before, driver_words(wanted), Way.ROLLOUT)
    if facts.driver_image:
        note = _leave_words("the driver of the image", DRIVER_LABEL, DRIVER_IMAGE_ANNOTATION)
        return Change("driver", before, driver_words(wanted), Way.PERSON, note=note)
    if facts.driver is None:
        note = "nothing reports a driver: install one on the host, or choose source Image"
        return Change("driver", None, driver_words(wanted), Way.PERSON, note=note)
    if wanted.version and facts.driver != wanted.version:
        note = "a driver of the host is changed with the host's own image"
        return Change("driver", before, driver_words(wanted), Way.PERSON, note=note)
    return None


def _runtime_change(facts: NodeFacts, wanted: Runtime) -> Change | None:
    before = f"Toolkit {facts.toolkit_image}" if facts.toolkit_image else None
    if wanted.mode is RuntimeMode.CDI:
        if facts.toolkit_image:
            note = _leave_words("the toolkit", TOOLKIT_LABEL, TOOLKIT_IMAGE_ANNOTATION)
            return Change("runtime", before, wanted.mode.value, Way.PERSON, note=note)
        return _cdi_change(facts.system.container_runtime_version)
    if facts.toolkit_image == wanted.image:
        return None
    after, why = f"{wanted.mode.value} {wanted.image}", _no_toolkit(facts.system.container_runtime_version)
    if why:
        return Change("runtime", before, after, Way.PERSON, note=why)
    return Change("runtime", before, after, Way.ROLLOUT)


def _leave_words(what: str, label: str, annotation: str) -> str:
    """What a person does, since a rollout only ever brings one image in place of another."""
    return f"{what} stays: drain the node, then take its label {label} and its annotation {annotation} off"


def _no_toolkit(told: str) -> str:
    """Why a toolkit is not brought to this runtime, or "" where it is."""
    name, _, version = told.partition("://")
    if name != "containerd":
        found = told or "what is not known"
        return f"a toolkit is brought to containerd alone, and the node runs {found}: use CDI"
    if any(one in version for one in OWN_CONFIGURATION):
        return f"containerd {version} writes its configuration anew at each start: use CDI"
    return ""


def _cdi_change(told: str) -> Change | None:
    """What a person has to do for CDI, by the runtime that the kubelet tells, such as containerd://2.1.4."""
    name, _, version = told.partition("://")
    major = version.split(".")[0]
    if name == "cri-o" or (name == "containerd" and major.isdecimal() and int(major) >= CONTAINERD_WITH_CDI):
        return None
    if not told:
        note = "the kubelet tells no runtime, so nothing is known of it"
    elif name == "containerd":
        note = (
            f"containerd has CDI on by itself from {CONTAINERD_WITH_CDI}.0 on; before, its configuration "
            "has to say so (enable_cdi = true), which nothing reports"
        )
    else:
        note = "of this runtime it is not known whether it has CDI on"
    before = f"{name} {version}" if version else None
    return Change("runtime", before, RuntimeMode.CDI.value, Way.PERSON, note=note)


def driver_in_place(facts: NodeFacts) -> str | None:
    """The driver that is there, in words; None where none is known."""
    if facts.driver_image:
        version = f"{facts.driver} " if facts.driver else ""
        return f"{version}from {facts.driver_image}"
    return None if facts.driver is None else f"{facts.driver} of the host"


def driver_words(wanted: Driver) -> str:
    """The driver that is wanted, in words."""
    if wanted.source is DriverSource.HOST:
        return f"{wanted.version or 'any'} of the host"
    version = f"{wanted.version} " if wanted.version else ""
    modules = wanted.kernel_modules.value.lower()
    return f"{version}from {wanted.image} ({wanted.build.value.lower()}, modules {modules})"


def mig_state(facts: NodeFacts) -> str | None:
    """What the MIG manager says of the layout; None where it says nothing."""
    return facts.labels.get(MIG_STATE_LABEL)
