"""What a node has to give while its cards are to be cut: not what is about to go, unless a pod holds it."""

import json
from typing import Any

import pytest

from gpufleet.cluster.nodes.cuts_to_come import with_cuts_to_come
from gpufleet.kube.objects.node import Node as WireNode
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, STATES_ANNOTATION
from gpufleet.model.device import Device, Serves
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from tests.kube.wire_objects import decoded

SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
HERE = [("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)]
"""The instances of the card GPU-cut; GPU-whole is a whole card."""


def left(
    wanted: dict[str, list[str] | None], states: dict[str, Any] | None = None, held: tuple[int, ...] = ()
) -> tuple[dict[str, int], set[str]]:
    """Instances by resource and whole cards that may be given; ``held`` are instances by their start."""
    annotations = {LAYOUTS_ANNOTATION: json.dumps(wanted)}
    if states is not None:
        annotations[STATES_ANNOTATION] = json.dumps(states)
    written: WireNode = decoded({"metadata": {"name": "n", "annotations": annotations}}, WireNode)
    instances = [{"profile": profile, "start": start} for profile, start in HERE]
    holders = [
        {"device": "GPU-cut", "podUID": "p", "migProfile": profile, "migStart": start}
        for profile, start in HERE
        if start in held
    ]
    devices = [{"id": "GPU-cut", "sharing": "mig", "migInstances": instances}, {"id": "GPU-whole"}]
    report: NodeDevices = decoded(
        {"metadata": {"name": "n"}, "spec": {"devices": devices, "holders": holders}}, NodeDevices
    )
    offered = Resources(other=((SMALL, 2), (LARGE, 1)))
    node = Node(NodeName("n"), offered, (Device(DeviceId("GPU-whole")),))
    found = with_cuts_to_come(node, written, report)
    whole = {str(one.id) for one in found.devices if one.serves is not Serves.NOTHING}
    return dict(found.allocatable.other), whole


ALL = {SMALL: 2, LARGE: 1}, {"GPU-whole"}


def test_unused_instances_that_a_layout_lacks_are_given_no_more() -> None:
    assert left({"GPU-cut": ["1g.10gb@0", "3g.40gb@4"]}, {}) == ({SMALL: 1, LARGE: 1}, {"GPU-whole"})
    assert left({"GPU-cut": None}, {}) == ({SMALL: 0, LARGE: 0}, {"GPU-whole"})


def test_an_instance_that_a_pod_holds_counts_until_the_pod_ends() -> None:
    assert left({"GPU-cut": None}, {}, held=(1, 4)) == ({SMALL: 1, LARGE: 1}, {"GPU-whole"})


def test_a_whole_card_that_is_to_be_cut_is_closed() -> None:
    assert left({"GPU-whole": ["3g.40gb@4"]}, {}) == ({SMALL: 2, LARGE: 1}, set())


@pytest.mark.parametrize(
    "states",
    [None, {"GPU-cut": {"state": "failed", "layout": ["1g.10gb@0"]}}],
    ids=["no agent cuts", "the cut has failed"],
)
def test_a_cut_that_does_not_come_takes_nothing(states: dict[str, Any] | None) -> None:
    assert left({"GPU-cut": ["1g.10gb@0"]}, states) == ALL


def test_layouts_that_cannot_be_read_take_nothing() -> None:
    assert left({"GPU-cut": ["1g.10gb"]}, {}) == ALL
