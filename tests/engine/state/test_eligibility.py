"""Labels, taints and cordons judged for all nodes at once are those of each node asked alone."""

import random

import msgspec
import pytest

from gpufleet.engine.node_reasons.cordoned import BIT as CORDONED
from gpufleet.engine.node_reasons.gpu_unreported import BIT as GPU_UNREPORTED
from gpufleet.engine.node_reasons.selector import BIT as SELECTOR
from gpufleet.engine.node_reasons.taint import BIT as TAINT
from gpufleet.engine.state.eligibility import fleet_reasons, node_reasons
from gpufleet.model.identifiers import PodUid
from gpufleet.model.labels import NodeAffinity, NodeNameRequirement, NodeTerm, Operator, Requirement
from gpufleet.model.node import Node
from gpufleet.model.shape import Shape
from gpufleet.model.taint import Taint, Toleration
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, pod, shape, share

ZONES = ("a", "b", "17", "200")
TAINTS = (
    Taint("gpu"),
    Taint("gpu", "shared", "NoExecute"),
    Taint("slow", effect="PreferNoSchedule"),
    Taint("sla", "950"),
)
TOLERATIONS = (
    Toleration("gpu", "Exists"),
    Toleration(operator="Exists", effect="NoExecute"),
    Toleration("sla", "Gt", "900"),
    Toleration("node.kubernetes.io/unschedulable", "Exists"),
)
REQUIREMENTS = (
    Requirement("zone", Operator.IN, ("a", "17")),
    Requirement("zone", Operator.NOT_IN, ("a",)),
    Requirement("zone", Operator.EXISTS),
    Requirement("rack", Operator.DOES_NOT_EXIST),
    Requirement("zone", Operator.GREATER, ("20",)),
    Requirement("rack", Operator.LESS, ("100",)),
    Requirement("nobody-has-this", Operator.NOT_IN, ("x",)),
)


def labelled_node(chance: random.Random, name: str) -> Node:
    """A node with some labels, taints and perhaps a cordon."""
    labels = {key: chance.choice(ZONES) for key in ("zone", "rack") if chance.random() < 0.6}
    taints = tuple(one for one in TAINTS if chance.random() < 0.25)
    return node(name, labels=labels, taints=taints, cordoned=chance.random() < 0.2)


def choosy_shape(chance: random.Random) -> Shape:
    """A shape with a selector, an affinity and tolerations, each perhaps."""
    terms = None
    if chance.random() < 0.6:
        terms = tuple(choosy_term(chance) for _ in range(chance.randint(0, 3)))
    selector = (("zone", chance.choice(ZONES)),) if chance.random() < 0.3 else ()
    tolerations = tuple(one for one in TOLERATIONS if chance.random() < 0.4)
    return shape(selector=selector, affinity=NodeAffinity(terms), tolerations=tolerations)


def choosy_term(chance: random.Random) -> NodeTerm:
    """Some requirements, perhaps none, perhaps on the name."""
    fields: tuple[NodeNameRequirement, ...] = ()
    if chance.random() < 0.3:
        operator = chance.choice((Operator.IN, Operator.NOT_IN))
        fields = (NodeNameRequirement(operator, chance.choice(("n0", "n1", "elsewhere"))),)
    return NodeTerm(tuple(one for one in REQUIREMENTS if chance.random() < 0.25), fields)


@pytest.mark.parametrize("seed", seeds(150))
def test_all_nodes_at_once_are_judged_as_each_alone(seed: int) -> None:
    chance = random.Random(seed)
    told = Story()
    told.nodes(*(labelled_node(chance, f"n{rank}") for rank in range(6)))
    for _ in range(6):
        told.nodes(labelled_node(chance, f"n{chance.randrange(6)}"))
        if chance.random() < 0.3:
            told.lose(f"n{chance.randrange(6)}")
        needs = choosy_shape(chance)
        fleet = told.engine.state.fleet
        at_once = fleet_reasons(needs, fleet)
        for row in fleet.row_by_name.values():
            assert at_once[row] == node_reasons(needs, fleet.node_at(row))


@pytest.mark.parametrize("seed", seeds(100))
def test_pods_follow_labels_as_they_change(seed: int) -> None:
    chance = random.Random(seed)
    told = Story()
    nodes = {f"n{rank}": labelled_node(chance, f"n{rank}") for rank in range(4)}
    told.nodes(*nodes.values())
    shapes = [choosy_shape(chance) for _ in range(4)]
    for number in range(25):
        name = f"n{chance.randrange(4)}"
        nodes[name] = labelled_node(chance, name)
        told.nodes(nodes[name])
        needs = chance.choice(shapes)
        told.arrive(pod(f"p{number}", needs))
        welcome = {name for name, one in nodes.items() if node_reasons(needs, one) == 0}
        given = told.binds.get(f"p{number}")
        assert (given is None) == (not welcome)
        assert given is None or given[0] in welcome
        told.depart(f"p{number}")


def test_reasons_of_each_kind_by_hand() -> None:
    cordoned = node("n", cordoned=True, taints=(Taint("gpu"),), labels={"zone": "a"})
    assert node_reasons(shape(selector=(("zone", "b"),)), cordoned) == int(CORDONED | TAINT | SELECTOR)
    everything = Toleration(operator="Exists")
    assert node_reasons(shape(selector=(("zone", "a"),), tolerations=(everything,)), cordoned) == 0


def test_a_node_that_does_not_report_its_gpus_refuses_those_who_ask_for_any_and_nobody_else() -> None:
    mute = msgspec.structs.replace(node("n", 4, labels={"zone": "a"}), unreported=True)
    refused = GPU_UNREPORTED
    assert node_reasons(shape(1), mute) == refused
    assert node_reasons(share(250), mute) == refused
    assert node_reasons(shape(other=(("nvidia.com/mig-1g.10gb", 1),)), mute) == refused
    assert node_reasons(shape(), mute) == 0
    assert node_reasons(shape(other=(("example.com/fpga", 1),)), mute) == 0
    assert node_reasons(shape(1, selector=(("zone", "b"),)), mute) == refused | SELECTOR


def test_pods_follow_a_node_that_stops_to_report_and_reports_again() -> None:
    told = Story()
    whole = node("n", 2)
    mute = msgspec.structs.replace(whole, unreported=True)
    told.nodes(whole)
    told.arrive(pod("first", shape(1)))
    told.nodes(mute)
    told.arrive(pod("second", shape(1)), pod("plain", shape()))
    assert set(told.binds) == {"first", "plain"}
    verdict = told.engine.explain(PodUid("second"))
    assert verdict is not None
    assert verdict.first_reasons == verdict.all_reasons == {"gpu-unreported": 1}
    told.nodes(whole)
    assert set(told.binds) == {"first", "second", "plain"}
