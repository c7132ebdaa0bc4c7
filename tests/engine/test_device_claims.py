"""Pods with resource claims: devices are chosen with the place, held with it, and given back with it.

Which claims wait for which others, and that a claim's devices bind its pods to their nodes, is as in
kube-scheduler's plugin DynamicResources.
"""

import pytest

from gpufleet.device_selectors.selector import Attribute
from gpufleet.device_selectors.values import Version
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation
from gpufleet.dra_allocation.slices import Device, DeviceId, NodeReach, PoolPart, ResourceSlice
from gpufleet.engine import event
from gpufleet.engine.event_log import read_step, step_line
from gpufleet.engine.instruction import AnyInstruction, Bind
from gpufleet.model.labels import NodeNameRequirement, NodeTerm, Operator, Requirement
from gpufleet.model.pod import Pod
from gpufleet.model.relations import Relations
from tests.engine.fleet_builder import Story, gang, node, placed, pod, refused, shape
from tests.engine.no_trace import no_trace

DRIVER = "gpu.example.com"


def devices(on: str, *names: str) -> event.ResourceSliceSet:
    """The devices of a node."""
    listed = tuple(Device(name) for name in names)
    return event.ResourceSliceSet(ResourceSlice(on, DRIVER, PoolPart(on, 1, 1), NodeReach(on), listed))


def asked(name: str, *, count: int = 1) -> ResourceClaim:
    """A claim for devices of any kind."""
    return ResourceClaim("team", name, (DeviceRequest("gpus", (DeviceChoice("any", count=count),)),))


def claim(name: str, *, count: int = 1, has: Allocation | None = None) -> event.ResourceClaimSet:
    """A claim as the API server has it."""
    return event.ResourceClaimSet(asked(name, count=count), has)


def allocated(on: str, *names: str) -> Allocation:
    """Devices of a node, as Kubernetes writes them down."""
    ids = (DeviceId(DRIVER, on, name) for name in names)
    only = NodeTerm((), (NodeNameRequirement(Operator.IN, on),))
    return Allocation(tuple(AllocatedDevice("gpus", one) for one in ids), nodes=only)


def using(uid: str, *claims: str, in_gang: str | None = None) -> Pod:
    """A pod with these claims."""
    paths = tuple(f"team/{name}" for name in claims)
    return pod(uid, shape(relations=Relations(device_claims=paths)), gang=in_gang)


def fleet(**names: tuple[str, ...]) -> Story:
    """Nodes with these devices for claims."""
    told = Story()
    told.nodes(*(node(name) for name in names))
    told.happen(event.DeviceClassSet(DeviceClass("any")), *(devices(name, *of) for name, of in names.items()))
    return told


def given(said: list[AnyInstruction]) -> dict[str, list[str]]:
    """For each pod that is bound, its devices as "node/device"."""
    return {
        one.uid: [f"{device.id.pool}/{device.id.device}" for _, has in one.claims for device in has.devices]
        for one in said
        if isinstance(one, Bind)
    }


def all_given(said: list[AnyInstruction]) -> list[str]:
    """The devices of all pods that are bound."""
    return sorted(one for devices_of_pod in given(said).values() for one in devices_of_pod)


def test_two_claims_get_two_devices_and_a_third_waits_until_one_is_free() -> None:
    told = fleet(a=("d0",), b=("d0",), c=())
    told.happen(claim("x"), claim("y"), claim("z"))
    said = told.arrive(using("p", "x"), using("q", "y"), using("r", "z"))
    assert all_given(said) == ["a/d0", "b/d0"]
    assert told.explain("r") == {"claim-devices": 3}
    assert given(told.refuse("p")) == {"r": given(said)["p"]}, "a bind that failed gives the devices back"


def test_devices_stay_held_until_the_api_server_says_that_their_claim_is_free() -> None:
    told = fleet(a=("d0",))
    told.happen(claim("x"), claim("y"))
    told.arrive(using("p", "x"), using("q", "y"))
    told.happen(claim("x", has=allocated("a", "d0")))
    assert placed(told.depart("p")) == []
    assert given(told.happen(claim("x"))) == {"q": ["a/d0"]}


def test_a_claim_that_has_devices_ties_its_pods_to_their_node() -> None:
    told = fleet(a=("d0",), b=("d0",))
    told.happen(claim("x", has=allocated("b", "d0")))
    assert told.arrive(using("p", "x"))
    assert (told.binds["p"][0], given(told.said)) == ("b", {"p": []})
    told.happen(event.NodeRemoved(node("b").name))
    assert refused(told.arrive(using("q", "x"))) == ["q"]
    assert told.explain("q") == {"claim-elsewhere": 1}


def test_pods_that_share_a_claim_share_its_devices_before_it_has_them_in_the_api_server() -> None:
    told = fleet(a=("d0",), b=("d0",))
    told.happen(claim("x"))
    said = told.arrive(using("p", "x"), using("q", "x"))
    assert given(said)["p"] == given(said)["q"]
    told.happen(claim("y"))
    (other,) = given(told.arrive(using("r", "y"))).values()
    assert other != given(said)["p"]


def test_what_another_scheduler_gave_is_held_and_goes_before_what_was_chosen() -> None:
    told = fleet(a=("d0",), b=("d0",))
    told.happen(claim("theirs", has=allocated("a", "d0")), claim("x"))
    assert given(told.arrive(using("p", "x"))) == {"p": ["b/d0"]}
    told.happen(claim("x", has=allocated("a", "d0")))
    told.refuse("p")
    told.wait_s(60)
    assert told.explain("p") == {"claim-devices": 2}, "a device that two claims have is given to no pod"
    told.happen(event.ResourceClaimRemoved("team/theirs"))
    assert told.binds["p"][0] == "a"


