"""Places that others still leave: kept for who needs them, given out when they are really free."""

import msgspec
import pytest

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.event import DeviceSet, EvictionRefusalRecalled, PodAdded, PodBound
from gpufleet.eviction.evictions import REFUSED_MOST_S
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import (
    SECOND_US,
    Story,
    device,
    evicted,
    gang,
    node,
    nominated,
    placed,
    pod,
    shape,
    share,
    withdrawn,
)
from tests.engine.relation_builder import app, asking, term, zoned


def of_team(uid: str, needs: Shape, *, priority: int = 0, gang: str | None = None) -> Pod:
    """A pod of the one queue that is described."""
    return pod(uid, needs, queue="team", priority=priority, gang=gang)


def story(*, gpus: int = 2, nodes: int = 1) -> Story:
    """A queue and some nodes."""
    told = Story()
    told.queue("team")
    told.nodes(*(node(f"n{number}", gpus) for number in range(nodes)))
    return told


def state(told: Story, uid: str) -> PodState:
    """Where a pod stands."""
    pods = told.engine.state.pods
    return pods.state(pods.row_by_uid[PodUid(uid)])


def ending(told: Story, *needs: Shape) -> None:
    """Pods that run, named a, b and so on, and are told to end."""
    uids = [chr(ord("a") + number) for number in range(len(needs))]
    told.arrive(*(of_team(uid, one) for uid, one in zip(uids, needs, strict=True)))
    assert set(uids) <= set(told.binds)
    told.told_to_end(*uids)


def kept_for(told: Story) -> list[str]:
    """For whom places are kept, the first nomination first."""
    return [one.holder for one in sorted(told.engine.kept_places(), key=lambda one: one.number)]


def test_a_place_that_is_being_left_is_kept_and_given_out_when_it_is_empty() -> None:
    told = story()
    ending(told, shape(2))
    said = told.arrive(of_team("next", shape(2)))
    assert nominated(said) == {"next": ("n0", ("a",))}
    assert (placed(said), evicted(said), state(told, "next")) == ([], {}, PodState.NOMINATED)
    assert told.engine.explain(PodUid("next")) is None
    assert placed(told.depart("a")) == ["next"]


def test_a_kept_place_is_taken_by_nobody_else() -> None:
    told = story()
    ending(told, shape(1), shape(1))
    told.arrive(of_team("next", shape(2)))
    assert placed(told.depart("a")) == []
    assert placed(told.arrive(of_team("thief", shape(1), priority=9))) == []
    assert placed(told.depart("b")) == ["next"]


def test_who_finds_room_that_is_really_free_does_not_wait() -> None:
    told = story(nodes=2)
    told.arrive(of_team("a", shape(2)))
    told.told_to_end("a")
    said = told.arrive(of_team("next", shape(2)))
    assert (placed(said), nominated(said)) == (["next"], {})


def test_a_place_waits_for_no_more_pods_than_it_must_and_takes_what_is_free_first() -> None:
    told = story(gpus=4)
    ending(told, shape(1), shape(1), shape(2))
    said = told.arrive(of_team("next", shape(1)))
    (_, waits_for) = nominated(said)["next"]
    assert len(waits_for) == 1
    others = sorted({"a", "b", "c"} - set(waits_for))
    assert placed(told.depart(others[0])) == ["next"]


def test_a_pod_is_bound_as_soon_as_what_it_needs_is_free_though_others_still_leave() -> None:
    told = Story()
    told.queue("team")
    # Each running pod has a GPU and 2 cores; 1 core is left, so both of the next must wait for a core.
    told.nodes(node("n0", 2, cpu_milli=5000))
    ending(told, shape(1, cpu_milli=2000), shape(1, cpu_milli=2000))
    said = told.arrive(of_team("x", shape(1, cpu_milli=2000)), of_team("y", shape(1, cpu_milli=3000)))
    assert set(nominated(said)["y"][1]) == {"a", "b"}, "at its worst, x runs while one of them still does"
    on = told.engine.state.pods
    taken = on.device_ids(on.row_by_uid[PodUid("x")])[0]
    first, second = ("a", "b") if taken == told.binds["a"][1][0] else ("b", "a")
    assert placed(told.depart(first)) == ["x"]
    assert placed(told.depart(second)) == ["y"]


