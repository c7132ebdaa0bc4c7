"""What the engine is told: facts about the fleet and the work, as values.

A step of the engine takes some events and one moment in time. Events are what an event log
stores, so each is a tagged struct that survives a trip through JSON unchanged.
"""

import msgspec

from gpufleet.dra_allocation.claims import DeviceClass, ResourceClaim
from gpufleet.dra_allocation.results import Allocation
from gpufleet.dra_allocation.slices import ResourceSlice
from gpufleet.engine.instruction import ReplacementPlace, Reservation, ReservedPlace
from gpufleet.engine.valuation import Valuation
from gpufleet.model.defragmentation import DefragmentationRules
from gpufleet.model.device import Device
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import (
    DeviceId,
    GangName,
    GpuModelName,
    NodeName,
    PodUid,
    QueueName,
    QuotaResource,
)
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from gpufleet.model.shape import Shape
from gpufleet.model.topology import Topology
from gpufleet.model.violation import AnyViolation


class Event(msgspec.Struct, frozen=True, gc=False, tag_field="event"):
    """Anything that can happen."""


class NodeSet(Event, frozen=True, tag="node-set"):
    """A node appeared or changed. Pods booked on it stay booked."""

    node: Node


class NodeRemoved(Event, frozen=True, tag="node-removed"):
    """A node is gone. Its pods keep their booking until they are removed or it comes back."""

    name: NodeName


class DeviceSet(Event, frozen=True, tag="device-set"):
    """One device of a known node changed, for example its health."""

    node: NodeName
    device: Device


class PodAdded(Event, frozen=True, tag="pod-added"):
    """A pod wants to run. One that is known already is replaced and keeps its turn and its place."""

    pod: Pod


class PodBound(Event, frozen=True, tag="pod-bound"):
    """A pod runs on a node: a bind of ours confirmed, or a fact we did not decide.

    ``devices`` are the GPUs it holds; None stands for one whose id is not known. ``started_at_us`` is
    the engine time at which it began to run; where None, it counts from when this was first heard.
    """

    pod: Pod
    node: NodeName
    devices: tuple[DeviceId | None, ...] = ()
    started_at_us: int | None = None


class BindRefused(Event, frozen=True, tag="bind-refused"):
    """A bind of ours did not happen; the pod waits again, after a pause."""

    uid: PodUid


class BindRefusalRecalled(Event, frozen=True, tag="bind-refusal-recalled"):
    """Binds of a waiting pod were refused before a restart, so many in a row: it pauses until ``until_us``.

    It comes before the pod.
    """

    uid: PodUid
    until_us: int
    refusals: int


class PodCheckpointed(Event, frozen=True, tag="pod-checkpointed"):
    """A running pod saved its work at this engine time: what it did before is not lost with it."""

    uid: PodUid
    at_us: int


class EvictionRefused(Event, frozen=True, tag="eviction-refused"):
    """An eviction of ours did not happen, and will not before ``until_us``: the pod goes on running.

    A workload that was to have its place waits again.
    """

    uid: PodUid
    until_us: int


class EvictionRefusalRecalled(Event, frozen=True, tag="eviction-refusal-recalled"):
    """An eviction of a pod that runs was refused before a restart, and the pod stays until ``until_us``."""

    uid: PodUid
    until_us: int


class PodRemoved(Event, frozen=True, tag="pod-removed"):
    """A pod ended or was deleted; what it held is free."""

    uid: PodUid


class GangSet(Event, frozen=True, tag="gang-set"):
    """A gang appeared or changed."""

    gang: Gang


class GangStartRecalled(Event, frozen=True, tag="gang-start-recalled"):
    """A gang that is short of members had started before a restart: members that come join those that run.

    It comes after the members that have a node.
    """

    gang: GangName


class GangRemoved(Event, frozen=True, tag="gang-removed"):
    """A gang is gone; pods that still name it wait until it comes back."""

    name: GangName


class QueueSet(Event, frozen=True, tag="queue-set"):
    """A queue appeared or changed."""

    queue: Queue


class QueueRemoved(Event, frozen=True, tag="queue-removed"):
    """A queue is gone; work that names it waits until it comes back, as long as any queue is described."""

    name: QueueName


class PricesSet(Event, frozen=True, tag="prices-set"):
    """What a GPU of each model costs in the quota resource ``cost``, in thousandths, as (model, price).

    A model that is not listed costs 1.
    """

    prices: tuple[tuple[GpuModelName, int], ...]


