"""Layouts that a person gives for cards: GPU-a=2g.20gb@2,3g.40gb@4, GPU-a=1g.10gb,1g.10gb or GPU-a=whole.

Without places the instances go around what is in use, with as much as can stay.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from gpufleet.mig.cards import MigCard
from gpufleet.mig.counted import counted_layout
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.wanted import read_place
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout

WHOLE_CARD = "whole"
EXPECTED = "CARD=LAYOUT, as in GPU-a=2g.20gb,3g.40gb, GPU-a=3g.40gb@4 or GPU-a=whole"


class GivenLayout(msgspec.Struct, frozen=True):
    """What one card shall be: profiles, each with or without its place; None is a whole card."""

    card: DeviceId
    instances: tuple[str, ...] | None


def read_given(texts: Iterable[str]) -> tuple[GivenLayout, ...]:
    """The layouts that were given. Raises MigPlanError."""
    found: dict[DeviceId, GivenLayout] = {}
    for text in texts:
        given = _given(text)
        if given.card in found:
            raise _refused("a card has one layout", text)
        found[given.card] = given
    return tuple(found.values())


def _given(text: str) -> GivenLayout:
    card, _, layout = text.partition("=")
    if card and layout == WHOLE_CARD:
        return GivenLayout(DeviceId(card), None)
    instances = tuple(layout.split(","))
    if not card or not all(instances):
        raise _refused("no layout of a card", text)
    if len({"@" in one for one in instances}) > 1:
        raise _refused("places for all instances or for none", text)
    if "@" in layout:
        try:
            for one in instances:
                read_place(one)
        except MigPlanError as error:
            raise _refused(error.problem, text) from error
    return GivenLayout(DeviceId(card), instances)


def _refused(problem: str, text: str) -> MigPlanError:
    return MigPlanError(problem, field="CARD=LAYOUT", value=text, expected=EXPECTED)


def layout_on(card: MigCard, given: GivenLayout) -> Layout | None:
    """The layout of the card. Raises InputError where it cannot be had beside what is in use."""
    if given.instances is None:
        return None
    if "@" in given.instances[0]:
        return tuple(sorted(map(read_place, given.instances)))
    return counted_layout(card, Counter(given.instances))
