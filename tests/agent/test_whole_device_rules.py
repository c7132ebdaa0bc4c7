"""No device is given to anybody but the one to whom it was granted."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.agent.device_plugin.whole_device_rules import OpenClaim, claimant, preferred
from gpufleet.agent.state.state_errors import RefusedError


def claim(pod: str, *units: str, since_s: float = 0.0, given: bool = False) -> OpenClaim:
    return OpenClaim(pod, "main", frozenset(units), since_s, given)


def first(free: Sequence[str], required: Sequence[str], size: int) -> list[str]:
    """The required ones and the first of the others."""
    others = [unit for unit in free if unit not in required]
    return [*required, *others][:size]


def test_the_oldest_claim_of_that_size_is_proposed() -> None:
    claims = [claim("team-a/young", "g0", since_s=2), claim("team-a/old", "g3", since_s=1)]
    assert preferred(["g0", "g1", "g2", "g3"], [], 1, claims, first) == ["g3"]


def test_who_was_given_an_answer_already_comes_after_who_was_not() -> None:
    claims = [claim("a", "g0", since_s=1, given=True), claim("b", "g1", since_s=2)]
    assert preferred(["g0", "g1"], [], 1, claims, first) == ["g1"]
    assert preferred(["g0", "g1"], [], 1, claims[:1], first) == ["g0"]


def test_without_a_claim_of_that_size_only_what_is_free_is_proposed() -> None:
    claims = [claim("a", "g0", "g1")]
    assert preferred(["g0", "g1", "g2", "g3"], [], 1, claims, first) == ["g2"]
    with pytest.raises(RefusedError, match="granted to a, on the way to this node"):
        preferred(["g0", "g1"], [], 1, claims, first)


def test_a_claim_that_the_kubelet_cannot_fulfil_now_is_not_proposed() -> None:
    claims = [claim("a", "g0", "g1")]
    assert preferred(["g1", "g2", "g3"], [], 2, claims, first) == ["g2", "g3"]


def test_what_an_init_container_held_is_used_again() -> None:
    claims = [claim("a", "g0", "g1")]
    assert preferred(["g0", "g1", "g2"], ["g0"], 2, claims, first) == ["g0", "g1"]


def test_units_of_exactly_one_claim_are_that_claims() -> None:
    claims = [claim("a", "g0"), claim("b", "g1", "g2")]
    found = claimant(["g2", "g1"], claims)
    assert found is not None
    assert found.pod == "b"


def test_units_that_nobody_was_granted_are_anybodys() -> None:
    assert claimant(["g7"], [claim("a", "g0")]) is None


@pytest.mark.parametrize("units", [["g0"], ["g0", "g7"], ["g0", "g2"], ["g0", "g1", "g2"]])
def test_a_part_of_somebodys_grant_is_refused_by_name(units: list[str]) -> None:
    claims = [claim("team-a/train", "g0", "g1"), claim("team-b/serve", "g2")]
    with pytest.raises(RefusedError, match="team-a/train"):
        claimant(units, claims)


def test_many_holders_are_named_in_few_words() -> None:
    claims = [claim(f"team/pod-{number}", f"g{number}") for number in range(8)]
    with pytest.raises(RefusedError, match="and 5 more"):
        claimant([f"g{number}" for number in range(8)], claims)


UNITS = [f"g{number}" for number in range(8)]


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[OpenClaim], list[str]]:
    """Claims that do not overlap, and units that somebody asks for."""
    left = draw(st.permutations(UNITS))
    claims = []
    for number in range(draw(st.integers(0, 4))):
        size = draw(st.integers(1, 3))
        mine, left = left[:size], left[size:]
        if mine:
            claims.append(claim(f"pod-{number}", *mine, since_s=number, given=draw(st.booleans())))
    return claims, draw(st.lists(st.sampled_from(UNITS), min_size=1, max_size=4, unique=True))


@given(situations())
def test_units_are_given_only_to_whom_they_are_granted_or_to_anybody(
    situation: tuple[list[OpenClaim], list[str]],
) -> None:
    claims, asked = situation
    granted = {unit: one.pod for one in claims for unit in one.units}
    owners = {granted.get(unit) for unit in asked}
    try:
        found = claimant(asked, claims)
    except RefusedError:
        assert owners != {None}
        return
    assert owners == {None if found is None else found.pod}
    assert found is None or found.units == set(asked)


@given(situations(), st.integers(1, 4))
def test_what_is_proposed_is_never_refused(situation: tuple[list[OpenClaim], list[str]], size: int) -> None:
    claims, available = situation
    if size > len(available):
        return
    try:
        proposed = preferred(available, [], size, claims, first)
    except RefusedError:
        return
    assert len(proposed) == size
    assert set(proposed) <= set(available)
    claimant(proposed, claims)
