"""What a pod holds of a GPU, and that charges never pass it, the card, or what neighbours make of it."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.ledger.held_parts import CARD_PARTS, charges, dominant, instance, replica, share
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig import Layout, MigGeometry
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

A100_80GB = BOARDS[GpuModelName("A100-80GB")]
PARTS = st.lists(st.fractions(0, 1, max_denominator=82_000), max_size=12)


def held(geometry: MigGeometry, layout: Layout) -> list[Fraction]:
    return [instance(geometry, one.profile) for one in layout]


def test_an_instance_holds_the_larger_of_its_slices() -> None:
    """Figures by hand: 8 slices of memory and 7 of compute."""
    expected = {"1g.10gb": (1, 7), "1g.20gb": (1, 4), "2g.20gb": (2, 7), "3g.40gb": (1, 2), "4g.40gb": (4, 7)}
    for name, (numerator, denominator) in expected.items():
        assert instance(A100_80GB, name) == Fraction(numerator, denominator)
    assert instance(A100_80GB, "7g.80gb") == 1


def test_18_of_the_78_mixes_of_slices_of_an_80_gb_board_hold_more_than_the_board() -> None:
    """A mix counts instances by profile, none is a mix too; the figures are from another count."""
    mixes = {}
    for layout in A100_80GB.layouts():
        profiles = Counter(one.profile for one in layout)
        mixes[frozenset(profiles.items())] = sum(held(A100_80GB, layout), Fraction(0))
    above = [total for total in mixes.values() if total > 1]
    assert (len(mixes), len(above)) == (78, 18)
    assert float(max(above)) == pytest.approx(1.1071, abs=5e-5)


def test_no_layout_of_any_board_is_charged_more_than_the_board() -> None:
    """All layouts that can exist, 722 of boards with seven slices of compute among them."""
    for geometry in BOARDS.values():
        for layout in geometry.layouts():
            parts = held(geometry, layout)
            charged, free = charges(parts)
            assert sum(charged) + free == CARD_PARTS
            for part, charge in zip(parts, charged, strict=True):
                assert charge <= part * CARD_PARTS + 1


def test_a_share_holds_the_larger_of_time_and_memory() -> None:
    assert share(800, 8_000, 80_000) == Fraction(4, 5)
    assert share(100, 68_000, 80_000) == Fraction(17, 20)
    assert share(250, None, 80_000) == Fraction(1, 4)
    assert share(500, 90_000, 80_000) == 1


def test_a_share_of_memory_that_is_not_known_counts_by_time_or_as_the_card() -> None:
    assert share(300, 4_000, None) == Fraction(3, 10)
    assert share(0, 4_000, None) == 1


def test_shares_that_add_up_to_more_than_the_card_pay_for_the_card_alone() -> None:
    """800 milli with a tenth of the memory beside 100 milli with 85 %: 1.65 of a card is held."""
    charged, free = charges([share(800, 8_000, 80_000), share(100, 68_000, 80_000)])
    assert free == 0
    assert sum(charged) == CARD_PARTS
    assert charged[0] == pytest.approx(0.8 / 1.65 * CARD_PARTS, abs=1)


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 48])
def test_replicas_are_equal_and_fill_the_card(replicas: int) -> None:
    charged, free = charges([replica(replicas)] * replicas)
    assert free == 0
    assert sum(charged) == CARD_PARTS
    assert max(charged) - min(charged) <= 1


def test_no_replica_is_no_number_of_replicas() -> None:
    with pytest.raises(InputError, match="replicas: no number of replicas, found 0; expected at least 1"):
        replica(0)


@given(PARTS)
def test_a_charge_is_never_above_the_part_and_all_are_never_above_the_card(parts: list[Fraction]) -> None:
    charged, free = charges(parts)
    assert sum(charged) + free == CARD_PARTS
    assert free >= 0
    for part, charge in zip(parts, charged, strict=True):
        assert 0 <= charge <= part * CARD_PARTS + 1


@given(PARTS, st.fractions(0, 1, max_denominator=1_000))
def test_a_neighbour_never_raises_a_charge(parts: list[Fraction], neighbour: Fraction) -> None:
    alone, _ = charges(parts)
    beside, _ = charges([*parts, neighbour])
    for before, after in itertools.zip_longest(alone, beside[:-1]):
        assert after <= before + 1


def test_the_dominant_part_of_a_host_is_that_of_cpu_or_of_memory() -> None:
    assert dominant((8_000, 16), (64_000, 256)) == Fraction(1, 8)
    assert dominant((1_000, 128), (64_000, 256)) == Fraction(1, 2)
    assert dominant((0, 300), (64_000, 256)) == 1
    assert dominant((5, 5), (0, 0)) == 0
