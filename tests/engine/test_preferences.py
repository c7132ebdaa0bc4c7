"""What a pod or a node prefers goes before packing, and forbids nothing."""

from gpufleet.model.identifiers import NodeName
from gpufleet.model.taint import Taint, Toleration
from tests.engine.fleet_builder import Story, node, placed, pod, shape
from tests.engine.relation_builder import (
    ZONE,
    asking,
    of,
    place_of,
    preferred,
    prefers_zone,
    spread,
    term,
    zoned,
)


def spread_out(told: Story, count: int, **constraint: object) -> list[str]:
    """The zones that replicas of one app get."""
    needs = asking("web", spread=(spread("web", **constraint),))  # type: ignore[arg-type]
    told.arrive(*(of(f"p{number}", "web", needs) for number in range(count)))
    nodes = told.engine.state.fleet
    return [
        nodes.node_at(nodes.row_by_name[NodeName(place)]).labels[ZONE] for place, _ in told.binds.values()
    ]


def test_preferred_node_affinity_outweighs_packing() -> None:
    told = Story()
    told.nodes(*zoned("x", "y"))
    told.run_on(pod("there", shape(1)), "n0", "n0/0")
    told.arrive(pod("packs", shape(1)), pod("prefers", shape(1, affinity=prefers_zone("y"))))
    assert (place_of(told, "packs"), place_of(told, "prefers")) == ("n0", "n1")


def test_a_preference_that_cannot_be_met_forbids_nothing() -> None:
    told = Story()
    told.nodes(*zoned("x"))
    assert placed(told.arrive(pod("p", shape(affinity=prefers_zone("y"))))) == ["p"]


def test_a_taint_that_asks_to_be_avoided_is_avoided_while_there_is_room_elsewhere() -> None:
    told = Story()
    slow = Taint("slow", effect="PreferNoSchedule")
    told.nodes(node("slow", 1, taints=(slow,)), node("fast", 1))
    told.run_on(pod("there"), "slow")
    tolerant = shape(tolerations=(Toleration("slow", "Exists"),))
    told.arrive(pod("a", shape(1)), pod("b", shape(1)), pod("c", tolerant))
    assert [place_of(told, uid) for uid in "abc"] == ["fast", "slow", "slow"]


def test_pods_go_near_whom_they_like_and_away_from_whom_they_do_not() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", "z"))
    told.run_on(of("db", "db"), "n1")
    told.run_on(of("noisy", "noisy"), "n0")
    told.arrive(pod("near", asking(preferred=(preferred(10, term("db")),))))
    told.arrive(pod("away", asking(preferred=(preferred(-10, term("noisy")), preferred(-10, term("db"))))))
    assert (place_of(told, "near"), place_of(told, "away")) == ("n1", "n2")


def test_spread_that_is_not_required_is_sought() -> None:
    told = Story()
    told.nodes(*zoned("x", "y", "z"))
    assert sorted(spread_out(told, 6, required=False)) == ["x", "x", "y", "y", "z", "z"]
    told.lose("n1", "n2")
    assert (
        len(placed(told.arrive(of("late", "web", asking("web", spread=(spread("web", required=False),))))))
        == 1
    )
