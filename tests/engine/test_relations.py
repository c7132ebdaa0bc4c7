"""The rules by which pods decide about each other's places, one by one, as Kubernetes documents them."""

import msgspec

from gpufleet.engine import event
from gpufleet.model.host_port import HostPort
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.relations import Relations
from gpufleet.model.taint import Taint
from gpufleet.model.topology_spread import SpreadConstraint
from tests.engine.fleet_builder import Story, node, placed, pod, refused, shape
from tests.engine.relation_builder import (
    EVERYBODY,
    HOST,
    ZONE,
    asking,
    in_zone,
    of,
    place_of,
    related,
    spread,
    term,
    zoned,
)

# Ports.


def test_a_port_is_taken_once_a_node() -> None:
    told = Story()
    told.nodes(*zoned("x", "x"))
    web = asking(ports=(HostPort(80),))
    told.arrive(pod("a", web), pod("b", web))
    assert {place_of(told, "a"), place_of(told, "b")} == {"n0", "n1"}
    assert refused(told.arrive(pod("c", web))) == ["c"]
    assert told.explain("c") == {"ports": 2}
    assert placed(told.depart("a")) == ["c"]


def test_a_port_of_another_protocol_or_address_is_another_port() -> None:
    told = Story()
    told.nodes(node("n"))
    ports = (
        HostPort(53),
        HostPort(53, "UDP"),
        HostPort(80, address="10.0.0.1"),
        HostPort(80, address="10.0.0.2"),
    )
    assert (
        len(
            placed(
                told.arrive(*(pod(f"p{number}", asking(ports=(one,))) for number, one in enumerate(ports)))
            )
        )
        == 4
    )
    assert refused(told.arrive(pod("all addresses", asking(ports=(HostPort(80),))))) == ["all addresses"]


def test_a_pod_that_others_bound_holds_its_port_too() -> None:
    told = Story()
    told.run_on(pod("theirs", asking(ports=(HostPort(80),))), "n")
    told.nodes(node("n"))
    assert refused(told.arrive(pod("p", asking(ports=(HostPort(80),))))) == ["p"]


# Affinity.


def test_a_pod_goes_where_the_pods_it_must_be_near_run() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", "y"))
    told.run_on(of("db", "db"), "n1")
    told.arrive(*(pod(f"p{number}", asking(gpus=8, affinity=(term("db"),))) for number in range(2)))
    assert {place_of(told, "p0"), place_of(told, "p1")} == {"n1", "n2"}


def test_a_pod_waits_for_those_it_must_be_near_and_is_woken_by_their_placement() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    assert refused(told.arrive(pod("p", asking(affinity=(term("db"),))))) == ["p"]
    assert told.explain("p") == {"pod-affinity": 2}
    assert placed(told.arrive(of("db", "db"))) == ["db", "p"]
    assert place_of(told, "p") == place_of(told, "db")


def test_a_placement_by_somebody_else_wakes_too() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.arrive(pod("p", asking(affinity=(term("db"),))))
    assert placed(told.run_on(of("db", "db"), "n1")) == ["p"]


def test_the_first_of_a_group_that_wants_to_be_together_may_go_anywhere() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", "y"))
    needs = asking("web", gpus=8, affinity=(term("web"),))
    told.arrive(*(of(f"p{number}", "web", needs) for number in range(3)))
    zones = {"n0": "x", "n1": "y", "n2": "y"}
    assert len({zones[place] for place, _ in told.binds.values()}) == 1


def test_the_first_of_a_group_still_needs_the_topology_key() -> None:
    told = Story()
    told.nodes(*zoned(None))
    assert refused(told.arrive(of("p", "web", asking("web", affinity=(term("web"),))))) == ["p"]


def test_whoever_is_not_of_the_group_is_not_its_first() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    assert refused(told.arrive(of("p", "web", asking("web", affinity=(term("db"),))))) == ["p"]


def test_all_terms_must_be_met_by_the_same_pods() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    told.run_on(of("a", "a"), "n0")
    told.run_on(of("b", "b"), "n0")
    both = asking(affinity=(term("a"), term("b")))
    assert refused(told.arrive(pod("p", both))) == ["p"]


def test_pods_of_other_namespaces_are_not_seen_unless_the_term_says_so() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    told.run_on(of("db", "db", namespace="data"), "n0")
    assert refused(told.arrive(pod("p", asking(affinity=(term("db"),))))) == ["p"]
    assert placed(told.arrive(pod("q", asking(affinity=(term("db", namespaces=("data",)),))))) == ["q"]


def test_namespaces_are_selected_by_their_labels_as_these_change() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    told.run_on(of("db", "db", namespace="data"), "n0")
    wanted = term("db", namespaces=(), namespace_labels={"team": "x"})
    assert refused(told.arrive(pod("p", asking(affinity=(wanted,))))) == ["p"]
    assert placed(told.namespace("data", team="x")) == ["p"]
    told.happen(event.NamespaceRemoved("data"))
    assert refused(told.arrive(pod("q", asking(affinity=(wanted,))))) == ["q"]


