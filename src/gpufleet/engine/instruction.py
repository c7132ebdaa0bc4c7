"""What the engine says: binds to make, conditions to tell, and what it wants to hear next.

The shell carries instructions out and reports what came of them as events.
"""

import enum

import msgspec

from gpufleet.dra_allocation.results import Allocation
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.gpu_unit import GpuUnit
from gpufleet.model.identifiers import (
    DeviceId,
    GangName,
    GpuModelName,
    NodeName,
    PodUid,
    QueueName,
    QuotaResource,
)
from gpufleet.model.pod import Pod
from gpufleet.model.violation import AnyViolation


class Instruction(msgspec.Struct, frozen=True, gc=False, tag_field="instruction"):
    """Anything the engine can ask of its shell."""


class MovedFrom(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Whose place was kept for a pod, elsewhere than it was: a pod of that name had to leave ``node`` at that
    moment, for ``beneficiary`` (None: to put room together), and lost so much work (GPU-milliseconds).
    """

    pod: str
    node: NodeName
    beneficiary: str | None
    at_us: int
    lost: int


class Bind(Instruction, frozen=True, tag="bind", omit_defaults=True):
    """Put this pod on this node, on these devices.

    ``volumes`` says for each claim that is bound with the pod which volume it gets, "" for one that
    is to be provisioned on this node. ``instead_of`` is set for a pod that takes over the place of one that
    was moved. ``promises`` are those with which it was let in behind reservations. ``claims`` has the devices
    for each of its resource claims that had none.
    """

    uid: PodUid
    node: NodeName
    devices: tuple[DeviceId, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    instead_of: MovedFrom | None = None
    # Logs have always said ``seats``, and a log must read alike for ever.
    promises: tuple[BackfillPromise, ...] = msgspec.field(default=(), name="seats")
    claims: tuple[tuple[str, Allocation], ...] = ()


class WhyEvicted(enum.StrEnum):
    """Why a pod is told to end.

    ``PREEMPTED``: for work of its own queue that goes before it. ``RECLAIMED``: for work of another queue,
    which takes back what this one borrowed. ``STOPPED``: its queue, or one above that, is stopped.
    ``OVERTIME``: it, or another of its gang, has run for as long as it may. ``MOVED``: a place
    elsewhere is kept for the pod that its controller makes instead. ``DRAINED``: the same, because its node
    is emptied; a gang moves whole. ``INTERRUPTED``: it was a guest on nodes
    that others hold reserved, and these can start. ``OVERDUE``: it was let in there because it said how long
    it runs, and has run for longer. ``GANG_INCOMPLETE``: its gang was not whole at its
    deadline. ``DEVICE_CONFLICT``: other pods had its device before. ``GPU_MEMORY``: it used more than its
    share of a GPU.
    """

    PREEMPTED = "preempted"
    RECLAIMED = "reclaimed"
    STOPPED = "stopped"
    OVERTIME = "overtime"
    MOVED = "moved"
    DRAINED = "drained"
    INTERRUPTED = "interrupted"
    OVERDUE = "overdue"
    GANG_INCOMPLETE = "gang-incomplete"
    DEVICE_CONFLICT = "device-conflict"
    GPU_MEMORY = "gpu-memory"


class RunTimeLimit(msgspec.Struct, frozen=True, gc=False):
    """For how long work may run, and which queue says so; None: its own word."""

    run_time_us: int
    queue: QueueName | None


class MovedTo(msgspec.Struct, frozen=True, gc=False):
    """The node on which a place is kept for moved work, and the work that ends (GPU-milliseconds)."""

    node: NodeName
    lost: int


class Evict(Instruction, frozen=True, tag="evict", omit_defaults=True):
    """End this pod, so that ``beneficiary`` can run; None where it ends without a beneficiary.

    ``reason`` is one of ``WhyEvicted``; logs of older versions have words there. ``limit`` is what work has
    reached that ends after its time; ``moved`` is set for work that is moved.
    """

    uid: PodUid
    beneficiary: PodUid | GangName | None
    reason: str
    limit: RunTimeLimit | None = None
    moved: MovedTo | None = None


class Nominated(Instruction, frozen=True, tag="nominated"):
    """A pod has its place on a node, and is bound when pods that end have left it.

    ``waits_for`` are pods that were told to end, or are by this step, wherever they run.
    """

    uid: PodUid
    node: NodeName
    waits_for: tuple[PodUid, ...]


class NominationWithdrawn(Instruction, frozen=True, tag="nomination-withdrawn"):
    """The place that was kept for this pod is not its any more; it waits as before."""

    uid: PodUid


class Nearest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node that comes closest, and what is missing there.

    ``short`` names each resource and by how much it is short ("gpus", "gpu_milli", "cpu_milli",
    "memory_bytes", ...); ``equals`` counts the nodes that are as close. ``barred_by`` names what other
    pods have against the pod there ("ports", "pod-anti-affinity", ...). ``unit`` is what it gives out as
    GPUs.
    """

    node: NodeName
    short: dict[str, int]
    equals: int
    barred_by: tuple[str, ...] = ()
    unit: GpuUnit = GpuUnit.GPU


class NodesLacking(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands between a shape and the ``nodes`` that would need the least change to take it.

    ``reasons`` all hold for each of these nodes, the hardest to change first. ``taints`` are those of these
    nodes that the shape does not tolerate, as kubectl writes them. ``unit`` is what they give out as GPUs.
    """

    reasons: tuple[str, ...]
    nodes: int
    taints: tuple[str, ...] = ()
    unit: GpuUnit = GpuUnit.GPU


class WhyBarred(enum.StrEnum):
    """Why no work of a queue may start, however much quota and room there is."""

    UNKNOWN = "unknown"
    INNER = "inner"
    HELD = "held"
    DRAINING = "draining"
    STOPPED = "stopped"
    CYCLE = "cycle"
    NO_PARENT = "no-parent"
    TOO_DEEP = "too-deep"
    NOT_ADMITTED = "not-admitted"
    OVER_BUDGET = "over-budget"


class QueueBar(msgspec.Struct, frozen=True, omit_defaults=True):
    """The queue that bars work from starting, the one that the work names or one above it.

    Where the work's ``namespace`` may not use the queue, ``admits`` says in words which may. ``budget`` says
    in words which budget of the queue is spent.
    """

    queue: QueueName
    why: WhyBarred
    namespace: str = ""
    admits: str = ""
    budget: str = ""


class QuotaLimit(enum.StrEnum):
    """The limit that keeps a workload from starting.

    ``NOMINAL``: what the queues of the tree state together is in use. ``LENDING``: the same, but some
    of them keep what they do not use, by their lending limits. ``BORROWING``: nominal amount and
    borrowing limit of one queue. ``HARD``: the hard limit of one queue. ``PROTECTED``: the nominal amount of
    one queue, beyond which work that may not be evicted cannot have anything. ``OUTSIDE``: the work is in no
    queue, and gets nothing of a resource that queues own.
    """

    NOMINAL = "nominal"
    LENDING = "lending"
    BORROWING = "borrowing"
    HARD = "hard"
    PROTECTED = "protected"
    OUTSIDE = "outside"


class QuotaShortage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limit that keeps work out, with amounts in the resource's own unit (``model.queue``).

    The ``queue`` whose limit binds has ``used`` of the ``allowed``; ``asked`` is what the work needs at
    least, and ``missing`` by how much that is more than what is left to it. ``reserved`` is kept besides for
    work that has a place and does not run yet.
    """

    queue: QueueName
    resource: QuotaResource
    limit: QuotaLimit
    used: int
    asked: int
    allowed: int
    missing: int
    reserved: int = 0


class ModelsTried(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one group of models, where work wants them tried in an order.

    ``reasons`` counts each node that has such GPUs once, under its first reason; ``quota`` is set where
    quota allows none of them. ``placeable`` says of a gang how many members they could hold at once.
    """

    models: tuple[GpuModelName, ...]
    reasons: dict[str, int]
    quota: QuotaShortage | None = None
    placeable: int | None = None


class ReservedPlace(msgspec.Struct, frozen=True):
    """The place that is reserved for one pod, and its devices as far as they are known."""

    uid: PodUid
    node: NodeName
    devices: tuple[DeviceId | None, ...] = ()


class Reservation(msgspec.Struct, frozen=True):
    """The places that a holder keeps until it can start there.

    ``name`` is the holder's for people. ``start_us`` is the engine time at which the work that runs there
    is expected to have ended, None where an end is not known. ``since_us`` is when it was made.
    ``waits_for`` are the workloads that must end first.
    """

    holder: PodUid | GangName
    name: str
    queue: QueueName
    since_us: int
    start_us: int | None
    places: tuple[ReservedPlace, ...]
    waits_for: tuple[PodUid, ...]


class ReservationHint(msgspec.Struct, frozen=True):
    """A reservation as it is named to others: whose it is, on how many nodes, and until when.

    ``guests`` counts the pods that end for its sake then.
    """

    holder: PodUid | GangName
    name: str
    queue: QueueName
    nodes: int
    start_us: int | None
    guests: int = 0


class Outlook(msgspec.Struct, frozen=True):
    """What is known of the end of a pod that runs.

    ``latest_us`` is by when it must have ended by the ``limit`` to its run time, or to that of another of its
    gang; None without a limit. ``guest_of`` are those for whose sake it ends as soon as they can start.
    """

    latest_us: int | None
    limit: RunTimeLimit | None
    guest_of: tuple[ReservationHint, ...]


class GangShortage(msgspec.Struct, frozen=True):
    """How a gang with members that run stands to its minimum.

    ``lacking`` members are short of it. Of a gang that has ``started``, members that come join those that
    run. ``since_us`` is since when the time runs in which it must be whole again, None while it does not.
    """

    lacking: int
    started: bool
    since_us: int | None


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a shape fits nowhere now.

    ``first_reasons`` counts every node once, under its first reason; ``all_reasons`` counts it
    under each. ``nearest`` is None where no amount of room would help. ``lacking`` is None where no
    node refuses the shape. ``bar`` and ``quota`` say what its queue has against it, before any node.
    ``models_tried`` says the same of each group of models in the order in which they were tried.
    ``reserved`` is its own reservation, ``kept_off_by`` that of others without which it would run.
    """

    nodes: int
    first_reasons: dict[str, int]
    all_reasons: dict[str, int]
    nearest: Nearest | None
    lacking: NodesLacking | None = msgspec.field(default=None, name="hurdle")
    bar: QueueBar | None = None
    quota: QuotaShortage | None = None
    models_tried: tuple[ModelsTried, ...] = ()
    reserved: ReservationHint | None = None
    kept_off_by: ReservationHint | None = None


class Reserved(Instruction, frozen=True, tag="reserved"):
    """A workload that waits holds these places from now on, in place of any it held before.

    That it waits for others' end by now is not told again.
    """

    reservation: Reservation


class ReservationEnded(Instruction, frozen=True, tag="reservation-ended"):
    """A workload holds no reservation any more: it has its place, or others had a better right."""

    holder: PodUid | GangName


class Unschedulable(Instruction, frozen=True, tag="unschedulable"):
    """A pod cannot run now, and why. Said once a pod; ``explain`` gives the news later."""

    uid: PodUid
    verdict: Verdict


class GangUnschedulable(Instruction, frozen=True, tag="gang-unschedulable", omit_defaults=True):
    """A gang cannot start now.

    ``placeable`` of its ``min_members`` would fit; ``verdict`` is that of the first member that
    does not, None while too few members have arrived. ``role`` names the role that is short of
    members or of room, "" where it is the gang as a whole.
    """

    gang: GangName
    min_members: int
    arrived: int
    placeable: int
    verdict: Verdict | None
    role: str = ""


class GangUnknown(Instruction, frozen=True, tag="gang-unknown"):
    """Pods name a gang that is not described; they wait until it is. Told once a gang."""

    gang: GangName
    arrived: int


class Rejected(Instruction, frozen=True, tag="rejected"):
    """An event was bad and changed nothing; everything else went on."""

    subject: str
    problem: str


class NodeDistrusted(Instruction, frozen=True, tag="node-distrusted"):
    """Nothing new is placed on this node until then, because its kubelet turned pods away."""

    node: NodeName
    until_us: int
    next_pause_us: int


class NodeTrusted(Instruction, frozen=True, tag="node-trusted"):
    """The node is not left alone any more; the next time it would be for ``next_pause_us``."""

    node: NodeName
    next_pause_us: int


class Consequence(enum.StrEnum):
    """What follows from a violation for a pod.

    ``ENDS``: it is told to end. ``ENDS_LATER``: it is, if that goes on. ``STAYS``: it would end if something
    would replace it. ``NONE``: its owner is only warned.
    """

    ENDS = "ends"
    ENDS_LATER = "ends-later"
    STAYS = "stays"
    NONE = "none"


class ViolationReport(Instruction, frozen=True, tag="violation-told"):
    """The owner of this pod is to read of a violation and what follows from it."""

    uid: PodUid
    violation: AnyViolation
    consequence: Consequence


class VolumeNodesLeftOut(Instruction, frozen=True, tag="volume-nodes-left-out"):
    """A waiting pod is placed on none of these nodes until then, as (claim, node, until)."""

    uid: PodUid
    refused: tuple[tuple[str, NodeName, int], ...]


class BindPaused(Instruction, frozen=True, tag="bind-paused"):
    """A pod of which so many binds in a row were refused is not bound before this engine time."""

    uid: PodUid
    until_us: int
    refusals: int


class ReplacementPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place that is kept for the pod which a controller makes instead of a moved one, the ``victim``.

    ``like`` is what that pod is like, without the ``gang`` of the victim. ``number`` orders it among
    nominations. ``until_us`` is until when the place is kept, None while the victim is not gone.
    """

    victim: PodUid
    like: Pod
    node: NodeName
    devices: tuple[DeviceId | None, ...]
    number: int
    gang: GangName | None = None
    origin: MovedFrom | None = None
    until_us: int | None = None


class ReplacementsKept(Instruction, frozen=True, tag="replacements-kept"):
    """Places are kept on a node for pods that are moved, and no others any more."""

    node: NodeName
    places: tuple[ReplacementPlace, ...]


class RequeueAfter(Instruction, frozen=True, tag="requeue-after"):
    """Take a step at this engine time at the latest, even if nothing happens."""

    at_us: int


class Learn(Instruction, frozen=True, tag="learn"):
    """Call ``Engine.study`` when convenient, and hand the event it returns to the next step."""


AnyInstruction = (
    Learn
    | Bind
    | Evict
    | Nominated
    | NominationWithdrawn
    | Reserved
    | ReservationEnded
    | Unschedulable
    | GangUnschedulable
    | GangUnknown
    | Rejected
    | NodeDistrusted
    | NodeTrusted
    | ViolationReport
    | VolumeNodesLeftOut
    | BindPaused
    | ReplacementsKept
    | RequeueAfter
)
