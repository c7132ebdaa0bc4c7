"""A place that is only kept for a pod keeps others off, and lets nobody in for the sake of that pod."""

import msgspec

from gpufleet.engine.instruction import Nominated
from gpufleet.model.shape import Shape
from gpufleet.model.volumes import Attachment
from tests.engine.fleet_builder import Story, gang, members, nominated, placed, pod, refused, shape, withdrawn
from tests.engine.relation_builder import (
    HOST,
    ZONE,
    app,
    asking,
    claim,
    of,
    place_of,
    related,
    spread,
    term,
    volume,
    zoned,
)
from tests.engine.reserve.holders import holders, team

FOLLOWER = asking(affinity=(term("a"),))


def reserved_on_n0(needs: Shape | None = None) -> Story:
    """Two zones; "coming", of app a, waits on n0 until "old" has ended there."""
    story = Story()
    story.nodes(*zoned("x", gpus=2), *zoned(None, "y", gpus=1)[1:])
    story.queues(team())
    story.run_on(pod("old", shape(1), queue="team"), "n0", "n0/0")
    one = pod("coming", needs or shape(2), queue="team", labels=app("a"))
    story.arrive(one)
    assert holders(story) == ["coming"]
    return story


def test_no_pod_is_near_a_pod_that_holds_only_a_reservation() -> None:
    story = reserved_on_n0()
    assert placed(story.arrive(pod("follows", FOLLOWER))) == []
    assert placed(story.depart("old")) == ["coming", "follows"]
    assert place_of(story, "follows") == "n0"


def test_no_member_of_a_gang_starts_near_a_pod_that_is_not_there() -> None:
    story = reserved_on_n0()
    story.gangs(gang("g", 2))
    assert placed(story.arrive(*members("g", 2, FOLLOWER))) == []
    assert placed(story.depart("old")) == ["coming", "g-0", "g-1"]


def test_no_pod_is_near_a_pod_that_is_nominated() -> None:
    story = Story()
    story.nodes(*zoned("x", "y", gpus=1))
    story.queues(team())
    for number in range(2):
        story.run_on(pod(f"old{number}", shape(1), queue="team"), f"n{number}", f"n{number}/0")
    said = story.arrive(pod("coming", shape(1), queue="team", priority=1, labels=app("a")))
    (kept,) = (one for one in said if isinstance(one, Nominated))
    assert placed(story.arrive(pod("follows", FOLLOWER))) == []
    assert placed(story.depart(*kept.waits_for)) == ["coming", "follows"]
    assert place_of(story, "follows") == kept.node


def test_the_next_of_a_group_goes_where_the_place_of_the_first_is_kept() -> None:
    group = related("a", affinity=(term("a"),))
    story = reserved_on_n0(shape(2, relations=group))
    story.arrive(of("next", "a", shape(relations=group)))
    assert place_of(story, "next") == "n0"
    assert placed(story.depart("old")) == ["coming"]


def test_who_avoids_a_pod_keeps_off_the_place_that_is_kept_for_it() -> None:
    story = reserved_on_n0()
    story.arrive(pod("shy", asking(anti_affinity=(term("a"),))))
    assert place_of(story, "shy") == "n1"


def test_a_pod_that_is_not_there_makes_no_zone_fuller() -> None:
    """One in y and one to come in x: a second one in y would be two above x if that never comes."""
    even = related("a", spread=(spread("a", honor_affinity=False),))
    story = reserved_on_n0()
    story.run_on(of("there", "a"), "n1")
    story.arrive(of("second", "a", shape(relations=even, selector=((HOST, "n1"),))))
    assert "second" not in story.binds
    assert placed(story.depart("old")) == ["coming", "second"]


def test_a_pod_that_is_not_there_fills_its_zone_all_the_same() -> None:
    """One to come in x and nobody in y: one more in x would be two above y."""
    even = related("a", spread=(spread("a"),))
    story = reserved_on_n0()
    story.arrive(of("second", "a", shape(relations=even)))
    assert place_of(story, "second") == "n1"


def test_a_volume_that_comes_with_a_pod_that_is_not_there_is_new_to_the_node() -> None:
    """n0 attaches one volume, which it does for "old"; "coming" brings another in its stead."""
    story = Story()
    story.nodes(*zoned("x", gpus=1, volume_limits=(("disk", 1),)))
    story.queues(team())
    old = asking(gpus=1, attachments=(Attachment("disk", "v1"),))
    story.run_on(pod("old", old, queue="team"), "n0", "n0/0")
    shares = (Attachment("disk", "v2"),)
    story.arrive(pod("coming", asking(gpus=1, attachments=shares), queue="team"))
    assert holders(story) == ["coming"]
    assert placed(story.arrive(pod("shares", asking(attachments=shares)))) == []
    assert placed(story.depart("old")) == ["coming", "shares"]


def test_a_volume_that_is_kept_for_a_claim_is_not_there_for_it_while_another_pod_has_it() -> None:
    """When "old" has ended, "coming" gets the volume, and "shares" too, by the same claim."""
    story = Story()
    story.nodes(*zoned("x"))
    story.queues(team())
    only = volume("v")
    story.arrive(pod("old", asking(unbound=(claim("c1", only),)), queue="team"))
    story.arrive(pod("coming", asking(unbound=(claim("c2", only),)), queue="team"))
    assert holders(story) == ["coming"]
    assert refused(story.arrive(pod("shares", asking(unbound=(claim("c2", only),))))) == ["shares"]
    assert story.explain("shares") == {"volume-unbound": 1}
    assert placed(story.depart("old")) == ["coming", "shares"]


def test_members_that_want_to_be_together_wait_and_start_together() -> None:
    """Their places are kept for them in one attempt, so each may count on the others."""
    story = Story()
    story.nodes(*zoned("x", gpus=2))
    story.queues(team())
    story.run_on(pod("old", shape(1), queue="team"), "n0", "n0/0")
    story.gangs(gang("g", 2, queue="team"))
    needs = asking("g", gpus=1, affinity=(term("g"),))
    story.arrive(*(msgspec.structs.replace(one, labels=app("g")) for one in members("g", 2, needs)))
    assert holders(story) == ["g"]
    assert placed(story.depart("old")) == ["g-0", "g-1"]


def test_a_kept_place_is_judged_anew_where_labels_of_another_node_make_it_uneven() -> None:
    """Both nodes are one zone, so any place is even; then one zone has a pod more than the other may."""
    told = Story()
    told.nodes(*zoned("x", "x", gpus=1))
    told.run_on(pod("other", shape(1), preemptible=False), "n0", "n0/0")
    told.run_on(pod("low", shape(1)), "n1", "n1/0")
    told.run_on(msgspec.structs.replace(of("first", "web"), preemptible=False), "n1")
    needs = asking("web", spread=(spread("web"),), gpus=1)
    high = msgspec.structs.replace(of("high", "web", needs), priority=10)
    assert nominated(told.arrive(high)) == {"high": ("n1", ("low",))}
    moved = msgspec.structs.replace(zoned("x", "x", gpus=1)[0], labels={HOST: "n0", ZONE: "y"})
    assert withdrawn(told.nodes(moved)) == ["high"]