def test_a_term_without_selector_selects_nobody() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    told.run_on(of("a", "a"), "n0")
    assert refused(told.arrive(of("p", "a", asking("a", affinity=(term(),))))) == ["p"]
    assert placed(told.arrive(of("q", "a", asking("a", anti_affinity=(term(),))))) == ["q"]


# Anti-affinity.


def test_pods_keep_away_from_those_they_avoid() -> None:
    told = Story()
    told.nodes(*zoned("x", "x", "y"))
    told.run_on(of("noisy", "noisy"), "n0")
    told.arrive(pod("p", asking(anti_affinity=(term("noisy"),))))
    assert place_of(told, "p") == "n2"


def test_a_node_without_the_topology_key_is_in_nobodys_domain() -> None:
    told = Story()
    told.nodes(*zoned("x", None))
    told.run_on(of("noisy", "noisy"), "n0")
    told.arrive(pod("p", asking(anti_affinity=(term("noisy"),))))
    assert place_of(told, "p") == "n1"


def test_replicas_that_avoid_each_other_take_a_domain_each() -> None:
    told = Story()
    told.nodes(*zoned("x", "x", "y"))
    needs = asking("web", anti_affinity=(term("web"),))
    said = told.arrive(*(of(f"p{number}", "web", needs) for number in range(3)))
    assert placed(said) == ["p0", "p1"]
    assert told.explain("p2") == {"pod-anti-affinity": 3}
    assert placed(told.depart("p0")) == ["p2"]


def test_a_plain_pod_keeps_away_from_those_who_avoid_it() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.run_on(pod("shy", asking(anti_affinity=(term("web"),))), "n0")
    told.arrive(of("p", "web"))
    assert place_of(told, "p") == "n1"
    told.run_on(pod("shy too", asking(anti_affinity=(term("web"),))), "n1")
    assert refused(told.arrive(of("q", "web"))) == ["q"]
    assert told.explain("q") == {"others-anti-affinity": 2}
    assert placed(told.depart("shy")) == ["q"]


def test_a_pod_kept_out_by_others_does_not_hold_back_those_who_look_different() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    told.run_on(pod("shy", asking(anti_affinity=(term("web"),))), "n0")
    said = told.arrive(of("w0", "web"), of("o0", "other"), of("w1", "web"), of("o1", "other"))
    assert placed(said) == ["o0", "o1"]
    assert refused(said) == ["w0", "w1"]
    assert refused(told.arrive(of("w2", "web"))) == ["w2"]
    assert placed(told.depart("shy")) == ["w0", "w1", "w2"]


def test_pods_kept_out_by_others_keep_their_turn_among_all_of_their_shape() -> None:
    told = Story()
    told.nodes(node("n", 1, labels={ZONE: "x"}))
    told.run_on(pod("shy", asking(anti_affinity=(term("web"),))), "n")
    told.arrive(of("web", "web", shape(1)), of("first", "other", shape(1)), of("second", "other", shape(1)))
    assert list(told.binds) == ["first"]
    assert placed(told.happen(event.PodRemoved(PodUid("shy")), event.PodRemoved(PodUid("first")))) == ["web"]


def test_a_domain_that_vanishes_takes_what_kept_others_out_with_it() -> None:
    told = Story()
    told.nodes(*zoned("x", "x"))
    told.run_on(pod("shy", asking(anti_affinity=(term("web"),))), "n0")
    assert refused(told.arrive(of("p", "web"))) == ["p"]
    assert placed(told.lose("n0")) == ["p"]


def test_a_node_that_gets_another_label_is_judged_anew() -> None:
    told = Story()
    told.nodes(*zoned("x", "x"))
    told.run_on(pod("shy", asking(anti_affinity=(term("web"),))), "n0")
    assert refused(told.arrive(of("p", "web"))) == ["p"]
    assert placed(told.nodes(node("n1", 8, labels={ZONE: "y"}))) == ["p"]


def test_a_running_pod_that_gets_other_labels_is_seen_so() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    told.run_on(of("noisy", "noisy"), "n0")
    assert refused(told.arrive(pod("p", asking(anti_affinity=(term("noisy"),))))) == ["p"]
    assert placed(told.arrive(of("noisy", "quiet"))) == ["p"]


# Topology spread.


def spread_out(told: Story, count: int, **constraint: object) -> list[str]:
    """The zones that replicas of one app get."""
    needs = asking("web", spread=(spread("web", **constraint),))  # type: ignore[arg-type]
    told.arrive(*(of(f"p{number}", "web", needs) for number in range(count)))
    nodes = told.engine.state.fleet
    return [
        nodes.node_at(nodes.row_by_name[NodeName(place)]).labels[ZONE] for place, _ in told.binds.values()
    ]


def test_replicas_are_spread_within_the_skew() -> None:
    told = Story()
    told.nodes(*zoned("x", "x", "y"))
    zones = spread_out(told, 6)
    assert sorted(zones) == ["x", "x", "x", "y", "y", "y"]


