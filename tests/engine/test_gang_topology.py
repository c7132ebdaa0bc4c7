"""Gangs over racks and blocks: slices stay whole, and preferences are kept where they can be."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine import event
from gpufleet.engine.instruction import Rejected
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, TopologyLevelName
from tests.engine.fleet_builder import Story, binds, members, node, problems, shape

RACK, BLOCK = TopologyLevelName("rack"), TopologyLevelName("block")
RACKS = st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=3), min_size=1, max_size=4)
"""Racks by the GPUs of their nodes; two racks make a block."""


def fleet(racks: list[list[int]]) -> Story:
    """Nodes named after their rack."""
    story = Story()
    story.levels("block", "rack")
    story.nodes(
        *(
            node(f"r{rack}-{number}", gpus, labels={"block": f"b{rack // 2}", "rack": f"r{rack}"})
            for rack, sizes in enumerate(racks)
            for number, gpus in enumerate(sizes)
        )
    )
    return story


def racks_used(story: Story, gang: Gang, pods: int) -> Counter[str]:
    """How many of the gang's pods each rack got."""
    arrivals = [event.PodAdded(pod) for pod in members(gang.name, pods, shape(1))]
    said = story.happen(event.GangSet(gang), *arrivals)
    return Counter(name.partition("-")[0] for name, _ in binds(said).values())


@settings(max_examples=60, deadline=None)
@given(RACKS, st.integers(1, 20), st.integers(1, 5))
def test_a_gang_in_slices_starts_exactly_if_the_racks_hold_them(
    racks: list[list[int]], pods: int, size: int
) -> None:
    gang = Gang(GangName("g"), pods, slice_size=size, slice_level=RACK)
    used = racks_used(fleet(racks), gang, pods)
    room = [sum(sizes) for sizes in racks]
    slices, rest = divmod(pods, size)
    fits = sum(count // size for count in room) >= slices
    if fits and rest:
        # The slice left over needs a rack with a slice's room unused, or the odd room of some rack.
        unused = sum(count // size for count in room) > slices
        fits = unused or any(count % size >= rest for count in room)
    assert sum(used.values()) == (pods if fits else 0)
    assert sum(1 for count in used.values() if count % size) <= 1


@settings(max_examples=60, deadline=None)
@given(RACKS, st.integers(1, 20), st.booleans())
def test_a_preference_keeps_nobody_from_starting_and_is_kept_if_it_can_be(
    racks: list[list[int]],
    pods: int,
    balanced: bool,
) -> None:
    gang = Gang(GangName("g"), pods, preferred_level=RACK, balanced=balanced)
    used = racks_used(fleet(racks), gang, pods)
    room = [sum(sizes) for sizes in racks]
    assert sum(used.values()) == (pods if sum(room) >= pods else 0)
    if not used:
        return
    if max(room) >= pods:
        assert len(used) == 1
        # The smallest rack that holds it.
        assert room[int(next(iter(used))[1:])] == min(count for count in room if count >= pods)
    blocks = [sum(room[first : first + 2]) for first in range(0, len(room), 2)]
    if max(blocks) >= pods:
        assert len({int(rack[1:]) // 2 for rack in used}) == 1


def test_late_members_of_a_gang_that_prefers_a_rack_are_not_refused() -> None:
    story = fleet([[4], [4]])
    gang = Gang(GangName("g"), 3, preferred_level=RACK)
    assert racks_used(story, gang, 3) in (Counter(r0=3), Counter(r1=3))
    late = [event.PodAdded(pod) for pod in members("g", 6, shape(1))[3:]]
    assert len(binds(story.happen(*late))) == 3


def test_slices_need_a_size_and_a_level() -> None:
    story = fleet([[4]])
    said = story.happen(event.GangSet(Gang(GangName("g"), 2, slice_size=2)))
    assert [type(one) for one in said if isinstance(one, Rejected)] == [Rejected]
    assert "slices" in problems(said)[0]
    said = story.happen(event.GangSet(Gang(GangName("g"), 2, slice_level=RACK)))
    assert "slices" in problems(said)[0]
    said = story.happen(event.GangSet(Gang(GangName("g"), 2, slice_size=-1, slice_level=BLOCK)))
    assert "slice_size" in problems(said)[0]