def test_hosts_count_as_much_as_devices() -> None:
    told = Story()
    told.queue("team")
    told.nodes(node("n0", 1, cpu_milli=4000))
    ending(told, shape(cpu_milli=3000))
    said = told.arrive(of_team("next", shape(1, cpu_milli=2000)))
    assert nominated(said) == {"next": ("n0", ("a",))}, "the GPU is free, a core is not"
    assert placed(told.depart("a")) == ["next"]


def test_a_departing_pod_that_is_bound_where_it_was_changes_nothing() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    leaving = told.engine.state.pods.pod_at(told.engine.state.pods.row_by_uid[PodUid("a")])
    said = told.run_on(leaving, "n0", "n0/0", "n0/1")
    assert (placed(said), withdrawn(said), state(told, "next")) == ([], [], PodState.NOMINATED)
    assert placed(told.depart("a")) == ["next"]


def test_a_departing_pod_that_turns_out_to_run_elsewhere_leaves_its_place_at_once() -> None:
    told = story(nodes=1)
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    leaving = told.engine.state.pods.pod_at(told.engine.state.pods.row_by_uid[PodUid("a")])
    assert placed(told.run_on(leaving, "far away", "f/0", "f/1")) == ["next"]


def test_somebody_elses_pod_on_the_node_ends_the_nomination() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    said = told.run_on(of_team("foreign", shape(1)), "n0", "n0/0")
    assert withdrawn(said) == ["next"]
    assert state(told, "next") is PodState.WAITING
    assert placed(told.depart("a")) == []
    assert placed(told.depart("foreign")) == ["next"]


def test_a_node_that_changes_and_still_suits_keeps_the_place() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    said = told.nodes(node("n0", 2, cpu_milli=32_000))
    assert nominated(said) == {"next": ("n0", ("a",))}
    assert withdrawn(said) == []
    assert placed(told.depart("a")) == ["next"]


def test_a_node_that_changes_leaves_nominations_in_their_order() -> None:
    told = story(gpus=1)
    ending(told, shape(1))
    told.nodes(node("n1", 1))
    told.arrive(of_team("b", shape(1)))
    told.told_to_end("b")
    told.arrive(of_team("first", shape(1)), of_team("second", shape(1)))
    (of_first, _) = nominated(told.said)["first"]
    assert kept_for(told) == ["first", "second"]
    told.nodes(node(of_first, 1, cpu_milli=32_000))
    assert kept_for(told) == ["first", "second"]


def test_a_node_that_shrinks_ends_the_nomination() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    said = told.nodes(node("n0", 1))
    assert (withdrawn(said), evicted(said)) == (["next"], {})
    assert placed(told.depart("a")) == []
    assert placed(told.nodes(node("n0", 2))) == ["next"]


def test_a_node_that_vanishes_takes_the_place_with_it() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    assert withdrawn(told.lose("n0")) == ["next"]
    assert nominated(told.nodes(node("n0", 2))) == {"next": ("n0", ("a",))}
    assert placed(told.depart("a")) == ["next"]


def test_a_device_that_falls_sick_ends_the_nomination() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    said = told.happen(DeviceSet(NodeName("n0"), device("n0/1", healthy=False)))
    assert withdrawn(said) == ["next"]
    assert placed(told.depart("a")) == []
    assert placed(told.happen(DeviceSet(NodeName("n0"), device("n0/1")))) == ["next"]


def test_a_beneficiary_that_is_deleted_frees_the_place_for_others() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)), of_team("last", shape(2)))
    assert nominated(told.depart("next")) == {"last": ("n0", ("a",))}
    assert placed(told.depart("a")) == ["last"]


