"""Gangs whose members ask something of each other, gangs with roles, and gangs that go on."""

from gpufleet.engine import event
from gpufleet.engine.explanations.sentences import explain_gang, explain_unknown_gang
from gpufleet.engine.instruction import GangUnknown, GangUnschedulable
from gpufleet.model.host_port import HostPort
from gpufleet.model.identifiers import GangName
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from tests.engine.arrays.test_journal import snapshot
from tests.engine.fleet_builder import Story, gang, members, node, placed, pod, refused, shape
from tests.engine.relation_builder import HOST, ZONE, app, asking, claim, spread, term, volume, zoned


def troop(count: int, needs: Shape, own: str = "g", first: int = 0) -> list[Pod]:
    """Members of gang "g" that are pods of one app."""
    return [pod(f"{own}{number}", needs, gang="g", labels=app(own)) for number in range(first, first + count)]


def places(told: Story) -> list[str]:
    """The nodes that were given out."""
    return [place for place, _ in told.binds.values()]


def test_members_that_avoid_each_other_start_on_nodes_of_their_own_or_not_at_all() -> None:
    told = Story()
    told.nodes(*zoned("x", "x", "y"))
    told.gangs(gang("g", 4))
    needs = asking("g", gpus=1, anti_affinity=(term("g", key=HOST),))
    before = snapshot(told.engine.state.store.tables)["devices"]
    assert refused(told.arrive(*troop(4, needs))) == ["g"]
    assert snapshot(told.engine.state.store.tables)["devices"] == before
    assert told.engine.state.neighbours.equivalence_classes.barrier_count == 0
    told.nodes(node("n3", 8, labels={HOST: "n3"}))
    assert sorted(places(told)) == ["n0", "n1", "n2", "n3"]


def test_members_that_are_spread_start_together() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.gangs(gang("g", 6))
    told.arrive(*troop(6, asking("g", gpus=1, spread=(spread("g"),))))
    assert sorted(places(told)) == ["n0"] * 3 + ["n1"] * 3


def test_members_that_want_to_be_together_find_a_domain_that_holds_them_all() -> None:
    told = Story()
    told.nodes(
        node("small", 2, labels={ZONE: "x"}),
        node("large", 8, labels={ZONE: "y"}),
        node("larger", 8, labels={ZONE: "z"}),
        node("larger still", 8, labels={ZONE: "z"}),
    )
    told.gangs(gang("g", 4))
    told.arrive(*troop(4, asking("g", gpus=1, affinity=(term("g"),))))
    assert places(told) == ["large"] * 4


def test_members_wait_for_each_others_labels_whatever_their_size() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.gangs(gang("g", 3))
    workers = troop(2, asking("worker", gpus=4, affinity=(term("leader"),)), "worker")
    said = told.arrive(*workers, *troop(1, asking("leader"), "leader"))
    assert sorted(placed(said)) == ["leader0", "worker0", "worker1"]
    assert len(set(places(told))) == 1


def test_a_gang_is_woken_by_the_pod_its_members_must_be_near() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.gangs(gang("g", 2))
    assert refused(told.arrive(*troop(2, asking("g", affinity=(term("db"),))))) == ["g"]
    assert placed(told.arrive(pod("db", labels=app("db")))) == ["db", "g0", "g1"]


def test_a_plain_gang_keeps_away_from_who_avoids_it() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.run_on(pod("shy", asking(anti_affinity=(term("g"),))), "n0")
    told.gangs(gang("g", 2))
    told.arrive(*troop(2, shape(1)))
    assert places(told) == ["n1", "n1"]


def test_members_share_no_port_and_no_volume() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.gangs(gang("g", 3))
    ported = troop(2, asking(ports=(HostPort(80),)))
    taken = [pod("v0", asking(unbound=(claim("c0", volume("pv")),)), gang="g")]
    assert len(placed(told.arrive(*ported, *taken))) == 3
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.gangs(gang("g", 2))
    both = [
        pod(f"v{number}", asking(unbound=(claim(f"c{number}", volume("pv")),)), gang="g")
        for number in range(2)
    ]
    assert refused(told.arrive(*both)) == ["g"]


# Roles.


def cast(**counts: int) -> list[Pod]:
    """Members of gang "g" by role, with a GPU each."""
    return [
        pod(f"{role}{number}", shape(1), gang="g", role=role)
        for role, count in counts.items()
        for number in range(count)
    ]


def test_a_gang_waits_for_every_role() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.gangs(gang("g", 3, roles=(("leader", 1), ("worker", 2))))
    (said,) = told.arrive(*cast(worker=4))
    assert isinstance(said, GangUnschedulable)
    assert (said.role, said.arrived, said.verdict) == ("leader", 4, None)
    assert explain_gang(said, None) == (
        "gang g needs 3 members at once, and it is short of members with the role leader: 4 have arrived"
    )
    assert sorted(placed(told.arrive(*cast(leader=1)))) == [
        "leader0",
        "worker0",
        "worker1",
        "worker2",
        "worker3",
    ]


def test_members_of_roles_that_are_short_go_first() -> None:
    told = Story()
    told.gangs(gang("g", 2, roles=(("leader", 1), ("worker", 1))))
    told.arrive(*cast(worker=4), *cast(leader=1))
    assert placed(told.nodes(node("n", 2))) == ["leader0", "worker0"]


