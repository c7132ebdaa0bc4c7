"""Quota counts devices that claims ask for and have, like GPUs that pods ask for by number."""

from collections.abc import Mapping

import msgspec
import pytest

from gpufleet.device_selectors.selector import Attribute
from gpufleet.dra_allocation.capacity import DeviceCapacity, RequestPolicy
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation
from gpufleet.dra_allocation.slices import Device, DeviceId, NodeReach, PoolPart, ResourceSlice
from gpufleet.engine import event
from gpufleet.model.pod import Pod
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.queue import PreemptionPolicy, VictimScope
from gpufleet.model.relations import Relations
from tests.engine.fleet_builder import Story, evicted, node, placed, pod, refused, shape
from tests.engine.queueing.queue_builder import queue, quota, used

DRIVER = "gpu.nvidia.com"
H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"
CLASS_KEY = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"


def card(name: str, product: str = H100, **attributes: Attribute) -> Device:
    """A whole card of 80 GiB."""
    says: Mapping[str, Attribute] = {
        "type": "gpu",
        "productName": product,
        "uuid": f"GPU-{name}",
        **attributes,
    }
    return Device(name, says, {"memory": DeviceCapacity(parse_quantity("80Gi"))})


def instance(name: str, profile: str) -> Device:
    """An instance of a card."""
    return card(name, type="mig", profile=profile)


def shared(name: str) -> Device:
    """A card whose memory is given in parts."""
    memory = DeviceCapacity(parse_quantity("80Gi"), RequestPolicy(default=parse_quantity("80Gi")))
    return Device(name, {"type": "gpu", "productName": H100}, {"memory": memory}, is_shareable=True)


def fleet(**devices: tuple[Device, ...]) -> Story:
    """Nodes with these devices for claims, none of them with GPUs for pods."""
    told = Story()
    told.nodes(*(node(name) for name in devices))
    told.happen(event.DeviceClassSet(DeviceClass(DRIVER)))
    for name, listed in devices.items():
        pool = PoolPart(name, 1, 1)
        told.happen(event.ResourceSliceSet(ResourceSlice(name, DRIVER, pool, NodeReach(name), listed)))
    return told


def asked(
    name: str,
    count: int | None = 1,
    *,
    memory: str = "",
    admin: bool = False,
    selectors: tuple[str, ...] = (),
) -> ResourceClaim:
    """A claim of GPUs."""
    capacity = {"memory": parse_quantity(memory)} if memory else {}
    choice = DeviceChoice(DRIVER, "", selectors, count, admin, (), capacity)
    return ResourceClaim("team", name, (DeviceRequest("gpus", (choice,)),))


def using(told: Story, claim: ResourceClaim, **more: object) -> Pod:
    """A pod with a claim of its own, which is there."""
    told.happen(event.ResourceClaimSet(claim, None))
    relations = Relations(device_claims=(claim.path,))
    return pod(claim.name, shape(relations=relations), queue="a", **more)  # type: ignore[arg-type]


def total(told: Story, resource: str, of: str = "a") -> int:
    """What the pods of a queue are charged."""
    return used(told.engine.state, of, resource)[1]


def test_a_queue_starts_no_more_claims_than_its_quota_has_gpus() -> None:
    told = fleet(n=tuple(card(f"gpu-{number}") for number in range(4)))
    told.queues(queue("a", quota("gpu", 2000)))
    said = told.arrive(*(using(told, asked(name)) for name in ("p", "q", "r")))
    assert len(placed(said)) == 2
    assert refused(said) == ["r"]
    assert total(told, "gpu") == 2000
    assert placed(told.depart("p")) == ["r"], "its quota is what it waited for"


@pytest.mark.parametrize(
    ("devices", "claim", "charged"),
    [
        (
            (card("gpu-0"),),
            asked("p"),
            {"gpu": 1000, "gpu/H100-80GB": 1000, "gpu-memory": 81920, CLASS_KEY: 1},
        ),
        (tuple(card(f"gpu-{one}") for one in range(4)), asked("p", 2), {"gpu": 2000, "cost": 2000}),
        (tuple(card(f"gpu-{one}") for one in range(3)), asked("p", None), {"gpu": 3000, CLASS_KEY: 3}),
        ((instance("i-0", "3g.40gb"),), asked("p"), {"mig-slices": 3, "gpu": 0, CLASS_KEY: 1}),
        ((instance("i-0", "1c.3g.40gb"),), asked("p"), {"mig-slices": 1}),
        # A quarter of the memory is a quarter of the card.
        ((shared("gpu-0"),), asked("p", memory="20Gi"), {"gpu": 250, "gpu-memory": 20480}),
        ((card("gpu-0"),), asked("p", admin=True), {"gpu": 0, CLASS_KEY: 0}),
    ],
)
def test_a_claim_is_charged_what_its_devices_are(
    devices: tuple[Device, ...], claim: ResourceClaim, charged: dict[str, int]
) -> None:
    told = fleet(n=devices)
    told.queues(queue("a", *(quota(resource, 1_000_000) for resource in charged)))
    assert placed(told.arrive(using(told, claim))) == ["p"]
    assert {resource: total(told, resource) for resource in charged} == charged