def test_a_beneficiary_that_is_described_anew_is_decided_anew() -> None:
    told = story()
    ending(told, shape(1), shape(1))
    told.arrive(of_team("next", shape(2)))
    said = told.happen(PodAdded(of_team("next", shape(1))))
    assert len(nominated(said)["next"][1]) == 1
    assert placed(told.depart(*nominated(said)["next"][1])) == ["next"]


def test_a_pod_that_is_said_to_stay_after_all_keeps_its_place() -> None:
    told = story()
    ending(told, shape(2))
    told.arrive(of_team("next", shape(2)))
    said = told.happen(PodAdded(of_team("a", shape(2))))
    assert withdrawn(said) == ["next"]
    assert state(told, "next") is PodState.WAITING


def test_a_nominated_pod_that_somebody_else_binds_is_where_it_is() -> None:
    told = story(nodes=2)
    ending(told, shape(2), shape(2))
    told.arrive(of_team("next", shape(2)))
    said = told.run_on(of_team("next", shape(2)), "n1", "n1/0", "n1/1")
    assert (withdrawn(said), state(told, "next")) == ([], PodState.BOUND)
    assert placed(told.depart("a", "b")) == []


def test_a_nominated_pod_moves_to_room_that_is_free_though_its_victim_never_ends() -> None:
    told = story()
    told.arrive(of_team("stuck", shape(2)))
    said = told.arrive(of_team("next", shape(2), priority=5))
    assert evicted(said) == {"stuck": "next"}
    told.told_to_end("stuck")
    for _ in range(3):
        assert evicted(told.wait_s(600)) == {}, "no second round of victims"
    said = told.nodes(node("n1", 2))
    assert placed(said) == ["next"]
    assert told.binds["next"][0] == "n1"


def test_a_refused_eviction_puts_everything_back_and_is_not_asked_again_before_its_time() -> None:
    told = story()
    told.arrive(of_team("low", shape(2)))
    assert evicted(told.arrive(of_team("next", shape(2), priority=5))) == {"low": "next"}
    said = told.refuse_eviction("low", for_s=10)
    assert (withdrawn(said), evicted(said)) == (["next"], {})
    assert state(told, "next") is PodState.WAITING
    assert evicted(told.wait_s(9)) == {}
    assert evicted(told.wait_s(1)) == {"low": "next"}
    assert placed(told.depart("low")) == ["next"]


def test_a_refusal_that_comes_after_the_pod_began_to_end_changes_nothing() -> None:
    told = story()
    told.arrive(of_team("low", shape(2)))
    told.arrive(of_team("next", shape(2), priority=5))
    told.told_to_end("low")
    assert withdrawn(told.refuse_eviction("low", "nobody")) == []
    assert placed(told.depart("low")) == ["next"]


def test_a_bind_that_is_refused_while_the_pod_is_evicted_frees_its_place() -> None:
    told = story()
    told.arrive(of_team("low", shape(2)))
    told.arrive(of_team("next", shape(2), priority=5))
    assert placed(told.refuse("low")) == ["next"]


def pair(name: str, count: int, needs: Shape) -> list[Pod]:
    """Members of a gang."""
    return [of_team(f"{name}-{number}", needs, gang=name) for number in range(count)]


def test_a_gang_is_nominated_and_bound_as_one() -> None:
    told = story(nodes=2)
    ending(told, shape(2), shape(2))
    told.gangs(gang("g", 2, queue="team"))
    said = told.arrive(*pair("g", 2, shape(2)))
    assert set(nominated(said)) == {"g-0", "g-1"}
    assert placed(told.depart("a")) == [], "one of them alone is of no use"
    assert placed(told.depart("b")) == ["g-0", "g-1"]


