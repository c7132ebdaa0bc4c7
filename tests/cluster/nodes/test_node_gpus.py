"""Which GPUs a node has, whatever its report and the grants of its pods say: properties against plain sets.

The kubelet counts GPUs, the report names some, and pods hold some. Whatever the three say, no GPU is open
twice: of each GPU that a pod holds under a name which the report lacks, another name is closed.
"""

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cluster.nodes.node_gpus import (
    HeldOnNode,
    UncountedInstance,
    UnknownHeld,
    missing,
    unreported,
    with_missing,
    with_unknown,
)
from gpufleet.kube.objects.node import Node as WireNode
from gpufleet.model.device import Device, Serves
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from tests.kube.wire_objects import NVIDIA, decoded

IDS = [DeviceId(f"GPU-{number}") for number in range(6)]
SOME = st.lists(st.sampled_from(IDS), unique=True)
MIG = "nvidia.com/mig-1g.10gb"


def kubelet_counts(gpus: int) -> WireNode:
    """A Node as the kubelet writes it."""
    status = {"allocatable": {NVIDIA: str(gpus)}}
    found: WireNode = decoded({"metadata": {"name": "n"}, "status": status}, WireNode)
    return found


def node_of(ids: list[DeviceId], **more: object) -> Node:
    """A node with these devices."""
    return Node(NodeName("n"), Resources(**more), tuple(Device(one) for one in ids))  # type: ignore[arg-type]


def held_of(ids: list[DeviceId], promised: list[DeviceId], unknown: list[DeviceId]) -> HeldOnNode:
    """What pods hold, are promised, and what pods hold that the API does not know."""
    return HeldOnNode(tuple(ids), promised=tuple(promised), unknown=UnknownHeld(frozenset(unknown)))


def open_ids(node: Node) -> set[DeviceId]:
    """The devices that may be given."""
    return {one.id for one in node.devices if one.serves is not Serves.NOTHING}


@given(SOME, SOME, SOME, SOME, SOME, st.integers(0, 8))
def test_what_pods_hold_is_shown_and_as_many_free_names_are_closed(
    reported: list[DeviceId],
    held: list[DeviceId],
    promised: list[DeviceId],
    unknown: list[DeviceId],
    elsewhere: list[DeviceId],
    counted: int,
) -> None:
    node, written = node_of(reported), kubelet_counts(counted)
    found = with_missing(node, written, held_of(held, promised, unknown), frozenset(elsewhere))
    shown = [one.id for one in found.devices]
    assert len(shown) == len(set(shown))
    assert set(shown) == set(reported) | (set(held) - set(elsewhere))
    lacking = set(held) - set(reported)
    # What is shown for the sake of its holder is given to no other pod.
    assert not open_ids(found) & lacking
    closed = set(reported) - open_ids(found)
    assert not closed & {*held, *promised, *unknown}
    free = set(reported) - {*held, *promised, *unknown}
    beyond = max(0, counted - len(reported))
    assert len(closed) == min(len(free), max(0, len(lacking) - beyond))


@given(SOME, SOME, SOME, st.integers(0, 8))
def test_a_node_without_a_report_keeps_what_is_known_and_what_its_pods_hold(
    last: list[DeviceId], held: list[DeviceId], promised: list[DeviceId], counted: int
) -> None:
    anonymous = [DeviceId(f"counted-{number}") for number in range(counted)]
    node = node_of(anonymous)
    known = [Device(one) for one in last]
    found = unreported(node, kubelet_counts(counted), held_of(held, promised, []), known)
    shown = {one.id for one in found.devices}
    assert found.unreported
    assert set(held) <= shown
    lacking = set(held) - set(last)
    if not last:
        assert len(shown) == max(counted, len(lacking))
        return
    free = set(last) - {*held, *promised}
    doubled = max(0, len(lacking) - max(0, counted - len(last)))
    assert shown <= set(last) | lacking
    assert len(set(last) - shown) == min(len(free), doubled)
    assert {*held, *(one for one in promised if one in last)} <= shown


@given(SOME, SOME, st.integers(0, 4), st.integers(0, 6))
def test_what_is_held_beside_requests_is_not_free(
    reported: list[DeviceId], unknown: list[DeviceId], instances: int, amount: int
) -> None:
    uncounted = tuple(UncountedInstance(MIG, f"MIG-{number}") for number in range(instances))
    held = HeldOnNode(unknown=UnknownHeld(frozenset(unknown), uncounted))
    node = node_of(reported, other=((MIG, amount), ("example.com/nic", 3)))
    found = with_unknown(node, held)
    assert open_ids(found) == set(reported) - set(unknown)
    assert dict(found.allocatable.other) == {MIG: max(0, amount - instances), "example.com/nic": 3}


@given(SOME, st.lists(st.sampled_from(IDS)))
def test_what_is_missing_is_named_once_in_the_order_in_which_it_is_held(
    shown: list[DeviceId], held: list[DeviceId]
) -> None:
    found = missing(held, [Device(one) for one in shown])
    assert found == sorted(set(held) - set(shown), key=held.index)


def test_devices_are_granted_by_id_where_a_grant_names_one_or_cannot_be_read() -> None:
    assert not HeldOnNode().by_id
    assert HeldOnNode((IDS[0],)).by_id
    assert HeldOnNode(opaque=True).by_id
