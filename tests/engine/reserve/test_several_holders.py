"""Several holders are asked for their places again when something has happened, and not as time goes by."""

from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import Story, node, placed, pod, shape
from tests.engine.reserve.holders import holders, running, team

WAITS_FOR_S = 60
"""After so long work reserves a place."""
ONE_GPU: Shape = shape(1)


def two_holders(*, ends_after_s: int | None = None) -> Story:
    """Teams x and y of one node each hold it; their work there says how long it runs, or does not."""
    story = Story()
    story.nodes(node("a", 1), node("b", 1))
    story.queues(*(team(name, reserve_after_s=WAITS_FOR_S) for name in ("x", "y")))
    for name, where in (("x", "a"), ("y", "b")):
        story.run_on(running(f"old-{name}", ONE_GPU, for_s=ends_after_s, queue=name), where, f"{where}/0")
    story.arrive(*(pod(f"{name}1", ONE_GPU, queue=name) for name in ("x", "y")))
    story.wait_s(WAITS_FOR_S)
    # What came with the reservations is settled by one step more.
    story.wait_s(1)
    assert set(holders(story)) == {"x1", "y1"}
    return story


def changes(story: Story) -> int:
    """How often reservations were put aside, made or dropped."""
    return story.engine._reservations.version  # No decision tells that nothing was asked.


def test_time_alone_asks_no_holder_again() -> None:
    story = two_holders()
    before = changes(story)
    story.wait_s(30)
    assert changes(story) == before


def test_work_behind_a_holder_asks_none_again_when_it_has_waited_long_enough_itself() -> None:
    story = two_holders()
    story.arrive(pod("x2", ONE_GPU, queue="x"))
    story.wait_s(1)
    before = changes(story)
    story.wait_s(WAITS_FOR_S)
    assert (changes(story), set(holders(story))) == (before, {"x1", "y1"})


def test_an_end_that_is_known_may_be_over_so_all_are_asked() -> None:
    story = two_holders(ends_after_s=3600)
    before = changes(story)
    story.wait_s(30)
    assert changes(story) > before
    assert set(holders(story)) == {"x1", "y1"}


def test_a_place_that_falls_free_is_its_holders() -> None:
    story = two_holders()
    assert placed(story.depart("old-x")) == ["x1"]
    assert set(holders(story)) == {"y1"}
