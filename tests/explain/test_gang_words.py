"""What is said of a gang that is short of members counts what is really missing."""

from gpufleet.explain.answer import GangRow
from gpufleet.explain.gang_words import short_of_members
from gpufleet.model.identifiers import GangName


def gang(arrived: int) -> GangRow:
    """A gang that needs three members at once."""
    return GangRow(GangName("gang/team/train"), 3, arrived, placed=0, roles=(), members=(), deadline="")


def test_members_that_have_not_come_are_missing() -> None:
    found = short_of_members(gang(arrived=2), 2)
    assert found.why == "gang team/train needs 3 members at once and 2 have come: 1 member is missing"


def test_of_a_gang_that_has_come_none_is_called_missing() -> None:
    found = short_of_members(gang(arrived=3), 2)
    assert found.why == (
        "gang team/train needs 3 members at once and 3 have come, but 1 of them does not count now: such a "
        "member has to end, or pauses because its Binding was refused"
    )
