"""Volumes: limits of nodes, claims for one pod, and claims that are bound with the place."""

import pytest

from gpufleet.engine.instruction import Bind
from gpufleet.engine.place.relations.place_choice import PlaceChoice
from gpufleet.model.identifiers import NodeName
from gpufleet.model.volumes import Attachment
from tests.engine.fleet_builder import Story, node, placed, pod, refused, shape
from tests.engine.relation_builder import (
    asking,
    claim,
    in_zone,
    on_node,
    place_of,
    volume,
    zoned,
)


def test_a_node_attaches_no_more_volumes_than_it_can() -> None:
    told = Story()
    told.nodes(node("n", volume_limits=(("disk", 2),)))
    said = told.arrive(
        *(pod(f"p{number}", asking(attachments=(Attachment("disk", f"v{number}"),))) for number in range(3))
    )
    assert placed(said) == ["p0", "p1"]
    assert told.explain("p2") == {"volume-limit": 1}
    assert placed(told.arrive(pod("shares", asking(attachments=(Attachment("disk", "v0"),))))) == ["shares"]
    assert placed(told.arrive(pod("other", asking(attachments=(Attachment("net", "v9"),))))) == ["other"]
    assert placed(told.depart("p0")) == [], "its volume is still used by another pod"
    assert placed(told.depart("shares")) == ["p2"]


def test_volumes_that_are_still_attached_take_places_too() -> None:
    told = Story()
    one, two = (Attachment("disk", name) for name in ("v1", "v2"))
    told.nodes(node("n", volume_limits=(("disk", 2),), attached=(one, Attachment("net", "v3"))))
    told.run_on(pod("theirs", asking(attachments=(one,))), "n")
    assert placed(told.arrive(pod("p", asking(attachments=(two,))))) == ["p"]
    told.depart("theirs")
    told.depart("p")
    assert refused(told.arrive(pod("both", asking(attachments=(two, Attachment("disk", "v4")))))) == ["both"]
    assert placed(told.nodes(node("n", volume_limits=(("disk", 2),)))) == ["both"]


def test_a_volume_that_is_attached_but_unused_counts_as_new_as_well() -> None:
    told = Story()
    volume_of_before = Attachment("disk", "v1")
    told.nodes(node("n", volume_limits=(("disk", 1),), attached=(volume_of_before,)))
    assert refused(told.arrive(pod("p", asking(attachments=(volume_of_before,))))) == ["p"]


def test_a_claim_for_one_pod_is_used_by_one_pod_in_the_whole_cluster() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    needs = asking(exclusive=("team/data",))
    said = told.arrive(pod("a", needs), pod("b", needs))
    assert placed(said) == ["a"]
    assert told.explain("b") == {"volume-in-use": 2}
    assert placed(told.depart("a")) == ["b"]


def test_a_claim_is_held_on_a_node_that_nobody_knows() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    needs = asking(exclusive=("team/data",))
    told.run_on(pod("theirs", needs), "nowhere")
    assert refused(told.arrive(pod("p", needs))) == ["p"]
    assert placed(told.depart("theirs")) == ["p"]


def bound_volumes(told: Story) -> dict[str, tuple[tuple[str, str], ...]]:
    """The volumes chosen for each pod."""
    return {one.uid: one.volumes for one in told.said if isinstance(one, Bind)}


def test_an_unbound_claim_takes_its_pod_to_a_volume() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.arrive(pod("p", asking(unbound=(claim("data", volume("pv", in_zone("y"))),))))
    assert place_of(told, "p") == "n1"
    assert bound_volumes(told) == {"p": (("data", "pv"),)}


def test_a_volume_that_was_given_away_is_not_given_again() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    said = told.arrive(
        pod("a", asking(unbound=(claim("a", volume("pv")),))),
        pod("b", asking(unbound=(claim("b", volume("pv")),))),
    )
    assert placed(said) == ["a"]
    assert told.explain("b") == {"volume-unbound": 1}
    assert placed(told.refuse("a")) == ["b"], "a bind that failed gives the volume back"


def test_a_volume_stays_chosen_while_its_node_is_away() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.arrive(pod("a", asking(unbound=(claim("a", volume("pv", on_node("n0"))),))))
    told.lose("n0")
    assert refused(told.arrive(pod("b", asking(unbound=(claim("b", volume("pv")),))))) == ["b"]


