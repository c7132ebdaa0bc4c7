"""What is known of a node, as values: the input of ``assignment``, ``plan`` and the rollout.

None is "not known", which is never taken for "all is well".
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from gpufleet.kube.meanings.node_labels import labelled_driver
from gpufleet.model.fleet_policy import OPT_OUT_LABEL, OPTED_OUT, SKIP_DRIVER_LABEL, SKIPS
from gpufleet.model.identifiers import NodeName
from gpufleet.model.taint import EFFECTS
from gpufleet.operator.node_objects import (
    APPLY,
    DRIVER_IMAGE_ANNOTATION,
    ROLLOUT_ANNOTATION,
    TAINTS_ANNOTATION,
    DriverReport,
    ManagedFields,
    NodeInfo,
    NodeTaint,
    PolicyNode,
)
from gpufleet.operator.rollout.stamp import Stamp
from gpufleet.preflight.facts import TOOLKIT_IMAGE_ANNOTATION

FIELD_MANAGER = "gpufleet-policy"
"""The manager of the labels that policies write. The API server remembers by it which ones are ours."""

ROLLOUT_MANAGER = "gpufleet-rollout"
"""The manager of what rollouts write on nodes."""

BEFORE_FIRST_APPLY = "before-first-apply"
"""The manager to which the API server gives fields that were written before managers were remembered."""

READY = "Ready"
TaintKey = tuple[str, str]
"""Key and effect, by which Kubernetes tells taints apart."""


class NodeFacts(msgspec.Struct, frozen=True):
    """One node.

    ``owned_labels`` and ``owned_taints`` are those that policies wrote; ``label_managers`` are the other
    managers of each label. ``rollout_keys`` are labels and annotations that a rollout wrote and nothing else
    has written. ``driver`` is the version that is loaded, ``driver_image`` and ``toolkit_image``
    what a rollout has put there, "" where none has. ``stamp`` says where the node is in a rollout, and
    ``stamp_problem`` why that cannot be read, "" where it can. ``allocatable`` is what its kubelet offers.
    """

    name: NodeName
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    owned_labels: frozenset[str] = frozenset()
    label_managers: Mapping[str, tuple[str, ...]] = {}
    rollout_keys: frozenset[str] = frozenset()
    taints: Mapping[TaintKey, str] = {}
    taint_list: tuple[NodeTaint, ...] = ()
    owned_taints: frozenset[TaintKey] = frozenset()
    is_cordoned: bool = False
    is_ready: bool | None = None
    driver: str | None = None
    driver_image: str = ""
    toolkit_image: str = ""
    system: NodeInfo = NodeInfo()
    annotations: Mapping[str, str] = {}
    stamp: Stamp | None = None
    stamp_problem: str = ""
    allocatable: Mapping[str, str] = {}

    @property
    def has_opted_out(self) -> bool:
        """Whether no policy holds for the node."""
        return self.labels.get(OPT_OUT_LABEL) == OPTED_OUT

    @property
    def keeps_driver(self) -> bool:
        """Whether no rollout begins on the node, by the label that NVIDIA's operator heeds too."""
        return self.labels.get(SKIP_DRIVER_LABEL) == SKIPS


def node_facts(node: PolicyNode, report: DriverReport | None = None) -> NodeFacts:
    """What is known of a node, with what its agent reports."""
    metadata = node.metadata
    owned, managers = _managers(node)
    stamp, problem = stamp_of(metadata.annotations.get(ROLLOUT_ANNOTATION))
    ready = next((one.status for one in node.status.conditions if one.type == READY), None)
    return NodeFacts(
        name=NodeName(metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        labels=metadata.labels,
        owned_labels=owned,
        label_managers=managers,
        rollout_keys=rollout_keys(metadata.managed_fields),
        taints={(one.key, one.effect): one.value for one in node.spec.taints},
        taint_list=node.spec.taints,
        owned_taints=owned_taints(metadata.annotations.get(TAINTS_ANNOTATION, "")),
        is_cordoned=node.spec.unschedulable,
        is_ready=None if ready is None else ready == "True",
        driver=_driver(node, report),
        driver_image=metadata.annotations.get(DRIVER_IMAGE_ANNOTATION, ""),
        toolkit_image=metadata.annotations.get(TOOLKIT_IMAGE_ANNOTATION, ""),
        system=node.status.node_info,
        annotations=metadata.annotations,
        stamp=stamp,
        stamp_problem=problem,
        allocatable=node.status.allocatable,
    )


def stamp_of(annotation: str | None) -> tuple[Stamp | None, str]:
    """The stamp that an annotation holds, and what is wrong where it holds none, or ""."""
    if annotation is None:
        return None, ""
    try:
        return msgspec.json.decode(annotation, type=Stamp), ""
    except (msgspec.MsgspecError, ValueError) as error:
        return None, f"its annotation {ROLLOUT_ANNOTATION} cannot be read: {error}; remove it"


def owned_taints(annotation: str) -> frozenset[TaintKey]:
    """The taints that the annotation names; what it does not name rightly is not ours."""
    found = (one.strip().rpartition(":") for one in annotation.split(","))
    return frozenset((key, effect) for key, _, effect in found if key and effect in EFFECTS)


def written_taints(owned: frozenset[TaintKey]) -> str:
    """The annotation that names these taints."""
    return ",".join(f"{key}:{effect}" for key, effect in sorted(owned))


def rollout_keys(managed: Sequence[ManagedFields]) -> frozenset[str]:
    """The labels and annotations that rollouts wrote and nothing else has written."""
    ours: set[str] = set()
    others: set[str] = set()
    if all(one.manager != ROLLOUT_MANAGER for one in managed):
        return frozenset()
    for one in managed:
        keys = ours if one.manager == ROLLOUT_MANAGER else others
        keys.update(one.labels(), one.annotations())
    return frozenset(ours - others)


def _managers(node: PolicyNode) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """The labels that policies wrote, and the other managers of each label."""
    owned: set[str] = set()
    others: dict[str, set[str]] = defaultdict(set)
    for one in node.metadata.managed_fields:
        if one.manager == FIELD_MANAGER and one.operation == APPLY:
            owned.update(one.labels())
        else:
            for key in one.labels():
                others[key].add(one.manager)
    # Nothing says whose these labels are, so they count as those of another.
    if not node.metadata.managed_fields:
        others.update({key: {BEFORE_FIRST_APPLY} for key in node.metadata.labels})
    return frozenset(owned), {key: tuple(sorted(names)) for key, names in others.items()}


def _driver(node: PolicyNode, report: DriverReport | None) -> str | None:
    # The agent reads the driver that is loaded; labels are written by others and may be older.
    if report is not None and report.spec.driver:
        return report.spec.driver
    labelled = labelled_driver(node.metadata.labels)
    return None if labelled is None else str(labelled)
