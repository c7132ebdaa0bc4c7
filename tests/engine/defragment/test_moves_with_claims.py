"""Pods with resource claims move: to devices for the claims of the pods that come, kept with the place."""

import msgspec

from gpufleet.engine import event
from gpufleet.engine.event import MoveAsked
from gpufleet.model.identifiers import NodeName, PodUid
from tests.engine.defragment.moving_fleet import confirm
from tests.engine.defragment.test_asked_moves import drained
from tests.engine.fleet_builder import Story, gang, node, placed
from tests.engine.test_device_claims import allocated, claim, fleet, given, using


def running(told: Story, uid: str, on: str, name: str, device: str, in_gang: str | None = None) -> None:
    """A pod runs with a claim that has this device."""
    told.happen(claim(name, has=allocated(on, device)))
    confirm(told, told.arrive(using(uid, name, in_gang=in_gang)))


def ask(told: Story, **targets: str) -> dict[str, str]:
    """These pods are to go to these nodes; who is told to end."""
    asked = (MoveAsked(PodUid(uid), NodeName(name)) for uid, name in targets.items())
    return drained(told.happen(*asked))


def gone(told: Story, uid: str, name: str) -> None:
    """A pod has ended, and the claim that was made for it is gone."""
    told.happen(event.PodRemoved(PodUid(uid)), event.ResourceClaimRemoved(f"team/{name}"))


def test_a_pod_moves_to_where_its_claim_could_be_served_and_the_devices_are_kept_until_it_comes() -> None:
    told = fleet(a=("d0",), b=("d0",))
    running(told, "p", "a", "x", "d0")
    assert ask(told, p="b") == {"p": "b"}
    told.happen(event.NodeSet(node("a", cordoned=True)), claim("greedy"))
    other = msgspec.structs.replace(using("other", "greedy"), labels=(("app", "other"),))
    assert placed(told.arrive(other)) == [], "the device of b is kept"
    gone(told, "p", "x")
    # The claim of a template has another name for each pod.
    told.happen(claim("x-anew"))
    assert given(told.arrive(using("p-anew", "x-anew"))) == {"p-anew": ["b/d0"]}
    assert not [path for path in told.engine.state.neighbours.device_claims.known if "~" in path]


def test_a_pod_that_asks_for_more_does_not_take_the_place() -> None:
    told = fleet(a=("d0",), b=("d0", "d1"))
    running(told, "p", "a", "x", "d0")
    assert ask(told, p="b") == {"p": "b"}
    gone(told, "p", "x")
    told.happen(claim("two", count=2))
    assert placed(told.arrive(using("p-anew", "two"))) == []
    assert placed(told.wait_s(121)) == ["p-anew"], "the place is kept for two minutes"


def test_a_gang_moves_whole_and_not_onto_one_device() -> None:
    told = fleet(a=("d0",), b=("d0",), c=("d0",), d=("d0",))
    told.gangs(gang("train", 2))
    told.happen(claim("x", has=allocated("a", "d0")), claim("y", has=allocated("b", "d0")))
    confirm(told, told.arrive(using("p", "x", in_gang="train"), using("q", "y", in_gang="train")))
    assert ask(told, p="c", q="c") == {}
    assert ask(told, q="d") == {"p": "c", "q": "d"}


def test_a_claim_that_another_pod_goes_on_to_use_ties_the_pod() -> None:
    told = fleet(a=("d0",), b=("d0",))
    told.happen(claim("x", has=allocated("a", "d0")))
    confirm(told, told.arrive(using("p", "x"), using("q", "x")))
    assert ask(told, p="b") == {}


def test_a_plan_finds_places_for_pods_with_claims_and_takes_everything_back() -> None:
    told = fleet(a=("d0", "d1"), b=("d0",), c=("d0",))
    running(told, "p", "a", "x", "d0")
    running(told, "q", "a", "y", "d1")
    running(told, "r", "b", "z", "d0")
    closed = [NodeName("a")]
    with told.engine.relocating() as places:
        assert places.place([PodUid("p")], closed, []) == {"p": "c"}
        assert not places.has_room([PodUid("q")], closed)
        places.leave([PodUid("r")])
        assert places.place([PodUid("q")], closed, []) == {"q": "b"}
    claims = told.engine.state.neighbours.device_claims
    assert claims.left == frozenset()
    assert claims.allocation_of("team/x") == allocated("a", "d0")
    told.happen(claim("w"))
    assert given(told.arrive(using("s", "w"))) == {"s": ["c/d0"]}
