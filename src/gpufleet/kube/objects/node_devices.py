"""NodeDevices: the GPUs that a node really has, and the pods and processes that really hold them.

Written by the node's agent alone (by ``gpufleet up`` for simulated nodes), cluster-scoped, named as
the node. ``manifests`` holds the definition that the API server checks; a field of ``spec``, as
in CSINode and ResourceSlice, because all of it is one writer's report.
"""

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.objects.metadata import Metadata, OwnerReference
from gpufleet.kube.objects.node_report import encode_report
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODE_DEVICES

# Sharing modes: what a device is used for.
WHOLE = "whole"
SHARES = "shares"
MIXED = "mixed"
MIG = "mig"
NOTHING = "nothing"
SHARING_MODES = (WHOLE, SHARES, MIXED, MIG, NOTHING)

# Kinds of holding, besides WHOLE and MIG: a part of a device.
SHARE = "share"

# The states of a device's health, as the agent reports them.
HEALTHY = "healthy"
UNHEALTHY = "unhealthy"
UNKNOWN = "unknown"
HEALTH_STATES = (HEALTHY, UNHEALTHY, UNKNOWN)

# The taints of devices that are not healthy, and effects of such taints.
UNHEALTHY_TAINT = "gpufleet.io/unhealthy"
UNKNOWN_TAINT = "gpufleet.io/unknown"
NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"


class MigInstance(Structure, frozen=True):
    """A MIG instance: its profile ("1g.10gb") and first memory slice."""

    profile: str
    start: int


class DeviceTaint(Structure, frozen=True):
    """Why nothing new is placed on a device, in the shape of ``resource.k8s.io/v1``.

    ``effect`` is NoSchedule, NoExecute or None; what is none of these counts as None. ``time_added`` is
    RFC 3339.
    """

    key: str
    effect: str
    value: str = ""
    time_added: str = ""


class ReportedDevice(Structure, frozen=True):
    """One GPU, or a part of one that is asked for as a GPU (``model.device_id`` has the ids).

    ``usable_memory_mib`` is the total minus what is reserved. ``health`` unknown means that the agent cannot
    tell: nothing new is placed there.
    """

    id: str
    vendor: str = ""
    model: str = ""
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    usable_memory_mib: int | None = msgspec.field(default=None, name="usableMemoryMiB")
    numa_node: int | None = None
    link_group: int = 0
    sharing: str = WHOLE
    mig_instances: tuple[MigInstance, ...] = ()
    health: str = HEALTHY
    health_reason: str = ""
    taints: tuple[DeviceTaint, ...] = ()


class Holder(Structure, frozen=True):
    """One holder of a device or of a part of it. Without ``pod_uid`` it is a process of no known pod.

    ``used_memory_mib`` is told where its processes use more than ``memory_mib``, its share. ``units`` are the
    kubelet's ids of a part that ``device`` and its place do not name; ``unknown_to_kubelet`` says that the
    container runs, and that the kubelet does not know any more that it holds this.
    """

    device: str
    pod_uid: str = msgspec.field(default="", name="podUID")
    container: str = ""
    kind: str = WHOLE
    gpu_milli: int = 1000
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    mig_profile: str | None = None
    mig_start: int | None = None
    foreign: str = ""
    used_memory_mib: int | None = msgspec.field(default=None, name="usedMemoryMiB")
    units: tuple[str, ...] = ()
    unknown_to_kubelet: bool = False


class NodeDevicesSpec(Structure, frozen=True):
    """The report. ``boot_id`` changes with each boot: MIG layouts do not survive one.

    ``offered_since`` is when the devices were last made known to the node's kubelet: by an agent that has
    started, or to a kubelet that has. Before, a kubelet turns pods with devices away.
    """

    boot_id: str = msgspec.field(default="", name="bootID")
    driver: str = ""
    devices: tuple[ReportedDevice, ...] = ()
    holders: tuple[Holder, ...] = ()
    offered_since: str = ""


class NodeDevices(Structure, frozen=True):
    """A node's GPUs and their holders."""

    metadata: Metadata
    spec: NodeDevicesSpec


class _WrittenSpec(msgspec.Struct, frozen=True):
    boot_id: str = msgspec.field(name="bootID")
    driver: str
    devices: tuple[ReportedDevice, ...]
    holders: tuple[Holder, ...]
    offered_since: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="offeredSince")


_DECODER = msgspec.json.Decoder(NodeDevices)


def encode_node_devices(
    name: str, spec: NodeDevicesSpec, *, resource_version: str = "", owner: OwnerReference | None = None
) -> bytes:
    """The report as it is created, or as a merge patch of the version that is there.

    An empty list is written too: it says that there are none.
    """
    since = spec.offered_since or msgspec.UNSET
    written = _WrittenSpec(spec.boot_id, spec.driver, spec.devices, spec.holders, since)
    return encode_report(NODE_DEVICES, name, written, resource_version, owner)


def decode_node_devices(body: bytes) -> NodeDevices:
    """The object as the server has it. Raises AnswerUnreadable."""
    return decode(body, _DECODER)