def test_a_larger_skew_allows_more() -> None:
    told = Story()
    told.nodes(node("n0", labels={ZONE: "x"}), node("n1", cpu_milli=1000, labels={ZONE: "y"}))
    told.run_on(pod("full", shape(cpu_milli=1000)), "n1")
    zones = spread_out(told, 5, max_skew=3)
    assert zones == ["x", "x", "x"]
    assert told.explain("p3") == {"cpu": 1, "spread": 1}


def test_a_replica_in_the_emptiest_domain_wakes_those_who_wait() -> None:
    told = Story()
    told.nodes(*zoned("x"), node("far", cpu_milli=0, labels={ZONE: "y"}))
    assert spread_out(told, 2) == ["x"]
    theirs = of("theirs", "web", shape(cpu_milli=0))
    assert placed(told.run_on(theirs, "far")) == ["p1"]


def test_fewer_domains_than_wanted_count_as_an_empty_one() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    assert sorted(spread_out(told, 3, min_domains=3)) == ["x", "y"]
    assert placed(told.nodes(node("n2", labels={ZONE: "z"}))) == ["p2"]


def test_nodes_without_the_topology_key_take_nobody() -> None:
    told = Story()
    told.nodes(*zoned("x", None))
    told.arrive(of("p0", "web", asking("web", spread=(spread("web"),))))
    assert place_of(told, "p0") == "n0"


def test_domains_that_the_pods_own_affinity_rules_out_are_not_counted() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", "z"))
    for honor, least in ((True, 4), (False, 1)):
        needs = shape(
            affinity=in_zone("x", "y"),
            relations=related(str(honor), spread=(spread(str(honor), honor_affinity=honor),)),
        )
        said = told.arrive(*(of(f"{honor}{number}", str(honor), needs) for number in range(4)))
        assert len(placed(said)) == (least if honor else 2)


def test_domains_of_taints_that_are_not_tolerated_are_counted_unless_told_otherwise() -> None:
    told = Story()
    told.nodes(*zoned("x"), node("far", labels={ZONE: "y"}, taints=(Taint("gpu"),)))
    assert spread_out(told, 3) == ["x"]
    told = Story()
    told.nodes(*zoned("x"), node("far", labels={ZONE: "y"}, taints=(Taint("gpu"),)))
    assert spread_out(told, 3, honor_taints=True) == ["x", "x", "x"]


def test_a_pod_that_its_constraint_does_not_select_counts_the_others_only() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.run_on(of("web", "web"), "n0")
    needs = asking("job", spread=(spread("web"),))
    assert len(placed(told.arrive(*(of(f"p{number}", "job", needs) for number in range(4))))) == 4


def test_pods_of_other_namespaces_are_not_counted() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.run_on(of("a", "web", namespace="other"), "n0")
    told.run_on(of("b", "web", namespace="other"), "n0")
    assert sorted(spread_out(told, 2)) == ["x", "y"]


def test_a_pod_that_was_told_to_end_is_not_counted_and_its_end_lets_others_in() -> None:
    told = Story()
    told.nodes(*zoned("x"), node("far", cpu_milli=0, labels={ZONE: "y"}))
    assert spread_out(told, 2) == ["x"]
    known = told.engine.state.pods.pod_at(told.engine.state.pods.row_by_uid[PodUid("p0")])
    leaving = msgspec.structs.replace(known, leaving=True)
    assert placed(told.happen(event.PodAdded(leaving))) == ["p1"]


def test_a_pod_that_was_told_to_end_still_keeps_others_away() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    noisy = of("noisy", "noisy", asking("noisy", anti_affinity=(term("quiet"),)))
    told.run_on(msgspec.structs.replace(noisy, leaving=True), "n0")
    told.arrive(of("quiet", "quiet"), pod("shy", asking("shy", anti_affinity=(term("noisy"),))))
    assert told.explain("quiet") == {"others-anti-affinity": 1}
    assert told.explain("shy") == {"pod-anti-affinity": 1}


def test_an_empty_selector_counts_nobody_but_the_pod_itself() -> None:
    told = Story()
    told.nodes(*zoned("x"), node("far", cpu_milli=0, labels={ZONE: "y"}))
    everybody = SpreadConstraint(1, ZONE, EVERYBODY)
    needs = shape(relations=Relations(spread=(everybody,)))
    assert placed(told.arrive(*(pod(f"p{number}", needs) for number in range(3)))) == ["p0", "p1", "p2"]


# StoryRun why.


def test_all_reasons_are_listed_and_the_nearest_node_says_who_is_in_the_way() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", gpus=1))
    told.run_on(pod("full", shape(1)), "n0", "n0/0")
    told.run_on(of("noisy", "noisy"), "n0")
    told.run_on(of("noisy too", "noisy"), "n1")
    told.arrive(pod("p", asking(gpus=1, anti_affinity=(term("noisy", key=HOST),))))
    verdict = told.engine.explain(PodUid("p"))
    assert verdict is not None
    assert verdict.first_reasons == {"gpu-busy": 1, "pod-anti-affinity": 1}
    assert verdict.all_reasons == {"gpu-busy": 1, "pod-anti-affinity": 2}
    assert verdict.nearest is not None
    assert (verdict.nearest.node, verdict.nearest.short) == ("n1", {})
    assert verdict.nearest.barred_by == ("pod-anti-affinity",)
