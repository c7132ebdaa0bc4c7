"""Which staged copies leave the cache of a node where a new one needs room.

What counts against a copy is its bytes for the time in which nothing has named it, and for it the time to
fetch them again as often as they are expected to be used. Bytes and the time to fetch them grow alike, so
what was not named for the longest time, by uses, goes first. What running or waiting work names is never
removed, nor is anything that was not staged.
"""

from collections.abc import Callable, Sequence

import msgspec

from gpufleet.kube.objects.node_data import DataEntry

HIGH_PCT, LOW_PCT = 80, 70
"""A copy that would fill the file system beyond the first makes room down to the second."""

FREE_LEAST_PCT = 15
"""No copy leaves less free: at that mark kubelets begin to evict pods for the sake of images."""


class StagedCopy(msgspec.Struct, frozen=True):
    """A copy that was staged, when it was named last, and how often it came to be named."""

    entry: DataEntry
    named_at_s: float
    uses: int


class Room(msgspec.Struct, frozen=True):
    """The size of the cache's file system, and what is free there."""

    size_bytes: int
    free_bytes: int


def to_evict(
    copies: Sequence[StagedCopy],
    kept: Callable[[DataEntry], bool],
    room: Room,
    needed_bytes: int,
    now_s: float,
) -> list[DataEntry] | None:
    """What goes first, as much as is needed; None where the copy has no room whatever goes."""
    used_bytes = room.size_bytes - room.free_bytes + needed_bytes
    if used_bytes * 100 <= room.size_bytes * HIGH_PCT:
        return []
    chosen: list[DataEntry] = []
    for one in sorted(copies, key=lambda one: _worth(one, now_s)):
        if used_bytes * 100 <= room.size_bytes * LOW_PCT:
            break
        if not kept(one.entry):
            chosen.append(one.entry)
            used_bytes -= one.entry.size_bytes
    return chosen if used_bytes * 100 <= room.size_bytes * (100 - FREE_LEAST_PCT) else None


def _worth(one: StagedCopy, now_s: float) -> tuple[float, str]:
    """The least goes first; of equals the first by name, so that equal nodes choose alike."""
    unnamed_s = max(1.0, now_s - one.named_at_s)
    return max(1, one.uses) / unnamed_s, one.entry.folder