class TopologySet(Event, frozen=True, tag="topology-set"):
    """The levels of the topology."""

    topology: Topology


class DisruptionBudgetSet(Event, frozen=True, tag="disruption-budget-set"):
    """A disruption budget appeared, or reports anew how many evictions it allows."""

    budget: DisruptionBudget


class DisruptionBudgetRemoved(Event, frozen=True, tag="disruption-budget-removed"):
    """A disruption budget is gone."""

    namespace: str
    name: str


class NamespaceSet(Event, frozen=True, tag="namespace-set"):
    """A namespace appeared or has other labels; terms select namespaces by them."""

    name: str
    labels: dict[str, str] = {}


class NamespaceRemoved(Event, frozen=True, tag="namespace-removed"):
    """A namespace is gone; what is left in it counts as in a namespace without labels."""

    name: str


class TargetWorkloadSet(Event, frozen=True, tag="target-workload-set"):
    """The workload that fragmentation is measured against: (shape, how many of it)."""

    entries: tuple[tuple[Shape, int], ...]


class ValuationLearned(Event, frozen=True, tag="lesson-learned"):
    """What the default policy has learned, None for nothing; used from the next decision on."""

    # Logs have always said ``lesson``, here and as the tag, and a log must read alike for ever.
    valuation: Valuation | None = msgspec.field(name="lesson")


class DecisionsDeferred(Event, frozen=True, tag="decisions-deferred"):
    """The step only takes in its events, so that the policy learns from them before any is decided.

    Another step with ``ValuationLearned`` follows at once.
    """


class PastUseOf(msgspec.Struct, frozen=True):
    """What a queue with a half-life used of a resource, as of ``at_us``, and has used since.

    ``value`` and ``area`` are whole numbers, as text because they may be longer than 64 bits; what they
    count says ``queueing.decay``.
    """

    queue: QueueName
    resource: QuotaResource
    at_us: int
    used: int
    value: str
    area: str


class PastUseRecalled(Event, frozen=True, tag="past-use-recalled"):
    """What queues used in the past, as it was written down before a restart."""

    uses: tuple[PastUseOf, ...]


class ReservationsRecalled(Event, frozen=True, tag="reservations-recalled"):
    """Reservations from before a restart: their holders keep them, as far as nothing speaks against it."""

    reservations: tuple[Reservation, ...]


class KeptPlaces(msgspec.Struct, frozen=True):
    """The places that a workload was to have as soon as pods that end had left them.

    ``holder`` is the uid of a pod, or a gang. Of two of them the one with the smaller ``number`` came first.
    Its pods may not be evicted for the queues ``immune_to``, at whose cost they get their places.
    """

    holder: PodUid | GangName
    queue: QueueName
    number: int
    places: tuple[ReservedPlace, ...]
    waits_for: tuple[PodUid, ...]
    immune_to: tuple[QueueName, ...] = ()


class NominationsRecalled(Event, frozen=True, tag="nominations-recalled"):
    """Nominations from before a restart: each is kept as far as it is still possible."""

    kept: tuple[KeptPlaces, ...]


class RoomMade(Event, frozen=True, tag="room-made"):
    """Room was made on a node for a waiting pod: the pod goes there before others, if it fits there now."""

    uid: PodUid
    node: NodeName


class ReplacementsRecalled(Event, frozen=True, tag="replacements-recalled"):
    """Places from before a restart that are kept for moved pods, each as far as it is still possible.

    They come after the pods.
    """

    kept: tuple[ReplacementPlace, ...]


class LearnedRuns(msgspec.Struct, frozen=True):
    """How long the last runs of one template took, the newest last; ``engine.learn.run_times`` names them."""

    queue: QueueName
    template: str
    runs_us: tuple[int, ...]


class RunTimesRecalled(Event, frozen=True, tag="run-times-recalled"):
    """Run times that were learned before a restart; the templates whose runs ended last come last."""

    learned: tuple[LearnedRuns, ...]


class ImmunePods(msgspec.Struct, frozen=True):
    """The pods that may not be evicted for a queue, because they came to their places at its cost.

    Those that came last are the last.
    """

    queue: QueueName
    pods: tuple[PodUid, ...]


class ImmunityRecalled(Event, frozen=True, tag="immunity-recalled"):
    """Which pods may not be evicted for which queues since before a restart; it comes after the pods.

    Pods that leave by then count as evicted.
    """

    immune: tuple[ImmunePods, ...]