def test_a_claim_that_may_get_either_model_needs_quota_of_both_and_is_charged_what_it_got() -> None:
    told = fleet(a=(card("gpu-0", A100),), b=(card("gpu-0", H100),))
    told.queues(queue("a", quota("gpu/H100-80GB", 1000), quota("gpu/A100-80GB", 0)))
    claim = asked("p")
    assert refused(told.arrive(using(told, claim))) == ["p"]
    assert placed(told.queues(queue("a", quota("gpu/H100-80GB", 1000), quota("gpu/A100-80GB", 1000)))) == [
        "p"
    ]
    assert (total(told, "gpu/H100-80GB"), total(told, "gpu/A100-80GB")) == (1000, 1000)
    has = Allocation((AllocatedDevice("gpus", DeviceId(DRIVER, "b", "gpu-0")),))
    told.happen(event.ResourceClaimSet(claim, has))
    assert (total(told, "gpu/H100-80GB"), total(told, "gpu/A100-80GB")) == (1000, 0)
    told.happen(event.ResourceSliceRemoved("b"))
    assert total(told, "gpu/H100-80GB") == 1000, "what runs on a device that left its slice has it still"
    told.depart("p")
    assert (total(told, "gpu/H100-80GB"), total(told, "gpu/A100-80GB")) == (0, 0)


def test_a_model_that_the_selector_rules_out_is_not_needed() -> None:
    told = fleet(a=(card("gpu-0", A100),), b=(card("gpu-0", H100),))
    told.queues(queue("a", quota("gpu/H100-80GB", 1000), quota("gpu/A100-80GB", 0)))
    only = f'device.attributes["{DRIVER}"].productName == "{H100}"'
    assert placed(told.arrive(using(told, asked("p", selectors=(only,))))) == ["p"]


def test_gpus_by_number_and_by_claim_count_together() -> None:
    told = fleet(n=(card("gpu-0"), card("gpu-1")))
    told.nodes(node("m", gpus=4))
    told.queues(queue("a", quota("gpu", 2000)))
    told.arrive(pod("by-number", shape(gpus=1), queue="a"), using(told, asked("by-claim")))
    assert total(told, "gpu") == 2000
    assert refused(told.arrive(pod("late", shape(gpus=1), queue="a"))) == ["late"]


def test_what_was_placed_before_the_first_queue_is_charged_when_it_comes() -> None:
    told = fleet(n=(card("gpu-0"), card("gpu-1")))
    assert placed(told.arrive(using(told, asked("p")))) == ["p"]
    told.queues(queue("a", quota("gpu", 1000)))
    assert total(told, "gpu") == 1000
    assert refused(told.arrive(using(told, asked("q")))) == ["q"]


def test_quota_that_another_queue_borrowed_for_claims_is_taken_back() -> None:
    told = fleet(n=tuple(card(f"gpu-{number}") for number in range(4)))
    owner = queue("b", quota("gpu", 1000), parent="all")
    told.queues(
        queue("all", quota("gpu", 0)),
        queue("a", quota("gpu", 1000), parent="all"),
        msgspec.structs.replace(owner, preemption=PreemptionPolicy(reclaim=VictimScope.ANY)),
    )
    assert len(placed(told.arrive(using(told, asked("p")), using(told, asked("q"))))) == 2
    claim = asked("r")
    told.happen(event.ResourceClaimSet(claim, None))
    said = told.arrive(pod("r", shape(relations=Relations(device_claims=(claim.path,))), queue="b"))
    (victim,) = evicted(said)
    assert victim in {"p", "q"}
    assert placed(told.depart(victim)) == ["r"]
    assert (total(told, "gpu", "a"), total(told, "gpu", "b")) == (1000, 1000)


def test_claims_count_in_the_fair_share() -> None:
    told = fleet(n=tuple(card(f"gpu-{number}") for number in range(4)))
    told.queues(
        queue("all", quota("gpu", 4000)),
        queue("a", quota("gpu", 0), parent="all"),
        queue("b", quota("gpu", 0), parent="all"),
    )
    told.happen(
        *(event.ResourceClaimSet(asked(f"{name}{number}"), None) for name in "ab" for number in range(4))
    )
    waiting = [
        pod(
            f"{name}{number}", shape(relations=Relations(device_claims=(f"team/{name}{number}",))), queue=name
        )
        for name in "ab"
        for number in range(4)
    ]
    started = placed(told.arrive(*waiting))
    assert sorted(name[0] for name in started) == ["a", "a", "b", "b"]