def test_members_above_the_minimum_wait_until_the_gang_runs() -> None:
    told = story(nodes=2)
    ending(told, shape(2), shape(2))
    told.gangs(gang("g", 1, queue="team"))
    said = told.arrive(*pair("g", 2, shape(2)))
    assert len(nominated(said)) == 1, "nobody keeps a place for more than the minimum"
    assert len(placed(told.depart("a", "b"))) == 2


def test_a_gang_with_one_stuck_victim_moves_as_a_whole() -> None:
    told = story(nodes=2)
    ending(told, shape(2), shape(2))
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(*pair("g", 2, shape(2)))
    told.depart("a")
    said = told.nodes(node("n2", 2))
    assert sorted(placed(said)) == ["g-0", "g-1"]
    assert told.binds["g-0"][0] != told.binds["g-1"][0]
    assert "n1" not in {told.binds["g-0"][0], told.binds["g-1"][0]}, "b still runs there"


def test_a_gang_that_loses_a_member_is_decided_anew() -> None:
    told = story(nodes=2)
    ending(told, shape(2), shape(2))
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(*pair("g", 3, shape(2)))
    lost = next(uid for uid in ("g-0", "g-1", "g-2") if state(told, uid) is PodState.NOMINATED)
    said = told.depart(lost)
    assert len(nominated(said)) == 2
    assert withdrawn(told.gangs(gang("g", 3, queue="team"))) != []
    assert placed(told.depart("a", "b")) == []


def test_shares_of_a_device_wait_for_the_shares_that_they_need() -> None:
    told = story(gpus=1)
    ending(told, share(600), share(400))
    said = told.arrive(of_team("small", share(400)), of_team("large", share(600)))
    assert nominated(said)["small"][1] in {("a",), ("b",)}
    assert sorted(placed(told.depart("a", "b"))) == ["large", "small"]


@pytest.mark.parametrize(("priority", "kept"), [(9, {"next": ("n0", ("a",))}), (0, {})])
def test_outside_of_queues_a_place_is_kept_by_priority_alone(
    priority: int, kept: dict[str, tuple[str, tuple[str, ...]]]
) -> None:
    told = Story()
    told.nodes(node("n0", 2))
    told.arrive(pod("a", shape(2)))
    told.told_to_end("a")
    said = told.arrive(pod("next", shape(2), priority=priority))
    assert (nominated(said), evicted(said)) == (kept, {})
    assert placed(told.depart("a")) == ["next"]


def in_one_zone(apart_from: str, *, own: str = "a") -> Story:
    """Two nodes of a zone; on the first "next" waits for "leaver", and keeps away from an app in its zone."""
    told = Story()
    told.queue("team")
    told.nodes(*zoned("z", "z", gpus=1))
    told.arrive(of_team("leaver", shape(1)))
    told.told_to_end("leaver")
    told.run_on(of_team("other", shape(1)), *away_from(told, "leaver"))
    needs = asking(own, gpus=1, anti_affinity=(term(apart_from),))
    said = told.arrive(msgspec.structs.replace(of_team("next", needs), labels=app(own)))
    assert nominated(said) == {"next": (told.binds["leaver"][0], ("leaver",))}
    return told


def away_from(told: Story, uid: str) -> tuple[str, str]:
    """The node on which this pod is not, and its GPU."""
    name = "n1" if told.binds[uid][0] == "n0" else "n0"
    return name, f"{name}/0"


def test_who_came_into_the_zone_since_keeps_a_nominated_pod_from_being_bound() -> None:
    told = in_one_zone("x")
    elsewhere, _ = away_from(told, "leaver")
    stranger = msgspec.structs.replace(of_team("stranger", shape(cpu_milli=1)), labels=app("x"))
    assert withdrawn(told.run_on(stranger, elsewhere)) == [], "the place itself is as it was"
    said = told.depart("leaver")
    assert (placed(said), withdrawn(said)) == ([], ["next"])
    assert placed(told.depart("stranger")) == ["next"]


