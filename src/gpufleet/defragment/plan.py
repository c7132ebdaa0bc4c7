"""The answer of ``gpufleet defragment``, as its JSON says it."""

import msgspec

SCHEMA = "gpufleet.io/defragment/v1"
"""A change that breaks readers of the JSON gets another version."""


class PlannedMove(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that is ended on ``source`` because the one that replaces it fits on ``target``.

    ``lost_gpu_s`` is the work that ends with it, in GPU-seconds since it started or saved its work, None
    where its start is unknown; ``controller`` ("ReplicaSet/web") makes the other pod.
    """

    pod: str
    uid: str
    source: str
    target: str
    lost_gpu_s: int | None
    controller: str


class Fits(msgspec.Struct, frozen=True):
    """How many pods of ``gpus`` whole GPUs would fit, if nothing but GPUs counted."""

    gpus: int
    before: int
    after: int


class DefragmentPlan(msgspec.Struct, frozen=True, rename="camel"):
    """All moves in their order, and what they gain.

    ``starts`` is the workload that could start then, "" where the moves are for no workload in particular,
    and then ``fits`` and the whole GPUs say what they gain. ``cut``: not every move was looked at.
    """

    schema: str
    at: str
    starts: str
    moves: tuple[PlannedMove, ...]
    whole_gpus_before: int
    whole_gpus_after: int
    fits: tuple[Fits, ...]
    cut: bool
    notes: tuple[str, ...] = ()
