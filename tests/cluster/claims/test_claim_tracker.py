"""What is new of claims and devices is told once, and what cannot be read gives no device away."""

from typing import Any

import msgspec

from gpufleet.cluster.claims.claim_tracker import ClaimTracker, HeardOf
from gpufleet.cluster.watching.mirrors import CLAIM_KINDS
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import (
    Event,
    ResourceClaimRemoved,
    ResourceClaimSet,
    ResourceSliceRemoved,
    ResourceSliceSet,
)
from gpufleet.kube.resources import DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind

DRIVER = "gpu.example.com"
TYPES = {one.kind: one for one in CLAIM_KINDS}


class Case:
    """Objects as they are now, and what is told of them."""

    def __init__(self) -> None:
        self.picture = Picture()
        self.tracker = ClaimTracker(self.picture)

    def put(self, kind: Kind, name: str, namespace: str = "", **more: Any) -> list[Event]:
        """An object is there or changed; what is told then."""
        metadata = {"name": name, "namespace": namespace, "uid": f"{name}-uid"}
        raw = msgspec.Raw(msgspec.json.encode({"metadata": metadata, **more}))
        self.picture.read(TYPES[kind], [raw])
        return self.heard(kind, name, namespace)

    def remove(self, kind: Kind, name: str, namespace: str = "") -> list[Event]:
        """An object is gone; what is told then."""
        del self.picture.objects[kind][namespace, name]
        return self.heard(kind, name, namespace)

    def heard(self, kind: Kind, name: str, namespace: str = "", *, is_readable: bool = True) -> list[Event]:
        """What is told when an object was heard of."""
        self.tracker.hear(HeardOf(kind, namespace, name), is_readable=is_readable)
        return self.tracker.events()

    def claim(self, name: str, *results: dict[str, Any]) -> list[Event]:
        """A claim with these devices."""
        requests = [{"name": "r", "exactly": {"deviceClassName": "any"}}]
        status = {"allocation": {"devices": {"results": list(results)}}} if results else {}
        return self.put(
            RESOURCE_CLAIMS, name, "team", spec={"devices": {"requests": requests}}, status=status
        )


def result(device: str, **more: Any) -> dict[str, Any]:
    """A device of the pool "a"."""
    return {"request": "r", "driver": DRIVER, "pool": "a", "device": device, **more}


SLICE: dict[str, Any] = {
    "driver": DRIVER,
    "nodeName": "a",
    "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
    "devices": [{"name": "d0"}],
}


def test_a_slice_is_told_when_it_changes_and_one_that_cannot_be_read_offers_nothing() -> None:
    case = Case()
    (told,) = case.put(RESOURCE_SLICES, "a", spec=SLICE)
    assert isinstance(told, ResourceSliceSet)
    assert case.put(RESOURCE_SLICES, "a", spec=SLICE) == []
    assert case.heard(RESOURCE_SLICES, "a", is_readable=False) == [ResourceSliceRemoved("a")]
    assert case.heard(RESOURCE_SLICES, "a") == [told]
    assert case.remove(RESOURCE_SLICES, "a") == [ResourceSliceRemoved("a")]


def test_a_rule_of_an_administrator_changes_the_slices_that_it_taints() -> None:
    case = Case()
    case.put(RESOURCE_SLICES, "a", spec=SLICE)
    taint = {"key": "drain", "effect": "NoSchedule"}
    (told,) = case.put(DEVICE_TAINT_RULES, "r", spec={"taint": taint, "deviceSelector": {"pool": "a"}})
    assert isinstance(told, ResourceSliceSet)
    assert [one.key for one in told.resource_slice.devices[0].taints] == ["drain"]
    (told,) = case.remove(DEVICE_TAINT_RULES, "r")
    assert isinstance(told, ResourceSliceSet)
    assert not told.resource_slice.devices[0].taints


def test_a_claim_whose_devices_cannot_be_read_in_full_keeps_all_that_it_names() -> None:
    case = Case()
    (told,) = case.claim("c", result("d0", consumedCapacity={"memory": "much"}), result("d1"))
    assert isinstance(told, ResourceClaimSet)
    assert told.allocation is not None
    assert [one.id.device for one in told.allocation.devices] == ["d0", "d1"]
    assert case.remove(RESOURCE_CLAIMS, "c", "team") == [ResourceClaimRemoved("team/c")]


def test_claims_with_one_device_know_of_each_other_unless_it_is_for_several() -> None:
    case = Case()
    case.claim("x", result("d0"))
    assert case.tracker.others_with_devices_of("team/x") == []
    case.claim("y", result("d0", shareID="1"))
    case.claim("z", result("d1", shareID="2"), result("d0", adminAccess=True))
    case.claim("w", result("d1", shareID="3"))
    assert case.tracker.others_with_devices_of("team/x") == ["team/y"]
    assert case.tracker.others_with_devices_of("team/w") == []
    case.claim("y")
    assert case.tracker.others_with_devices_of("team/x") == []
