"""Gangs that pods name and that are not described: each is told once, and none is forgotten."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from gpufleet.engine.instruction import AnyInstruction, GangUnknown
from gpufleet.model.identifiers import GangName


def check_told_unknown(
    said: Iterable[AnyInstruction],
    told: set[GangName],
    named: AbstractSet[GangName],
    described: AbstractSet[GangName],
) -> None:
    """``told`` gets those that are told now; ``named`` are gangs of pods that wait."""
    for one in said:
        if isinstance(one, GangUnknown):
            assert one.gang not in told, f"{one.gang} is told twice that nobody knows it"
            told.add(one.gang)
    assert named - described <= told
