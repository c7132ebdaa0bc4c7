"""What pods ask of their neighbours, as values: what they mean, and what cannot be made."""

import msgspec
import pytest

from gpufleet.model.host_port import HostPort
from gpufleet.model.labels import LabelSelector, NodeAffinity, Operator, Requirement
from gpufleet.model.model_errors import InputError
from gpufleet.model.pod_affinity import NamespaceScope, PodTerm, PreferredPodTerm
from gpufleet.model.relations import NO_RELATIONS, Relations
from gpufleet.model.shape import Shape
from gpufleet.model.topology_spread import SpreadConstraint
from gpufleet.model.volumes import Attachment, UnboundClaim, VolumeCandidate, Volumes

TEAM = LabelSelector((Requirement("team", Operator.IN, ("x",)),))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.1"), True),
        (HostPort(80, address="10.0.0.1"), HostPort(80), True),
    ],
)
def test_ports_conflict_where_an_address_is_shared(one: HostPort, other: HostPort, conflict: bool) -> None:
    assert one.conflicts(other) == other.conflicts(one) == conflict


def test_a_scope_holds_the_namespaces_named_and_those_selected() -> None:
    scope = NamespaceScope(("a",), TEAM)
    assert scope.accepts("a", {})
    assert scope.accepts("b", {"team": "x"})
    assert not scope.accepts("b", {"team": "y"})
    assert not NamespaceScope(("a",)).accepts("b", {"team": "x"})
    assert NamespaceScope((), LabelSelector()).accepts("anything", {})


@pytest.mark.parametrize("weight", [0, 101, -101])
def test_a_weight_is_between_one_and_a_hundred_either_way(weight: int) -> None:
    with pytest.raises(InputError, match="weight"):
        PreferredPodTerm(weight, PodTerm("zone", NamespaceScope()))


@pytest.mark.parametrize("weight", [1, 100, -1, -100])
def test_the_bounds_of_a_weight_are_allowed(weight: int) -> None:
    assert PreferredPodTerm(weight, PodTerm("zone", NamespaceScope())).weight == weight


def test_a_term_needs_a_topology_key() -> None:
    with pytest.raises(InputError, match="topologyKey"):
        PodTerm("", NamespaceScope())


def test_a_constraint_that_allows_nothing_cannot_be_made() -> None:
    with pytest.raises(InputError, match="maxSkew"):
        SpreadConstraint(0, "zone")
    with pytest.raises(InputError, match="minDomains"):
        SpreadConstraint(1, "zone", min_domains=0)
    with pytest.raises(InputError, match="topologyKey"):
        SpreadConstraint(1, "")


def test_the_defaults_of_a_constraint_are_those_of_kubernetes() -> None:
    constraint = SpreadConstraint(1, "zone")
    assert (constraint.min_domains, constraint.honor_affinity, constraint.honor_taints) == (1, True, False)


def test_a_shape_with_relations_survives_json_and_keeps_its_hash() -> None:
    term = PodTerm("zone", NamespaceScope(("a",), TEAM), TEAM)
    volumes = Volumes(
        (Attachment("disk", "v"),),
        ("a/claim",),
        (UnboundClaim("a/new", (VolumeCandidate("pv", NodeAffinity()),), (NodeAffinity(),)),),
    )
    shape = Shape(
        relations=Relations(
            "a",
            (("app", "web"),),
            (HostPort(80),),
            (term,),
            (term,),
            (PreferredPodTerm(-5, term),),
            (SpreadConstraint(2, "zone", TEAM),),
            volumes,
        ),
        features=("fast",),
        volume_affinities=(NodeAffinity(),),
    )
    back = msgspec.json.decode(msgspec.json.encode(shape), type=Shape)
    assert back == shape
    assert {shape: 1}[back] == 1


def test_a_shape_that_asks_nothing_of_others_has_no_relations() -> None:
    assert msgspec.json.decode(b"{}", type=Shape).relations == NO_RELATIONS
