"""A Node as the operator reads it: with the managers of its labels and the annotations that are ours.

The rest of a Node is dropped while it is decoded. ``node_facts`` makes values of it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from gpufleet.kube.keys import BACKFILL_UNTIL
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.mig.periods import PERIODS_ANNOTATION
from gpufleet.preflight.facts import EVICTION_BY_CONTROLLER, TOOLKIT_IMAGE_ANNOTATION

TAINTS_ANNOTATION = "gpufleet.io/policy-taints"
"""Which taints of a node the operator wrote, as KEY:EFFECT, separated by commas."""

DRIVER_IMAGE_ANNOTATION = "gpufleet.io/driver-image"
"""The driver's image by digest that a rollout has put on a node and found to work."""

DRIVER_LABEL, TOOLKIT_LABEL = "gpufleet.io/driver", "gpufleet.io/toolkit"
"""On a node: the driver and the toolkit whose pods are to run there. On their pods: which one they bring."""

ROLLOUT_ANNOTATION = "gpufleet.io/rollout"
"""Where a node is in a rollout: a ``Stamp`` as JSON."""

PAUSED_ANNOTATION = "gpufleet.io/paused-operands"
"""The labels of driver managers that a rollout has set to paused, separated by commas."""

READ_ANNOTATIONS = (
    ROLLOUT_ANNOTATION,
    PAUSED_ANNOTATION,
    TAINTS_ANNOTATION,
    DRIVER_IMAGE_ANNOTATION,
    TOOLKIT_IMAGE_ANNOTATION,
    EVICTION_BY_CONTROLLER,
    BACKFILL_UNTIL,
    PERIODS_ANNOTATION,
)
APPLY = "Apply"


class ManagedFields(Structure, frozen=True):
    """Which fields one manager has written."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")

    def labels(self) -> Iterator[str]:
        """The keys of labels among them."""
        return self._keys("f:labels")

    def annotations(self) -> Iterator[str]:
        """The keys of annotations among them."""
        return self._keys("f:annotations")

    def _keys(self, part: str) -> Iterator[str]:
        found: Any = msgspec.json.decode(self.fields_v1)
        for name in ("f:metadata", part):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict):
            yield from (key.removeprefix("f:") for key in found if key.startswith("f:"))


class PolicyNodeMetadata(Metadata, frozen=True):
    """A node's metadata; of its annotations those that the operator reads."""

    managed_fields: tuple[ManagedFields, ...] = ()

    def __post_init__(self) -> None:
        kept = {key: self.annotations[key] for key in READ_ANNOTATIONS if key in self.annotations}
        msgspec.structs.force_setattr(self, "annotations", kept)


class NodeInfo(Structure, frozen=True):
    """What the kubelet says of its machine."""

    kernel_version: str = ""
    os_image: str = ""
    architecture: str = ""
    container_runtime_version: str = ""


class NodeCondition(Structure, frozen=True):
    """A condition of a node."""

    type: str
    status: str


class NodeTaint(Structure, frozen=True):
    """A taint with the time since which it is there, which has to stay where the list is written anew."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class PolicyNodeSpec(Structure, frozen=True):
    """Taints, and whether it is cordoned."""

    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class PolicyNodeStatus(Structure, frozen=True):
    """Conditions, what the kubelet says of its machine, and what it offers to pods."""

    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)


class PolicyNode(Structure, frozen=True):
    """A node."""

    metadata: PolicyNodeMetadata
    spec: PolicyNodeSpec = PolicyNodeSpec()
    status: PolicyNodeStatus = PolicyNodeStatus()


class ReportSpec(Structure, frozen=True):
    """The driver that a node's agent reports."""

    driver: str = ""


class DriverReport(Structure, frozen=True):
    """A NodeDevices object, as far as its driver."""

    metadata: Metadata
    spec: ReportSpec = ReportSpec()
