"""Layouts of MIG: counted by brute force elsewhere, and held to what the driver allows."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.gpu_catalogue import CATALOGUE
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig import Layout, MigGeometry, MigInstance, MigProfile, profile_gb
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

A30 = BOARDS[GpuModelName("A30")]
A100 = BOARDS[GpuModelName("A100-40GB")]
SEVEN = [board for board in BOARDS.values() if board.compute_slices == 7]


def instances(*placed: tuple[str, int]) -> Layout:
    return tuple(MigInstance(start, profile) for profile, start in placed)


def multisets(layouts: list[Layout]) -> set[tuple[tuple[str, int], ...]]:
    return {tuple(sorted(Counter(one.profile for one in layout).items())) for layout in layouts}


def without_double_memory(board: MigGeometry) -> tuple[MigProfile, ...]:
    return tuple(
        one for one in board.plain_profiles if not (one.compute_slices == 1 and one.memory_slices == 2)
    )


@pytest.mark.parametrize("board", SEVEN, ids=lambda board: str(board.profiles[-1].name))
def test_a_board_of_seven_slices_has_722_layouts(board: MigGeometry) -> None:
    layouts = [one for one in board.layouts() if one]
    assert len(layouts) == len(set(layouts)) == 722
    assert len(multisets(layouts)) == 77
    maximal = [one for one in layouts if board.is_maximal(one)]
    assert (len(maximal), len(multisets(maximal))) == (78, 38)


def test_without_double_memory_there_are_297() -> None:
    profiles = without_double_memory(A100)
    layouts = [one for one in A100.layouts(profiles) if one]
    maximal = [one for one in layouts if A100.is_maximal(one, profiles)]
    counts = len(layouts), len(multisets(layouts)), len(maximal), len(multisets(maximal))
    assert counts == (297, 37, 19, 14)


def test_an_a30_has_25_layouts() -> None:
    layouts = [one for one in A30.layouts() if one]
    maximal = [one for one in layouts if A30.is_maximal(one)]
    counts = len(layouts), len(multisets(layouts)), len(maximal), len(multisets(maximal))
    assert counts == (25, 9, 5, 4)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
def test_what_does_not_overlap_never_needs_more_compute_than_there_is(board: MigGeometry) -> None:
    for layout in board.layouts():
        needed = sum(board.profile(one.profile).compute_slices for one in layout)
        assert needed <= board.compute_slices
        board.taken(layout)


@pytest.mark.parametrize(
    ("board", "most"),
    [(A100, {"1g": 7, "2g": 3, "3g": 2, "4g": 1, "7g": 1}), (A30, {"1g": 4, "2g": 2, "4g": 1})],
)
def test_as_many_of_a_profile_fit_as_the_guide_says(board: MigGeometry, most: dict[str, int]) -> None:
    seen: Counter[str] = Counter()
    for layout in board.layouts():
        seen |= Counter(one.profile for one in layout)
    for profile in board.plain_profiles:
        assert seen[profile.name] == profile.maximum
        if profile.compute_slices != 1 or profile.memory_slices == 1:
            assert profile.maximum == most[profile.name.partition(".")[0]]


def test_only_one_instance_has_the_media_engines() -> None:
    with pytest.raises(InputError, match=r"at most 1 of 1g\.5gb.me"):
        A100.taken(instances(("1g.5gb+me", 0), ("1g.5gb+me", 1)))


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        (instances(("3g.20gb", 0), ("4g.20gb", 0)), "overlap"),
        (instances(("3g.20gb", 2)), "one of 0, 4 for 3g.20gb"),
        (instances(("7g.40gb", 0), ("1g.5gb", 6)), "overlap"),
        (instances(("1g.10gb", 7)), "one of 0, 2, 4, 6"),
        (instances(("1g.12gb", 0)), "one of 1g.5gb, 1g.5gb.me, 1g.10gb"),
    ],
)
def test_what_cannot_exist_is_refused_with_the_reason(layout: Layout, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        A100.taken(layout)


@given(st.lists(st.sampled_from(A100.profiles), max_size=8), st.data())
def test_free_starts_are_those_that_do_not_overlap(wanted: list[MigProfile], data: st.DataObject) -> None:
    layout: list[MigInstance] = []
    for profile in wanted:
        free = A100.free_starts(profile, A100.taken(layout))
        if free and sum(one.profile == profile.name for one in layout) < profile.maximum:
            layout.append(MigInstance(data.draw(st.sampled_from(free)), profile.name))
            assert A100.taken(layout)
        blocked = [start for start in profile.starts if start not in free]
        for start in blocked:
            with pytest.raises(InputError):
                A100.taken([*layout, MigInstance(start, profile.name)])


@pytest.mark.parametrize(
    ("instance_mib", "total_mib", "gb"),
    [(4864, 40960, 5), (9856, 40960, 10), (19968, 40960, 20), (9856, 81920, 10), (40192, 81920, 40)],
)
def test_names_follow_the_share_of_the_card(instance_mib: int, total_mib: int, gb: int) -> None:
    assert profile_gb(instance_mib, total_mib) == gb


def test_every_board_is_a_model_of_the_catalogue() -> None:
    assert BOARDS.keys() <= {model.name for model in CATALOGUE}


@pytest.mark.parametrize("name", BOARDS)
def test_a_whole_board_has_the_cards_memory_in_its_name(name: GpuModelName) -> None:
    memory_mib = next(model.memory_mib for model in CATALOGUE if model.name == name)
    assert memory_mib is not None
    named = int(BOARDS[name].plain_profiles[-1].name.partition(".")[2].removesuffix("gb"))
    assert abs(named - memory_mib / 1024) <= 1
