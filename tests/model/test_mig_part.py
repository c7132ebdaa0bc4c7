"""The part of a card that an instance is, against the table of MIG boards."""

from fractions import Fraction

import pytest

from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.mig_part import compute_part, part_milli

# From NVIDIA's MIG User Guide: compute slices of each profile, of seven in all, and of four on an A30.
TABLE = [
    ("A100-40GB", "1g.5gb", Fraction(1, 7), 142),
    ("A100-40GB", "1g.5gb+me", Fraction(1, 7), 142),
    ("A100-40GB", "1g.10gb", Fraction(1, 7), 142),
    ("A100-40GB", "2g.10gb", Fraction(2, 7), 285),
    ("NVIDIA H100 80GB HBM3", "3g.40gb", Fraction(3, 7), 428),
    ("H200", "4g.71gb", Fraction(4, 7), 571),
    ("B200", "7g.180gb", Fraction(1), 1000),
    ("A30", "1g.6gb", Fraction(1, 4), 250),
    ("A30", "2g.12gb", Fraction(1, 2), 500),
]


@pytest.mark.parametrize(("product", "profile", "part", "milli"), TABLE)
def test_an_instance_is_its_compute_slices_of_the_boards(
    product: str, profile: str, part: Fraction, milli: int
) -> None:
    assert compute_part(product, profile) == part
    assert part_milli(part) == milli


@pytest.mark.parametrize("name", BOARDS)
def test_no_layout_of_a_board_is_more_than_the_board(name: str) -> None:
    for layout in BOARDS[GpuModelName(name)].layouts():
        parts = [compute_part(name, one.profile) for one in layout]
        assert sum(part for part in parts if part is not None) <= 1
        assert sum(map(part_milli, parts)) <= 1000


def test_sharers_have_equal_parts_and_what_nobody_knows_is_all() -> None:
    assert part_milli(Fraction(1, 7), 2) == 71
    assert part_milli(None, 3) == 333
    for product, profile in (
        ("a card", "1g.5gb"),
        ("A30", "cpx_nps4"),
        ("A30", "1c.3g.20gb"),
        ("T4", "1g.5gb"),
    ):
        assert compute_part(product, profile) is None
