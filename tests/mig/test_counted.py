"""Layouts by counts: each set that a board can have is found, around what is in use."""

from collections import Counter

import pytest

from gpufleet.mig.counted import counted_layout
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.model.mig import Layout
from gpufleet.model.model_errors import InputError
from tests.mig.mig_cards import H100, a_card, at


def counts(layout: Layout) -> Counter[str]:
    return Counter(one.profile for one in layout)


def test_each_layout_is_kept_where_its_counts_are_wanted() -> None:
    """Of an H100: also if only some of its instances are in use."""
    for layout in H100.layouts():
        assert counted_layout(a_card(unused=layout), counts(layout)) == layout
        assert counted_layout(a_card(held=layout[::2], unused=layout[1::2]), counts(layout)) == layout


def test_most_of_the_card_stays() -> None:
    card = a_card(held=at("1g.10gb@6"), unused=at("3g.40gb@0", "1g.10gb@4"))
    wanted = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
    with pytest.raises(MigPlanError, match="do not fit on GPU-0 beside what is in use"):
        counted_layout(card, wanted)
    card = a_card(held=at("1g.10gb@3"), unused=at("3g.40gb@4", "1g.10gb@0"))
    assert counted_layout(card, wanted) == at("2g.20gb@0", "1g.10gb@2", "1g.10gb@3", "3g.40gb@4")


def test_an_instance_in_use_has_to_be_in_the_layout() -> None:
    with pytest.raises(
        MigPlanError, match=r"1g.10gb at 3 of GPU-0 is in use, and has no place in the layout"
    ):
        counted_layout(a_card(held=at("1g.10gb@3")), {"7g.80gb": 1})


def test_what_no_board_has_is_refused() -> None:
    with pytest.raises(MigPlanError, match=r"5 of 2g\.20gb do not fit on GPU-0"):
        counted_layout(a_card(), {"2g.20gb": 5})
    with pytest.raises(InputError, match="no MIG profile of this GPU"):
        counted_layout(a_card(), {"2g.10gb": 1})


def test_media_engines_are_had_once() -> None:
    layout = counted_layout(a_card(), {"1g.10gb+me": 1, "1g.10gb": 6})
    assert counts(layout) == {"1g.10gb+me": 1, "1g.10gb": 6}
    with pytest.raises(MigPlanError):
        counted_layout(a_card(), {"1g.10gb+me": 2})
