"""Which of the nodes that report one device has it: by grants, then by age, in any order of reading."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cluster.nodes.disputed_devices import DisputedDevices, Rival
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node_devices import NodeDevices, NodeDevicesSpec, ReportedDevice
from gpufleet.model.identifiers import DeviceId, NodeName

NODES = [NodeName(name) for name in "abcd"]
DEVICES = st.frozensets(st.sampled_from([DeviceId(f"g{number}") for number in range(5)]))
Named = dict[NodeName, frozenset[DeviceId]]


def a_report(name: NodeName, ids: frozenset[DeviceId]) -> NodeDevices:
    """A report; those of nodes that come first in the alphabet are the older ones."""
    metadata = Metadata(name=name, uid=name, creation_timestamp=f"2026-01-0{NODES.index(name) + 1}T00:00:00Z")
    return NodeDevices(metadata, NodeDevicesSpec(devices=tuple(ReportedDevice(one) for one in sorted(ids))))


def claims(named: Named, granted: Named, order: list[NodeName]) -> DisputedDevices:
    found = DisputedDevices(lambda _: True, lambda name: granted.get(name, frozenset()))
    for name in order:
        found.report(name, a_report(name, named.get(name, frozenset())))
    return found


@given(
    st.dictionaries(st.sampled_from(NODES), DEVICES),
    st.dictionaries(st.sampled_from(NODES), DEVICES),
    st.randoms(),
)
def test_a_device_has_one_node_at_most_and_never_one_without_the_grant_that_another_has(
    named: Named, granted: Named, random: Random
) -> None:
    told = claims(named, granted, NODES)
    rivals = {name: told.rival(name) for name in NODES}
    order = [*NODES, *NODES]
    random.shuffle(order)
    again = claims(named, granted, order)
    assert {name: again.rival(name) for name in NODES} == rivals
    believed = [name for name in NODES if rivals[name] is None]
    for one in believed:
        for other in believed:
            assert one == other or not named.get(one, frozenset()) & named.get(other, frozenset())
        for other in named:
            shared = named.get(one, frozenset()) & named[other] & granted.get(other, frozenset())
            assert other == one or shared <= granted.get(one, frozenset())


def test_an_older_node_that_names_granted_devices_of_one_takes_none_of_another() -> None:
    a, b, c, _ = NODES
    g0, g1 = DeviceId("g0"), DeviceId("g1")
    named = {a: frozenset({g0, g1}), b: frozenset({g0}), c: frozenset({g1})}
    told = claims(named, {b: frozenset({g0})}, NODES)
    assert told.rival(a) == Rival(b, g0)
    assert (told.rival(b), told.rival(c)) == (None, None)


def test_a_report_that_changes_concerns_nodes_that_share_devices_by_way_of_others() -> None:
    a, b, c, d = NODES
    g0, g1, g2 = (DeviceId(f"g{number}") for number in range(3))
    named = {a: frozenset({g0}), b: frozenset({g0, g1}), c: frozenset({g1, g2}), d: frozenset({g2})}
    told = claims(named, {}, NODES)
    assert [told.rival(name) is None for name in NODES] == [True, False, True, False]
    assert told.report(a, a_report(a, frozenset())) == {b, c, d}
    assert [told.rival(name) is None for name in NODES] == [True, True, False, True]


def test_a_report_that_changes_concerns_those_that_shared_and_those_that_share_devices() -> None:
    a, b, c, _ = NODES
    g0, g1 = DeviceId("g0"), DeviceId("g1")
    told = claims({a: frozenset({g0}), b: frozenset({g0}), c: frozenset({g1})}, {}, NODES)
    assert told.report(b, a_report(b, frozenset({g1}))) == {a, c}
    assert told.rival(a) is None
    assert told.rival(c) == Rival(b, g1)


def test_a_node_that_loses_its_report_concerns_the_nodes_of_devices_that_its_pods_were_granted() -> None:
    a, b, c, _ = NODES
    g0, g1 = DeviceId("g0"), DeviceId("g1")
    told = claims({a: frozenset({g0, g1}), b: frozenset({g0}), c: frozenset({g1})}, {}, NODES)
    assert told.without_report(a, [g1]) == {b, c}
    assert told.without_report(a, []) == {c}
    assert told.shared(a) == frozenset()
    assert told.without_report(a, []) == set()
