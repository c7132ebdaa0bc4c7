"""The table of reasons: each is told completely, and a new one needs nothing beside its module."""

from typing import Any

import msgspec
import pytest

from gpufleet.engine.explanations.causes import all_causes, cause_of
from gpufleet.engine.instruction import NodesLacking, Verdict
from gpufleet.engine.node_reasons import cpu, taint
from gpufleet.engine.node_reasons.case import Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.table import TABLE, ReasonTable
from gpufleet.engine.place.refusal.nearest_nodes import lowest

NEW = NodeReason(
    "too-hot",
    1 << 62,
    height=3,
    kind=Kind.CHANGE,
    words="too hot for work",
    finding=lambda case: Finding(f"{case.near_names} are too hot", ("cool them",)),
    remedy="they were cooled",
)


@pytest.mark.parametrize("one", TABLE.reasons, ids=lambda one: str(one.name))
def test_every_reason_has_a_height_and_words_and_says_what_makes_it_go_away(one: NodeReason) -> None:
    assert one.height > 0
    assert one.words
    assert bool(one.remedy) == (one.kind is not Kind.ROOM)


def test_a_new_reason_is_known_by_bit_by_name_and_by_height() -> None:
    table = ReasonTable((*TABLE.reasons, NEW))
    assert table.names_of(NEW.bit | taint.BIT) == ("taint", "too-hot")
    assert lowest({NEW.bit: 1, taint.BIT: 5}, table) == NodesLacking(("too-hot",), 1)
    assert lowest({NEW.bit | cpu.BIT: 2}, table) == NodesLacking(("too-hot", "cpu"), 2)
    assert table.mask(Kind.CHANGE) == TABLE.mask(Kind.CHANGE) | NEW.bit


def test_a_new_reason_is_a_cause_and_is_in_the_list_of_causes() -> None:
    table = ReasonTable((*TABLE.reasons, NEW))
    verdict = Verdict(1, {NEW.name: 1}, {NEW.name: 1}, None, lowest({NEW.bit: 1}, table))
    assert cause_of(verdict) == "too-hot"
    assert {one.name for one in all_causes(table)} - {one.name for one in all_causes()} == {"too-hot"}


@pytest.mark.parametrize("same", [{"bit": cpu.BIT}, {"name": "cpu"}, {"bit": 3}, {"bit": 0}])
def test_two_reasons_never_share_a_bit_or_a_name(same: dict[str, Any]) -> None:
    other = msgspec.structs.replace(NEW, **same)
    with pytest.raises(ValueError, match="reason"):
        ReasonTable((*TABLE.reasons, other))
