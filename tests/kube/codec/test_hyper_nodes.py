"""Network topologies of Volcano: which label a tier stands for, and what is refused."""

from typing import Any

import pytest

from gpufleet.kube import resources
from gpufleet.kube.codec.gang_terms import GangTerms
from gpufleet.kube.codec.gangs import read_membership
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.hyper_nodes import HyperNode
from tests.kube.codec.test_gangs import membership, put
from tests.kube.shelf import Shelf
from tests.kube.wire_objects import a_pod

RACK, BLOCK = "example.com/rack", "example.com/block"
POD = a_pod(annotations={"scheduling.k8s.io/group-name": "train"})


def hyper_node(
    shelf: Shelf,
    name: str,
    tier: int,
    *members: dict[str, Any],
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """A HyperNode as it is stored."""
    metadata = {"labels": labels or {}}
    written = {"tier": tier, "members": list(members), **spec}
    shelf.put(resources.HYPER_NODES, HyperNode, name, metadata=metadata, spec=written)


def nodes_with(key: str, value: str) -> dict[str, Any]:
    """Members: the nodes with a label."""
    return {"type": "Node", "selector": {"labelMatch": {"matchLabels": {key: value}}}}


def exactly(kind: str, name: str) -> dict[str, Any]:
    """One member, by name."""
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def discovered() -> Shelf:
    """As Volcano makes them of the labels of nodes: racks of nodes, blocks of racks."""
    shelf = Shelf()
    for name in ("r1", "r2"):
        hyper_node(
            shelf, f"hypernode-{name}", 1, exactly("Node", f"n-{name}"), labels={RACK: name}, tierName=RACK
        )
    racks = [exactly("HyperNode", f"hypernode-{name}") for name in ("r1", "r2")]
    hyper_node(shelf, "hypernode-b1", 2, *racks, labels={BLOCK: "b1"}, tierName=BLOCK)
    return shelf


def terms(shelf: Shelf, topology: dict[str, Any] | None, **spec: Any) -> GangTerms:
    """What a group with this network topology asks for."""
    more = {} if topology is None else {"networkTopology": topology}
    put(shelf, resources.VOLCANO_POD_GROUPS, "train", {"minMember": 2, **more, **spec})
    return membership(POD, shelf).terms


def refused(shelf: Shelf, topology: dict[str, Any], **spec: Any) -> str:
    """What is said against it."""
    put(shelf, resources.VOLCANO_POD_GROUPS, "train", {"minMember": 2, "networkTopology": topology, **spec})
    with pytest.raises(ObjectError) as caught:
        read_membership(POD, shelf)
    return str(caught.value)


@pytest.mark.parametrize(
    ("topology", "required"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, RACK),
        ({"mode": "hard", "highestTierAllowed": 2}, BLOCK),
        ({"mode": "hard", "highestTierName": BLOCK}, BLOCK),
        ({"highestTierAllowed": 2}, BLOCK),
        ({"mode": "soft"}, None),
        ({"mode": "soft", "highestTierAllowed": 2}, None),
    ],
)
def test_tiers_made_of_node_labels_are_these_labels_and_the_nearest_is_preferred(
    topology: dict[str, Any], required: str | None
) -> None:
    found = terms(discovered(), topology)
    assert (found.required_level, found.preferred_level) == (required, RACK)


def test_tiers_whose_members_are_selected_by_one_label_are_this_label() -> None:
    shelf = Shelf()
    for name in ("r1", "r2"):
        hyper_node(shelf, name, 1, nodes_with(RACK, name))
    assert terms(shelf, {"mode": "hard", "highestTierAllowed": 1}).required_level == RACK


def test_without_a_wish_nothing_is_asked_for() -> None:
    found = terms(discovered(), None)
    assert (found.required_level, found.preferred_level) == (None, None)


def by_name() -> Shelf:
    """Domains that list their nodes."""
    shelf = Shelf()
    hyper_node(shelf, "s0", 1, exactly("Node", "n0"), exactly("Node", "n1"), tierName="leaf")
    hyper_node(
        shelf, "s1", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "n[23]"}}}, tierName="leaf"
    )
    return shelf


def mixed() -> Shelf:
    """Domains of one tier that are selected by different labels."""
    shelf = Shelf()
    hyper_node(shelf, "r1", 1, nodes_with(RACK, "r1"))
    hyper_node(shelf, "r2", 1, nodes_with(BLOCK, "r2"))
    return shelf


def test_a_soft_wish_for_what_is_no_label_keeps_nobody_waiting() -> None:
    found = terms(by_name(), {"mode": "soft"})
    assert (found.required_level, found.preferred_level) == (None, None)


@pytest.mark.parametrize(
    ("shelf", "topology", "said"),
    [
        (
            by_name(),
            {"mode": "hard", "highestTierAllowed": 1},
            "highestTierAllowed: a tier that is no node label",
        ),
        (
            by_name(),
            {"mode": "hard", "highestTierName": "leaf"},
            "highestTierName: a tier that is no node label",
        ),
        (mixed(), {"mode": "hard", "highestTierAllowed": 1}, "a tier that is no node label"),
        (discovered(), {"mode": "hard", "highestTierAllowed": 3}, "no HyperNode is of this tier, found '3'"),
        (Shelf(), {"mode": "hard", "highestTierAllowed": 1}, "no HyperNode is of this tier"),
        (discovered(), {"mode": "hard"}, "needs one highest tier"),
        (
            discovered(),
            {"mode": "hard", "highestTierAllowed": 1, "highestTierName": RACK},
            "needs one highest tier",
        ),
        (discovered(), {"mode": "firm", "highestTierAllowed": 1}, "networkTopology.mode: no such mode"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_field(
    shelf: Shelf, topology: dict[str, Any], said: str
) -> None:
    message = refused(shelf, topology)
    assert "PodGroup train: spec.networkTopology" in message
    assert said in message
    assert "expected" in message


def test_a_topology_of_a_subgroup_is_refused() -> None:
    policy = [
        {"name": "task", "subGroupSize": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    ]
    assert "PodGroup train: spec.subGroupPolicy" in refused(
        discovered(), {"mode": "soft"}, subGroupPolicy=policy
    )
