"""Who may be asking the plugin for units, told from grants and from what the kubelet gave."""

from gpufleet.agent.device_plugin.pending_requests import waiting
from gpufleet.agent.state.node_state import Holders, NodeGpus, NodePods
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.sharing.plan import Mig, TimeSlice
from tests.agent.plugin_world import GPU, a_gpu, a_node, a_pod, cut, held, instance, pods_of

NODE = a_node(*(a_gpu(index) for index in range(4)))


def claims(
    pods: NodePods, holders: Holders = (), node: NodeGpus = NODE, resource: str = GPU
) -> dict[str, set[str]]:
    """The open claims: pod and container, and the units."""
    found = waiting(resource, node, node_units(node), pods, holders).claims
    return {f"{one.pod}/{one.container}": set(one.units) for one in found}


def ungranted(pods: NodePods, holders: Holders = ()) -> list[tuple[str, str, int]]:
    found = waiting(GPU, NODE, node_units(NODE), pods, holders).ungranted
    return [(one.pod, one.container, one.size) for one in found]


def test_a_claim_is_open_until_its_container_holds_something() -> None:
    pods = pods_of(a_pod("a", 2, grant=["GPU-0", "GPU-1"]))
    assert claims(pods) == {"team/a/main": {"GPU-0", "GPU-1"}}
    assert claims(pods, (held("a", "GPU-0", "GPU-1"),)) == {}


def test_finished_pods_claim_nothing_and_ask_for_nothing() -> None:
    pods = pods_of(a_pod("a", 1, grant=["GPU-0"], finished=True), a_pod("s", 1, finished=True))
    assert claims(pods) == {}
    assert ungranted(pods) == []


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    pods = pods_of(a_pod("a", 1, grant=["GPU-0"]))
    old = held("a", "GPU-3")
    assert claims(pods, (old,)) == {}
    assert claims(pods, (type(old)("team", "a", "main", GPU, ("GPU-3",), "uid-before"),)) == {
        "team/a/main": {"GPU-0"}
    }


def test_what_another_pod_holds_in_place_of_its_own_is_exchanged() -> None:
    pods = pods_of(
        a_pod("a", 1, grant=["GPU-0"]), a_pod("b", 1, grant=["GPU-1"]), a_pod("c", 1, grant=["GPU-2"])
    )
    assert claims(pods, (held("a", "GPU-1"),)) == {"team/b/main": {"GPU-0"}, "team/c/main": {"GPU-2"}}
    round_trip = (held("a", "GPU-1"), held("b", "GPU-2"))
    assert claims(pods, round_trip) == {"team/c/main": {"GPU-0"}}


def test_what_a_stranger_holds_stays_claimed_and_cannot_be_had() -> None:
    pods = pods_of(a_pod("a", 1, grant=["GPU-0"]), a_pod("s", 1))
    assert claims(pods, (held("s", "GPU-0"),)) == {"team/a/main": {"GPU-0"}}


def test_an_instance_is_found_by_its_place_whatever_its_id_is_now() -> None:
    node = a_node(cut(0, "1g.5gb", "1g.5gb"))
    name = "nvidia.com/mig-1g.5gb"
    pods = pods_of(a_pod("a", 1, grant=[instance("GPU-0", "1g.5gb", 1)], resource=name))
    assert claims(pods, node=node, resource=name) == {"team/a/main": {"MIG-0-1"}}
    assert claims(pods, node=node, resource=GPU) == {}
    gone = a_node(cut(0, "2g.10gb"))
    assert claims(pods, node=gone, resource=name) == {}


def test_a_granted_replica_is_one_that_nobody_has() -> None:
    node = a_node(a_gpu(0, TimeSlice(3)))
    pods = pods_of(a_pod("a", 1, grant=["GPU-0"]), a_pod("b", 1, grant=["GPU-0"]), a_pod("s", 1))
    assert claims(pods, (held("s", "GPU-0::0"),), node) == {
        "team/a/main": {"GPU-0::1"},
        "team/b/main": {"GPU-0::2"},
    }
    assert claims(pods, (held("a", "GPU-0::2"),), node) == {"team/b/main": {"GPU-0::0"}}


def test_a_grant_that_names_a_replica_claims_that_one() -> None:
    node = a_node(a_gpu(0, TimeSlice(3)))
    pods = pods_of(a_pod("a", 1, grant=["GPU-0::2"]), a_pod("b", 2, grant=["GPU-0::0", "GPU-0::1"]))
    assert claims(pods, node=node) == {"team/a/main": {"GPU-0::2"}, "team/b/main": {"GPU-0::0", "GPU-0::1"}}
    # The kubelet gave another one all the same: who was granted that now claims what is left behind.
    swapped = pods_of(a_pod("a", 1, grant=["GPU-0::2"]), a_pod("c", 1, grant=["GPU-0::0"]))
    assert claims(swapped, (held("a", "GPU-0::0"),), node) == {"team/c/main": {"GPU-0::2"}}


def test_a_grant_that_names_a_replica_of_an_instance_claims_that_one() -> None:
    node = a_node(cut(0, "1g.5gb", "1g.5gb", mode=Mig(None, {"1g.5gb": 2}, as_gpus=True)))
    pods = pods_of(
        a_pod("a", 1, grant=[instance("GPU-0::1", "1g.5gb", 1)]),
        a_pod("b", 2, grant=[instance("GPU-0::0", "1g.5gb", 1), instance("GPU-0::0", "1g.5gb", 0)]),
    )
    assert claims(pods, node=node) == {
        "team/a/main": {"MIG-0-1::1"},
        "team/b/main": {"MIG-0-1::0", "MIG-0-0::0"},
    }


def test_a_granted_instance_that_goes_by_the_name_of_gpus_is_found_by_its_place() -> None:
    node = a_node(cut(0, "1g.5gb", "1g.5gb", mode=Mig(None, as_gpus=True)))
    pods = pods_of(a_pod("a", 1, grant=[instance("GPU-0", "1g.5gb", 1)]))
    assert claims(pods, node=node) == {"team/a/main": {"MIG-0-1"}}


def test_strangers_are_those_without_a_grant_that_hold_nothing() -> None:
    pods = pods_of(
        a_pod("a", 1, grant=["GPU-0"]),
        a_pod("young", 1, since_s=2),
        a_pod("old", 2, since_s=1),
        a_pod("other", 1, resource="example.com/fpga"),
        a_pod("nameless", 1, grant=[], since_s=3),
    )
    assert ungranted(pods) == [
        ("team/old", "main", 2),
        ("team/young", "main", 1),
        ("team/nameless", "main", 1),
    ]
    assert ungranted(pods, (held("young", "GPU-1"), held("nameless", "GPU-2"))) == [("team/old", "main", 2)]