def test_the_role_without_room_is_named() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.gangs(gang("g", 2, roles=(("leader", 1), ("worker", 1))))
    leader = pod("leader0", shape(4), gang="g", role="leader")
    (said,) = told.arrive(*cast(worker=3), leader)
    assert isinstance(said, GangUnschedulable)
    assert said.role == "leader"
    assert said.verdict is not None
    assert said.verdict.first_reasons == {"gpu-count": 1}


def test_minimums_of_roles_hold_even_if_the_gangs_own_is_smaller() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.gangs(gang("g", 1, roles=(("leader", 1), ("worker", 2))))
    assert refused(told.arrive(*cast(worker=2, leader=1))) == ["g"]
    assert len(placed(told.nodes(node("m", 1)))) == 3


# Gangs that have started.


def test_what_is_left_of_a_gang_that_has_started_runs_though_it_is_less_than_the_minimum() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 3))
    told.arrive(*members("g", 4, shape(1)))
    assert "g-3" not in told.binds
    assert placed(told.depart("g-0", "g-1")) == ["g-3"]


def test_a_gang_of_which_nobody_runs_begins_anew() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 3))
    told.arrive(*members("g", 4, shape(1)))
    assert placed(told.depart("g-0", "g-1", "g-2")) == []
    assert len(placed(told.arrive(*members("g", 2, shape(1))))) == 3


def test_a_gang_that_is_half_bound_by_others_still_needs_the_rest_together() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.gangs(gang("g", 3))
    told.run_on(members("g", 1, shape(1))[0], "n", "n/0")
    late = members("g", 3, shape(1))[1:]
    assert placed(told.arrive(late[0])) == []
    assert placed(told.arrive(late[1])) == ["g-1", "g-2"]


# Gangs that nobody described.


def test_members_of_a_gang_that_nobody_described_are_told_so_once() -> None:
    told = Story()
    told.nodes(node("n", 8))
    (said,) = told.arrive(*members("g", 2, shape(1)))
    assert said == GangUnknown(GangName("g"), 2)
    assert explain_unknown_gang(said) == "gang g is not described; 2 pods wait for it to be created"
    assert told.arrive(pod("late", shape(1), gang="g")) == []
    assert len(placed(told.gangs(gang("g", 3)))) == 3
    told.happen(event.GangRemoved(GangName("g")))
    assert told.arrive(pod("later", shape(1), gang="g")) == [GangUnknown(GangName("g"), 4)]


# Pods that are described anew.


def test_a_waiting_pod_that_is_described_anew_keeps_its_turn() -> None:
    told = Story()
    told.arrive(pod("a", shape(2)), pod("b", shape(1)))
    told.arrive(pod("a", shape(1)))
    assert placed(told.nodes(node("n", 1))) == ["a"]


def test_a_waiting_pod_that_is_described_anew_goes_by_what_it_says_now() -> None:
    told = Story()
    told.nodes(node("n", cpu_milli=2000))
    told.arrive(*(pod(uid, shape(cpu_milli=3000)) for uid in "abc"))
    told.arrive(pod("b", shape(cpu_milli=6000)))
    assert placed(told.nodes(node("n", cpu_milli=8000))) == ["a", "c"], "b does not fit beside them any more"
    assert placed(told.depart("a")) == []
    assert placed(told.depart("c")) == ["b"]


def test_a_waiting_pod_that_is_described_anew_takes_the_turn_that_it_says_now() -> None:
    told = Story()
    told.arrive(*(pod(uid, shape(1), priority=1) for uid in "abc"))
    told.arrive(pod("b", shape(1)))
    assert placed(told.nodes(node("n", 3))) == ["a", "c", "b"]


def test_a_line_ends_with_its_last_pod_also_if_that_turns_out_to_run() -> None:
    told = Story()
    told.nodes(node("n", cpu_milli=2000))
    told.arrive(pod("a", shape(cpu_milli=3000)))
    told.run_on(pod("a", shape(cpu_milli=3000)), "elsewhere")
    assert told.engine.state.waiting.lines == {}


def test_a_member_that_is_described_anew_stays_with_its_gang() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.gangs(gang("g", 2))
    told.arrive(*members("g", 2, shape(2)))
    assert placed(told.arrive(*members("g", 2, shape(1)))) == ["g-0", "g-1"]


def test_a_waiting_pod_may_join_another_gang() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.gangs(gang("g", 2), gang("h", 2))
    told.arrive(pod("a", shape(1), gang="g"), pod("b", shape(1), gang="h"))
    assert placed(told.arrive(pod("a", shape(1), gang="h"))) == ["a", "b"] or placed(told.said) == ["b", "a"]


def test_a_running_pod_whose_amounts_change_is_booked_so() -> None:
    told = Story()
    told.nodes(node("n", cpu_milli=4000))
    told.run_on(pod("grows", shape(cpu_milli=1000)), "n")
    told.arrive(pod("grows", shape(cpu_milli=3500)))
    assert refused(told.arrive(pod("late", shape(cpu_milli=1000)))) == ["late"]
    assert placed(told.arrive(pod("grows", shape(cpu_milli=500)))) == ["late"]


def test_a_member_beyond_the_minimum_is_told_in_the_step_in_which_its_gang_starts_without_it() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.gangs(gang("g", 2))
    said = told.arrive(*troop(3, asking("g", gpus=1, anti_affinity=(term("g", key=HOST),))))
    assert placed(said) == ["g0", "g1"]
    (refusal,) = (one for one in said if isinstance(one, GangUnschedulable))
    assert (refusal.arrived, refusal.placeable) == (3, 2)
    assert refusal.verdict is not None
    assert refusal.verdict.all_reasons["pod-anti-affinity"] == 2
    assert refused(told.happen()) == []
