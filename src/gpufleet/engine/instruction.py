"""What the engine says: binds to make, conditions to tell, and what it wants to hear next.

The shell carries instructions out and reports what came of them as events.
"""

import msgspec

from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid


class Instruction(msgspec.Struct, frozen=True, gc=False, tag_field="instruction"):
    """Anything the engine can ask of its shell."""


class Bind(Instruction, frozen=True, tag="bind", omit_defaults=True):
    """Put this pod on this node, on these devices.

    ``volumes`` says for each claim that is bound with the pod which volume it gets, "" for one that
    is to be provisioned on this node.
    """

    uid: PodUid
    node: NodeName
    devices: tuple[DeviceId, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()


class Evict(Instruction, frozen=True, tag="evict"):
    """End this pod so that ``beneficiary`` can run."""

    uid: PodUid
    beneficiary: PodUid | GangName
    reason: str


class Nearest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node that comes closest, and what is missing there.

    ``short`` names each resource and by how much it is short ("gpus", "gpu_milli", "cpu_milli",
    "memory_bytes", ...); ``equals`` counts the nodes that are as close. ``barred_by`` names what other
    pods have against the pod there ("ports", "pod-anti-affinity", ...).
    """

    node: NodeName
    short: dict[str, int]
    equals: int
    barred_by: tuple[str, ...] = ()


class Hurdle(msgspec.Struct, frozen=True):
    """What stands between a shape and the ``nodes`` that would need the least change to take it.

    ``reasons`` all hold for each of these nodes, the hardest to change first.
    """

    reasons: tuple[str, ...]
    nodes: int


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a shape fits nowhere now.

    ``first_reasons`` counts every node once, under its first reason; ``all_reasons`` counts it
    under each. ``nearest`` is None where no amount of room would help. ``hurdle`` is None where no
    node refuses the shape.
    """

    nodes: int
    first_reasons: dict[str, int]
    all_reasons: dict[str, int]
    nearest: Nearest | None
    hurdle: Hurdle | None = None


class Unschedulable(Instruction, frozen=True, tag="unschedulable"):
    """This pod cannot run now, and why. Told once a pod; ``explain`` gives the news later."""

    uid: PodUid
    verdict: Verdict


class GangUnschedulable(Instruction, frozen=True, tag="gang-unschedulable", omit_defaults=True):
    """This gang cannot start now.

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
    """Pods name a gang that nobody has described; they wait until somebody does. Told once a gang."""

    gang: GangName
    arrived: int


class Rejected(Instruction, frozen=True, tag="rejected"):
    """An event was bad and changed nothing; everything else went on."""

    subject: str
    problem: str


class RequeueAfter(Instruction, frozen=True, tag="requeue-after"):
    """Take a step at this engine time at the latest, even if nothing happens."""

    at_us: int


class Learn(Instruction, frozen=True, tag="learn"):
    """Call ``Engine.study`` when convenient, and hand the event it returns to the next step."""


AnyInstruction = (
    Learn | Bind | Evict | Unschedulable | GangUnschedulable | GangUnknown | Rejected | RequeueAfter
)
