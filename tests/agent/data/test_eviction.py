"""What leaves a cache for a new copy: by uses and by the time since it was named, worked out by hand."""

from gpufleet.agent.data.eviction import Room, StagedCopy, to_evict
from gpufleet.kube.objects.node_data import DataEntry


def staged(name: str, size_bytes: int, *, unnamed_s: float, uses: int = 1) -> StagedCopy:
    """A copy that was named last so long before second 1000."""
    return StagedCopy(DataEntry("model", name, size_bytes, True, f"/c/{name}"), 1000 - unnamed_s, uses)


def gone(
    *copies: StagedCopy, free_bytes: int, needed_bytes: int, kept: tuple[str, ...] = ()
) -> list[str] | None:
    """The names of what leaves a disk of 100 bytes."""
    found = to_evict(copies, lambda one: one.name in kept, Room(100, free_bytes), needed_bytes, 1000)
    return None if found is None else [one.name for one in found]


def test_nothing_leaves_while_the_disk_stays_below_the_high_mark() -> None:
    assert gone(staged("old", 30, unnamed_s=900), free_bytes=50, needed_bytes=30) == []


def test_beyond_the_high_mark_the_least_used_by_age_leave_down_to_the_low_one() -> None:
    copies = (
        staged("often", 20, unnamed_s=900, uses=30),
        staged("old", 10, unnamed_s=600),
        staged("new", 20, unnamed_s=60),
    )
    # 50 used and 31 more are 81; without "old" 71, without "new" 51.
    assert gone(*copies, free_bytes=50, needed_bytes=31) == ["old", "new"]
    # 30 uses in 900 s are worth more than one in 60 s.
    assert gone(*copies, free_bytes=50, needed_bytes=31, kept=("new",)) == ["old", "often"]


def test_what_work_names_stays_and_a_copy_without_room_is_refused() -> None:
    old = staged("old", 30, unnamed_s=900)
    # 60 used and 25 more leave 15 %, which is the least; 26 leave less.
    assert gone(old, free_bytes=40, needed_bytes=25, kept=("old",)) == []
    assert gone(old, free_bytes=40, needed_bytes=26, kept=("old",)) is None
    assert gone(free_bytes=0, needed_bytes=1) is None