def test_who_came_since_and_keeps_others_away_does_so_too() -> None:
    told = in_one_zone("x")
    elsewhere, _ = away_from(told, "leaver")
    needs = asking("y", anti_affinity=(term("a"),))
    told.run_on(msgspec.structs.replace(of_team("shy", needs), labels=app("y")), elsewhere)
    assert placed(told.depart("leaver")) == []
    assert placed(told.depart("shy")) == ["next"]


def test_who_came_since_and_is_of_no_concern_keeps_nobody_out() -> None:
    told = in_one_zone("x")
    elsewhere, _ = away_from(told, "leaver")
    told.run_on(msgspec.structs.replace(of_team("harmless", shape(cpu_milli=1)), labels=app("y")), elsewhere)
    assert placed(told.depart("leaver")) == ["next"]


def test_a_gang_of_which_one_member_is_kept_out_by_who_came_since_is_not_bound_in_part() -> None:
    told = Story()
    told.queue("team")
    told.nodes(*zoned("y", "z", "z", gpus=1))
    told.arrive(*(of_team(uid, shape(1)) for uid in "abc"))
    told.told_to_end("a", "b", "c")
    told.gangs(gang("g", 2, queue="team"))
    needs = asking("a", gpus=1, anti_affinity=(term("a", "x"),))
    said = told.arrive(*(msgspec.structs.replace(one, labels=app("a")) for one in pair("g", 2, needs)))
    assert len(nominated(said)) == 2, "one in each zone"
    (free,) = {"n1", "n2"} - {place for place, _ in nominated(said).values()}
    told.run_on(msgspec.structs.replace(of_team("stranger", shape(cpu_milli=1)), labels=app("x")), free)
    assert placed(told.depart("a", "b", "c")) == []
    assert sorted(placed(told.depart("stranger"))) == ["g-0", "g-1"]


def test_a_refusal_from_before_a_restart_holds_until_its_time() -> None:
    told = story(gpus=1)
    told.happen(PodBound(of_team("low", shape(1)), NodeName("n0")))
    told.happen(EvictionRefusalRecalled(PodUid("low"), told.at_us + 30 * SECOND_US))
    assert evicted(told.arrive(of_team("high", shape(1), priority=100))) == {}
    assert evicted(told.wait_s(29)) == {}
    assert set(evicted(told.wait_s(1))) == {"low"}


def test_no_refusal_from_before_a_restart_holds_for_longer_than_the_longest_that_there_is() -> None:
    told = story(gpus=1)
    told.happen(PodBound(of_team("low", shape(1)), NodeName("n0")))
    told.happen(EvictionRefusalRecalled(PodUid("low"), told.at_us + 10**9 * SECOND_US))
    told.arrive(of_team("high", shape(1), priority=100))
    assert evicted(told.wait_s(int(REFUSED_MOST_S) - 1)) == {}
    # At most a second is added, because times are written down in whole ones.
    assert set(evicted(told.wait_s(2))) == {"low"}


def test_a_refusal_from_before_a_restart_counts_for_no_pod_that_leaves_or_is_unknown() -> None:
    told = story(gpus=1)
    ending(told, shape(1))
    until_us = told.at_us + 30 * SECOND_US
    told.happen(*(EvictionRefusalRecalled(PodUid(uid), until_us) for uid in ("a", "unknown")))
    assert told.engine.state.departures.refused_until_us == {}
    assert nominated(told.arrive(of_team("next", shape(1)))) == {"next": ("n0", ("a",))}


def test_a_pod_that_is_told_to_end_and_whose_bind_is_refused_starts_no_more() -> None:
    told = story(gpus=4)
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(of_team("alone", shape(1)), *(of_team(uid, shape(1), gang="g") for uid in ("one", "two")))
    told.told_to_end("alone", "one")
    told.refuse("alone", "one")
    assert placed(told.wait_s(60)) == []
    assert placed(told.arrive(of_team("three", shape(1), gang="g"))) == ["three"], "its gang goes on without"
    assert placed(told.depart("alone", "one")) == []