@pytest.mark.parametrize("elsewhere", ["n1", "nowhere"])
def test_a_volume_that_was_chosen_for_another_place_is_free_again(elsewhere: str) -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    one = pod("a", asking(unbound=(claim("a", volume("pv", on_node("n0"))),)))
    told.arrive(one, pod("b", asking(unbound=(claim("b", volume("pv")),))))
    assert place_of(told, "a") == "n0"
    assert placed(told.run_on(one, elsewhere)) == ["b"]


@pytest.mark.parametrize("elsewhere", ["n1", "nowhere"])
def test_it_is_free_again_even_if_its_node_is_away(elsewhere: str) -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    one = pod("a", asking(unbound=(claim("a", volume("pv", on_node("n0"))),)))
    told.arrive(one, pod("b", asking(unbound=(claim("b", volume("pv")),))))
    told.lose("n0")
    assert placed(told.run_on(one, elsewhere)) == ["b"]


def test_claims_of_a_pod_get_volumes_of_their_own_even_if_one_must_step_aside() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    greedy, picky = claim("greedy", volume("pv1"), volume("pv2")), claim("picky", volume("pv1"))
    told.arrive(pod("p", asking(unbound=(greedy, picky))))
    assert bound_volumes(told)["p"] == (("greedy", "pv2"), ("picky", "pv1"))
    assert refused(
        told.arrive(pod("q", asking(unbound=(claim("one", volume("pv3")), claim("two", volume("pv3"))))))
    ) == ["q"]


def test_what_has_no_volume_is_provisioned_where_that_is_possible() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    anywhere = claim("new", provision=(in_zone("y"),))
    told.arrive(pod("p", asking(unbound=(anywhere,))))
    assert (place_of(told, "p"), bound_volumes(told)["p"]) == ("n1", (("new", ""),))
    assert refused(told.arrive(pod("q", asking(unbound=(claim("none"),))))) == ["q"]


def test_pods_with_one_claim_go_where_its_volume_is() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", gpus=1))
    shared = claim("data", volume("local", on_node("n0")), volume("far", on_node("n1")))
    told.arrive(*(pod(uid, asking(gpus=1, unbound=(shared,))) for uid in "ab"))
    assert bound_volumes(told) == {"a": (("data", "local"),)}
    assert told.explain("b") == {"gpu-busy": 1, "volume-unbound": 1}
    fresh = claim("fresh", provision=(in_zone("y", "x"),))
    told.arrive(*(pod(uid, asking(unbound=(fresh,))) for uid in "cd"))
    assert place_of(told, "c") == place_of(told, "d")


def test_a_pod_goes_where_its_volumes_can_be_used_and_its_features_are_declared() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.arrive(pod("p", shape(volume_affinities=(in_zone("y"),))))
    assert place_of(told, "p") == "n1"
    assert refused(told.arrive(pod("q", shape(volume_affinities=(in_zone("y"), in_zone("x")))))) == ["q"]
    assert told.explain("q") == {"volume-affinity": 2}
    assert refused(told.arrive(pod("r", shape(features=("fast", "new"))))) == ["r"]
    assert told.explain("r") == {"feature": 2}
    assert placed(told.nodes(node("n2", features=("fast", "new", "other")))) == ["r"]


def test_what_was_chosen_for_a_pod_that_runs_goes_before_what_one_waits_for_that_is_nominated() -> None:
    """Rows 0 and 1 share a claim: one was nominated when it seemed free, the other still runs with it."""
    told = Story()
    told.nodes(node("n0"), node("n1"))
    claims = told.engine.state.neighbours.claims
    claims.is_nominated = lambda row: row == 0
    claims.keep(0, PlaceChoice(NodeName("n1"), (("c", "far"),)))
    claims.keep(1, PlaceChoice(NodeName("n0"), (("c", "near"),)))
    shared = (claim("c", volume("near", on_node("n0")), volume("far")),)
    assert [bool(reason) for reason in claims.reasons(shared)[:2]] == [False, True]
    assert claims.choose(shared, 0) == (("c", "near"),)
    claims.drop(1)
    assert [bool(reason) for reason in claims.reasons(shared)[:2]] == [False, False]