def test_all_claims_of_a_pod_are_served_by_one_node() -> None:
    told = fleet(a=("d0",), b=("d0", "d1", "d2"))
    told.happen(claim("x", count=2), claim("y"))
    (found,) = given(told.arrive(using("p", "x", "y"))).values()
    assert sorted(found) == ["b/d0", "b/d1", "b/d2"]


def test_new_devices_wake_a_pod_and_a_class_without_which_none_is_given() -> None:
    told = Story()
    told.nodes(node("a"))
    told.happen(claim("x"))
    assert refused(told.arrive(using("p", "x"))) == ["p"]
    assert placed(told.happen(devices("a", "d0"))) == []
    assert given(told.happen(event.DeviceClassSet(DeviceClass("any")))) == {"p": ["a/d0"]}


def test_a_node_whose_labels_change_is_asked_again() -> None:
    told = Story()
    told.nodes(node("a"), node("b"))
    only = NodeReach(term=NodeTerm((Requirement("switch", Operator.IN, ("s1",)),)))
    far = ResourceSlice("far", DRIVER, PoolPart("far", 1, 1), only, (Device("d0"),))
    told.happen(event.DeviceClassSet(DeviceClass("any")), event.ResourceSliceSet(far), claim("x"))
    assert refused(told.arrive(using("p", "x"))) == ["p"]
    assert given(told.nodes(node("b", labels={"switch": "s1"}))) == {"p": ["far/d0"]}
    assert told.binds["p"][0] == "b"
    told.happen(claim("y"), claim("z"))
    assert refused(told.arrive(using("q", "y"))) == ["q"], "the device is held from wherever it is reached"
    told.nodes(node("c", labels={"switch": "s1"}))
    assert given(told.depart("p")) == {"q": ["far/d0"]}


def test_a_gang_whose_claims_cannot_all_be_served_starts_nothing_and_holds_nothing() -> None:
    told = fleet(a=("d0",), b=("d0",))
    told.gangs(gang("g", 2))
    told.happen(claim("x"), claim("y"), claim("first"), claim("last"))
    told.arrive(using("p", "first"))
    with no_trace() as watched:
        assert refused(told.arrive(using("gx", "x", in_gang="g"), using("gy", "y", in_gang="g"))) == ["g"]
    assert watched["trial"] > 0
    assert placed(told.arrive(using("q", "last"))) == ["q"]
    said = told.happen(devices("b", "d0", "d1", "d2"))
    assert all_given(said) == ["b/d1", "b/d2"]


@pytest.mark.parametrize("first", ["tight", "wide"])
def test_members_of_a_gang_that_share_a_claim_go_where_there_is_room_for_all(first: str) -> None:
    """The other node fits one of them better, and has a device, too."""
    told = Story()
    nodes = {"tight": node("tight", cpu_milli=4000), "wide": node("wide", cpu_milli=64_000)}
    told.nodes(nodes.pop(first), *nodes.values())
    told.happen(event.DeviceClassSet(DeviceClass("any")), devices("tight", "d0"), devices("wide", "d0", "d1"))
    told.gangs(gang("g", 4))
    told.happen(claim("x"), claim("own"))
    relations = Relations(device_claims=("team/x",))
    alike = [pod(uid, shape(cpu_milli=3000, relations=relations), gang="g") for uid in ("p", "q", "r")]
    other = Relations(device_claims=("team/own", "team/x"))
    said = told.arrive(*alike, pod("s", shape(cpu_milli=2000, relations=other), gang="g"))
    assert {uid: on for uid, (on, _) in told.binds.items()} == dict.fromkeys(("p", "q", "r", "s"), "wide")
    shared = {tuple(has) for uid, has in given(said).items() if uid != "s"}
    assert len(shared) == 1
    assert sorted(given(said)["s"]) == ["wide/d0", "wide/d1"]


def test_members_that_share_a_claim_go_apart_where_its_device_is_reached_from_both_nodes() -> None:
    told = Story()
    told.nodes(node("a", cpu_milli=4000), node("b", cpu_milli=4000))
    far = ResourceSlice("far", DRIVER, PoolPart("far", 1, 1), NodeReach(all_nodes=True), (Device("d0"),))
    told.happen(event.DeviceClassSet(DeviceClass("any")), event.ResourceSliceSet(far), claim("x"))
    told.gangs(gang("g", 2))
    relations = Relations(device_claims=("team/x",))
    told.arrive(*(pod(uid, shape(cpu_milli=3000, relations=relations), gang="g") for uid in ("p", "q")))
    assert sorted(on for on, _ in told.binds.values()) == ["a", "b"]


def test_what_is_told_of_claims_survives_a_log() -> None:
    attributes: dict[str, Attribute] = {
        "a": True,
        "b": 7,
        "c": "x",
        "d": Version(1, 2, 3, ("rc1",)),
        "e": [1, 2],
        "f": ["x"],
    }
    pool = PoolPart("a", 1, 1)
    described = ResourceSlice("s", DRIVER, pool, NodeReach("a"), (Device("d0", attributes),))
    events = (event.ResourceSliceSet(described), claim("x", has=allocated("a", "d0")))
    line = step_line(7, events, [Bind(pod("p").uid, node("a").name, claims=(("x", allocated("a", "d0")),))])
    step = read_step(line, 2)
    assert step.events == events
    assert step_line(step.at_us, step.events, list(step.instructions)) == line
