"""A pod of which a bind was refused pauses: longer each time, a minute at most, and across a restart."""

import pytest

from gpufleet.engine.event import BindRefusalRecalled
from gpufleet.engine.instruction import AnyInstruction, BindPaused
from gpufleet.model.identifiers import PodUid
from tests.engine.fleet_builder import Story, node, placed, pod, shape

S = 1_000_000


def pauses(said: list[AnyInstruction]) -> list[tuple[int, int]]:
    """(Refusals in a row, until when) of the pauses that were told."""
    return [(one.refusals, one.until_us) for one in said if isinstance(one, BindPaused)]


def recalled(until_s: int, refusals: int = 1) -> BindRefusalRecalled:
    return BindRefusalRecalled(PodUid("p"), until_s * S, refusals)


def test_each_pause_is_twice_as_long_as_the_one_before_and_is_told() -> None:
    story = Story()
    story.nodes(node("n", 1))
    story.arrive(pod("p", shape(1)))
    begins_s = 0
    for number, lasts_s in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
        assert pauses(story.refuse("p")) == [(number, (begins_s + lasts_s) * S)]
        assert placed(story.wait_s(lasts_s - 1)) == []
        assert placed(story.wait_s(1)) == ["p"]
        begins_s += lasts_s


def test_a_pod_pauses_on_after_a_restart_and_its_next_pause_is_longer() -> None:
    story = Story()
    story.nodes(node("n", 1))
    story.happen(recalled(until_s=2, refusals=2))
    assert placed(story.arrive(pod("p", shape(1)))) == []
    assert placed(story.wait_s(1)) == []
    assert placed(story.wait_s(1)) == ["p"]
    assert pauses(story.refuse("p")) == [(3, 6 * S)]


@pytest.mark.parametrize(("refusals", "most_s"), [(-1, 1), (1, 1), (3, 4), (999_999, 60)])
def test_what_is_recalled_lasts_no_longer_than_a_pause_of_so_many_refusals(
    refusals: int, most_s: int
) -> None:
    story = Story()
    story.nodes(node("n", 1))
    story.happen(recalled(until_s=10_000, refusals=refusals))
    story.arrive(pod("p", shape(1)))
    assert placed(story.wait_s(most_s - 1)) == []
    assert placed(story.wait_s(1)) == ["p"]


def test_a_pause_that_is_over_before_the_pod_comes_is_none() -> None:
    story = Story()
    story.nodes(node("n", 1))
    story.happen(recalled(until_s=1))
    story.wait_s(1)
    assert placed(story.arrive(pod("p", shape(1)))) == ["p"]


def test_of_a_pod_that_left_nothing_is_recalled() -> None:
    story = Story()
    story.nodes(node("n", 1))
    story.happen(recalled(until_s=1))
    story.arrive(pod("p", shape(1)))
    story.depart("p")
    assert placed(story.arrive(pod("p", shape(1)))) == ["p"]
