"""The plan of a drain, as its JSON says it. ``planner`` makes it, ``carrying_out`` follows it."""

import enum

import msgspec

SCHEMA = "gpufleet.io/drain/v1"
"""A change that breaks readers of the JSON gets another version."""

NO_CONTROLLER = "no controller makes it anew"
"""Why work stays that would be lost if it were evicted."""


class Way(enum.StrEnum):
    """What becomes of work on a node that is drained.

    WAITS: its end comes before the deadline and is waited for. MOVES: its places elsewhere are found, and it
    is evicted. EVICTED: the same, though another scheduler finds its place. NO_PLACE: it would have to move
    and fits nowhere. STAYS: it cannot be moved at all.
    """

    WAITS = "waits"
    MOVES = "moves"
    EVICTED = "evicted"
    NO_PLACE = "no-place"
    STAYS = "stays"


class PodMove(msgspec.Struct, frozen=True, rename="camel"):
    """A pod goes from a node to a node, which may be its own where others of its gang must leave theirs.

    ``target`` is "" where another scheduler finds its place.
    """

    pod: str
    uid: str
    source: str
    target: str


class WorkPlan(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What becomes of one gang or single pod.

    ``gpus`` is what it holds. ``at_s`` is the second, from the moment of the plan, at which it is evicted or
    has ended; None where it is neither. ``lost_gpu_hours`` is the work that ends with it. ``again``: a new
    place of it is on a node that is drained later, so that it may have to move once more. ``why`` says why it
    stays. ``pods`` are the uids of all its pods.
    """

    name: str
    way: Way
    gpus: float
    nodes: tuple[str, ...]
    at_s: float | None = None
    moves: tuple[PodMove, ...] = ()
    is_asked_to_save: bool = False
    lost_gpu_hours: float = 0.0
    again: bool = False
    why: str = ""
    pods: tuple[str, ...] = ()


class Losses(msgspec.Struct, frozen=True, rename="camel"):
    """GPU-hours that a drain costs, by reason.

    ``evicted`` is work that ends without a checkpoint; ``idle`` are GPUs of a closed node that are free while
    others on it are waited for; ``away`` are the GPUs of a node that is changed, which no plan can save.
    """

    evicted: float = 0.0
    idle: float = 0.0
    away: float = 0.0


class NodePlan(msgspec.Struct, frozen=True, rename="camel"):
    """When a node is closed, when nothing holds its GPUs any more, and what that costs.

    ``empty_at_s`` is None where something stays on it, or its end is not known.
    """

    node: str
    wave: int
    closed_at_s: float
    empty_at_s: float | None
    lost_gpu_hours: Losses


class Shortage(msgspec.Struct, frozen=True, rename="camel"):
    """Work that fits nowhere while nodes are drained: so many GPUs, and for how long; None: not known."""

    gpus: float
    longest_s: float | None


def short_words(gpus: float) -> str:
    """How many GPUs are short: "1 GPU is short", "2.5 GPUs are short"."""
    return "1 GPU is short" if gpus == 1 else f"{gpus:g} GPUs are short"


class DrainPlan(msgspec.Struct, frozen=True, rename="camel"):
    """All nodes in the order in which they are drained, and all work on them.

    ``short`` is None where everything that has to move has a place.
    """

    schema: str
    at: str
    nodes: tuple[NodePlan, ...]
    work: tuple[WorkPlan, ...]
    short: Shortage | None
    lost_gpu_hours: Losses
    notes: tuple[str, ...] = ()
