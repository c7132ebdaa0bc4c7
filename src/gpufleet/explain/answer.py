"""The answer to a question about a pod or a group, as values: what ``-o json`` prints.

Names stay as they are from one version to the next; a change that breaks readers gets another ``schema``.
"""

import enum

import msgspec

SCHEMA = "gpufleet.io/explain/v1"
"""A change that breaks readers of the JSON gets another version."""


class State(enum.Enum):
    """Where a pod or a group stands."""

    RUNS = "runs"
    PLACED = "placed"
    ENDED = "ended"
    WAITS = "waits"
    GATED = "gated"
    HELD = "held"
    FOREIGN = "foreign"
    NO_PODS = "no-pods"
    LEAVES = "leaves"


WITHOUT_ENGINE = frozenset(
    {
        "admission",
        "claim-deleted",
        "claim-foreign",
        "claim-lost",
        "claim-missing",
        "claim-unbound",
        "class-missing",
        "ended",
        "foreign",
        "gang-malformed",
        "gated",
        "group-missing",
        "held",
        "leaves",
        "malformed",
        "no-leader",
        "no-pods",
        "no-replicas",
        "quota",
        "rejected",
        "resource-claim",
        "suspended",
        "told",
        "unseen",
        "volume-missing",
    }
)
"""The causes of work that no engine is asked about; ``engine.explanations.causes`` has all others."""


class ReasonRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason of nodes: how many it is the first of, how many have it, and which.

    ``detail`` says more of it, such as the taints that are not tolerated.
    """

    reason: str
    words: str
    first: int
    all: int
    nodes: tuple[str, ...]
    detail: str = ""


class NearRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that needs the least change: its reasons, what it lacks, and the pods with GPUs there."""

    node: str
    reasons: tuple[str, ...]
    lacks: dict[str, int] = {}
    holders: tuple[str, ...] = ()


class DeviceRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device, or a part of one, that a container was given."""

    container: str
    id: str
    kind: str
    model: str = ""
    gpu_milli: int = 1000
    memory_mib: int | None = msgspec.field(default=None, name="memory_mib")


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node of a pod and the devices of its grant."""

    node: str
    devices: tuple[DeviceRow, ...] = ()


class ReadyRow(msgspec.Struct, frozen=True):
    """Seconds from a pod's start on a node until it is ready, by part; None, in JSON null, is not known."""

    node: str
    image_s: float | None
    data_s: float | None
    load_s: float | None


class MemberRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member of a gang and where it stands."""

    pod: str
    state: State
    node: str = ""
    role: str = ""
    why: str = ""


class RoleRow(msgspec.Struct, frozen=True):
    """How many members of a role there are, and how many are needed."""

    role: str
    needed: int
    arrived: int


class GangRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gang: its minimum, its members, and until when it must be whole if it is bound in part."""

    name: str
    min_members: int = 0
    arrived: int = 0
    placed: int = 0
    roles: tuple[RoleRow, ...] = ()
    members: tuple[MemberRow, ...] = ()
    deadline: str = ""


class Asked(msgspec.Struct, frozen=True):
    """What was asked about."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """The subject as people write it: "pod team-a/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is so, why, and what would help; the most important first in each list.

    ``cause`` names the reason that matters, which the scheduler tells too, and ``why`` says it in words.
    ``nodes`` counts the nodes that were looked at; each is counted once among the reasons' ``first``. Where a
    controller was asked about, ``about`` says of which of its ``pods`` the rest speaks. ``ready`` is
    there for a pod that reads models or datasets and does not run yet, but has a node or is about to.
    """

    schema: str
    subject: Asked
    state: State
    summary: str
    about: str = ""
    cause: str = ""
    why: str = ""
    way_out: tuple[str, ...] = ()
    nodes: int = 0
    reasons: tuple[ReasonRow, ...] = ()
    nearest: tuple[NearRow, ...] = ()
    placement: Placement | None = None
    ready: ReadyRow | None = None
    gang: GangRow | None = None
    pods: tuple[MemberRow, ...] = ()
    notes: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """A cause by name, in words, and the ways out of it, the nearest first."""

    cause: str
    why: str
    way_out: tuple[str, ...] = ()