class DefragmentationSet(Event, frozen=True, tag="defragmentation-set", omit_defaults=True):
    """When the engine moves running pods by itself; None: never.

    ``spent`` are moves that were made before a restart, as (when, GPU-milliseconds of work that ended).
    """

    rules: DefragmentationRules | None
    spent: tuple[tuple[int, int], ...] = ()


class MoveAsked(Event, frozen=True, tag="move-asked"):
    """A pod that runs is to go to this node, because its own is emptied; None: it is not any more."""

    uid: PodUid
    node: NodeName | None


class KubeletRejected(Event, frozen=True, tag="kubelet-rejected"):
    """The kubelet of a node turned a pod away that was bound there, for a reason of its own."""

    node: NodeName
    uid: PodUid
    reason: str


class DevicesOffered(Event, frozen=True, tag="devices-offered"):
    """A node's report says since when its kubelet knows of the devices, "" for not yet.

    The first such event of a node is where counting begins; each further moment is an offer made anew.
    """

    node: NodeName
    since: str


class NodeDistrustRecalled(Event, frozen=True, tag="node-distrust-recalled"):
    """A node was left alone before a restart, until ``until_us`` (0: it is not any more).

    ``next_pause_us`` is for how long it would be left alone the next time.
    """

    node: NodeName
    until_us: int
    next_pause_us: int


class ViolationFound(Event, frozen=True, tag="violation-found", omit_defaults=True):
    """Something is wrong for which pods must end unless it goes away, or is wrong in another way by now.

    ``since_us`` is since when, where that was written down before a restart; None: since now.
    """

    violation: AnyViolation
    since_us: int | None = None


class ViolationEnded(Event, frozen=True, tag="violation-ended"):
    """What was wrong is so no more; the violation is as it was told last."""

    violation: AnyViolation


class VolumeRefused(Event, frozen=True, tag="volume-refused", omit_defaults=True):
    """No volume could be made on a node for a claim of a pod that waits.

    ``until_us`` is until when the node is left out, where that was written down before a restart.
    """

    uid: PodUid
    claim: str
    node: NodeName
    until_us: int | None = None


class ResourceSliceSet(Event, frozen=True, tag="resource-slice-set"):
    """Devices that a driver offers appeared or changed. Taints by rules are at the devices already."""

    resource_slice: ResourceSlice


class ResourceSliceRemoved(Event, frozen=True, tag="resource-slice-removed"):
    """A driver offers these devices no more. Claims keep those that they have."""

    name: str


class DeviceClassSet(Event, frozen=True, tag="device-class-set"):
    """A class of devices appeared or changed."""

    device_class: DeviceClass


class DeviceClassRemoved(Event, frozen=True, tag="device-class-removed"):
    """A class of devices is gone."""

    name: str


class ResourceClaimSet(Event, frozen=True, tag="resource-claim-set", omit_defaults=True):
    """A claim of devices appeared or changed. ``allocation`` is None while it has none.

    ``users`` are the pods that may use it; None where others than pods may.
    """

    claim: ResourceClaim
    allocation: Allocation | None = None
    users: tuple[PodUid, ...] | None = ()


class ResourceClaimRemoved(Event, frozen=True, tag="resource-claim-removed"):
    """A claim of devices ("namespace/name") is gone, and what it had is free."""

    claim: str


AnyEvent = (
    NodeSet
    | NodeRemoved
    | DeviceSet
    | PodAdded
    | PodBound
    | BindRefused
    | BindRefusalRecalled
    | PodCheckpointed
    | EvictionRefused
    | EvictionRefusalRecalled
    | PodRemoved
    | GangSet
    | GangStartRecalled
    | GangRemoved
    | QueueSet
    | QueueRemoved
    | PricesSet
    | TopologySet
    | DisruptionBudgetSet
    | DisruptionBudgetRemoved
    | NamespaceSet
    | NamespaceRemoved
    | TargetWorkloadSet
    | ValuationLearned
    | DecisionsDeferred
    | PastUseRecalled
    | ReservationsRecalled
    | NominationsRecalled
    | RoomMade
    | ReplacementsRecalled
    | RunTimesRecalled
    | ImmunityRecalled
    | DefragmentationSet
    | MoveAsked
    | KubeletRejected
    | DevicesOffered
    | NodeDistrustRecalled
    | ViolationFound
    | ViolationEnded
    | VolumeRefused
    | ResourceSliceSet
    | ResourceSliceRemoved
    | DeviceClassSet
    | DeviceClassRemoved
    | ResourceClaimSet
    | ResourceClaimRemoved
)
