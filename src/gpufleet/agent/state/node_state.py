"""The values that the parts of the agent publish to each other: the node's GPUs, readings, pods, holders.

Each of these values is kept by one part and followed by others through a ``Topic``: ``gpu_monitor``
keeps the GPUs and their readings, ``pods`` the pods and their grants, ``holder_monitor`` the holders. The
kubelet's plugin, NodeDevices, labels and metrics are made from them and keep nothing of their own.
"""

import msgspec

from gpufleet.devices.facts import Driver, GpuFacts, Link, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.devices.sharing.plan import SharingPlan
from gpufleet.model.grant import Grant
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance


class Gpu(msgspec.Struct, frozen=True):
    """One physical GPU as it is offered. ``reason`` is empty for a healthy one.

    ``sick_instances`` has the MIG instances that are out of service while their GPU is not, by UUID, with
    the reason. ``xids`` is how often the driver reported each Xid since the agent began.
    """

    facts: GpuFacts
    plan: SharingPlan
    health: Verdict = Verdict.HEALTHY
    reason: str = ""
    last_xid: int | None = None
    sick_instances: dict[str, str] = {}
    xids: dict[int, int] = {}

    @property
    def uuid(self) -> DeviceId:
        """The GPU's UUID."""
        return self.facts.uuid

    @property
    def usable_mib(self) -> int | None:
        """The GPU's memory without what the driver keeps; None where it is unknown."""
        if self.facts.memory_mib is None:
            return None
        return self.facts.memory_mib - (self.facts.reserved_mib or 0)

    def instance(self, uuid: str) -> MigFacts | None:
        """The GPU's MIG instance of this UUID."""
        return next((one for one in self.facts.mig if one.uuid == uuid), None)

    def instance_at(self, place: MigInstance) -> MigFacts | None:
        """The GPU's MIG instance at a place, if there is one with all of its compute."""
        wanted = (place.profile, place.start)
        return next((one for one in self.facts.mig if (one.profile, one.start) == wanted), None)


class NodeGpus(msgspec.Struct, frozen=True):
    """All GPUs of this node, ordered by vendor and index.

    ``problems`` says, in sentences, what keeps the agent from knowing more: a library that cannot be
    loaded, a driver that does not answer, a sharing config that was not taken over.
    """

    node: str
    boot_id: str = ""
    drivers: tuple[Driver, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    links: dict[tuple[DeviceId, DeviceId], Link] = {}
    problems: tuple[str, ...] = ()

    def gpu(self, uuid: DeviceId) -> Gpu | None:
        """The GPU of this UUID."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def link(self, one: DeviceId, other: DeviceId) -> Link:
        """The best way between two of them."""
        # A pair is kept once, the smaller id first.
        return self.links.get((min(one, other), max(one, other)), Link.UNKNOWN)


class GpuReading(msgspec.Struct, frozen=True):
    """The newest readings of one GPU and of its MIG instances by UUID.

    ``sample`` is None where it never answered; the age of a sample is in its ``at_s``. ``processes`` is None
    where the driver does not tell, or was not asked.
    """

    sample: Sample | None = None
    instances: dict[str, Sample] = {}
    processes: tuple[ProcessUse, ...] | None = None

    def is_from_before(self, at_s: float) -> bool:
        """Whether there are readings, and they are from before this time."""
        return self.sample is not None and self.sample.at_s < at_s


Readings = dict[DeviceId, GpuReading]
"""The newest readings of each GPU of the node."""


GRACE_S = 30.0
"""How long containers may take to end where their pod says nothing else."""


class NodePod(msgspec.Struct, frozen=True):
    """A pod of this node, as far as the agent cares.

    ``requests`` has the extended resources of each container (init containers first, in their order), by
    name. ``grant`` is None where it has none; ``grant_problem`` says why one that is there cannot be
    read. ``finished`` pods (Succeeded or Failed) hold nothing any more. ``named_devices`` are the containers
    that name devices of NVIDIA by a variable of their own, ``imported_variables`` those that may (envFrom).

    ``started`` has the containers that ever started by the pod's status, ``running`` those that do now, and
    ``lenders`` the init containers that end before others start, whose units the kubelet then gives to those.
    """

    uid: str
    namespace: str
    name: str
    requests: dict[str, dict[str, int]] = {}
    grant: Grant | None = None
    grant_problem: str = ""
    finished: bool = False
    deleting: bool = False
    labels: dict[str, str] = {}
    named_devices: frozenset[str] = frozenset()
    imported_variables: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    lenders: frozenset[str] = frozenset()
    grace_s: float = GRACE_S
    """How long its containers may go on after it was told to end, in its own words."""

    first_seen_s: float = 0.0
    """When the agent first saw it, on the monotonic clock."""

    @property
    def title(self) -> str:
        """How it is named in sentences: namespace/name."""
        return f"{self.namespace}/{self.name}"


NodePods = dict[str, NodePod]
"""The pods of this node by UID."""


class Held(msgspec.Struct, frozen=True):
    """What one container of one pod holds: units of one resource.

    ``pod_uid`` is empty while the pod of this name is not known to the agent. ``listed`` is False where the
    kubelet does not say so, and it is known from elsewhere; without units it is unknown which they are.
    ``lost`` says that the container runs and that the kubelet has not listed it for a while.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    units: tuple[str, ...]
    pod_uid: str = ""
    listed: bool = True
    lost: bool = False

    @property
    def title(self) -> str:
        """The pod as sentences name it: namespace/name."""
        return f"{self.namespace}/{self.pod}"


Holders = tuple[Held, ...]
"""All that containers of this node hold, in a fixed order."""
