"""What people are told of reservations."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.explanations.reservation_words import moment_words
from gpufleet.engine.explanations.sentences import explain
from gpufleet.model.identifiers import PodUid
from tests.engine.fleet_builder import Story, gang, members, node, pod, shape
from tests.engine.reserve.holders import guest, running, team

BEGIN = dt.datetime(2001, 9, 10, tzinfo=dt.UTC)
END = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


@given(st.datetimes(BEGIN.replace(tzinfo=None), END.replace(tzinfo=None), timezones=st.just(dt.UTC)))
def test_a_moment_is_told_in_utc(moment: dt.datetime) -> None:
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    at_us = since // dt.timedelta(microseconds=1)
    assert moment_words(at_us) == f"at {moment:%H:%M} UTC on {moment.year:04}-{moment:%m-%d}"


def test_a_moment_of_virtual_time_is_told_from_the_beginning() -> None:
    assert moment_words(90_500_000) == "after 90.5 s"


def test_who_waits_hears_whose_reservation_it_is_and_until_when() -> None:
    story = Story()
    story.nodes(node("a", 1), node("b", 1))
    story.queues(team())
    story.run_on(running("old", shape(1), for_s=60), "a", "a/0")
    story.gangs(gang("g", 2, queue="team"))
    story.arrive(*members("g", 2, shape(1)))
    story.arrive(pod("small", shape(1), queue="team"))
    kept_off = story.engine.explain(PodUid("small"))
    assert kept_off is not None
    assert kept_off.kept_off_by is not None
    assert explain(kept_off, shape(1)).split("; ")[1:3] == [
        "waits for gang g of queue team, which holds a reservation of 2 nodes, expected to start after 60 s",
        "work with a run time that ends before, or that may be interrupted, may run there",
    ]
    holder = story.engine.explain(PodUid("g-0"))
    assert holder is not None
    assert explain(holder, shape(1)).split("; ")[1] == (
        "holds a reservation of 2 nodes, expected to start after 60 s"
    )


def test_the_holder_hears_how_many_guests_end_for_it() -> None:
    story = Story()
    story.nodes(node("a", 3))
    story.queues(team())
    story.run_on(running("old", shape(1), for_s=60), "a", "a/0")
    story.arrive(pod("large", shape(3), queue="team"))
    for number, words in enumerate(("1 guest ends for its sake", "2 guests end for its sake")):
        story.arrive(guest(f"g{number}", shape(1)))
        holder = story.engine.explain(PodUid("large"))
        assert holder is not None
        assert explain(holder, shape(3)).split("; ")[1:3] == [
            "holds a reservation of 1 node, expected to start after 60 s",
            f"{words} as soon as it can start",
        ]
