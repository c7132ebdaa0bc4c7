"""Which conditions of devices a Binding waits for, and which end the wait: those of KEP-5007."""

from typing import Any

import msgspec
import pytest

from gpufleet.kube.codec.device_preparation import Preparation, preparation_of
from gpufleet.kube.objects.resource_claims import ResourceClaimObject

Object = dict[str, Any]
AWAITED = "condition ready of device fabric.example.com/n/d0 is not set"


def claim(
    *said: tuple[str, str], waits_for: tuple[str, ...] = ("ready",), share: str | None = None
) -> Object:
    """A claim with a device, and what its driver says of the device."""
    device = {"driver": "fabric.example.com", "pool": "n", "device": "d0", "shareID": share}
    result = {
        "request": "r",
        **device,
        "bindingConditions": waits_for,
        "bindingFailureConditions": ["broken"],
    }
    conditions = [{"type": name, "status": status, "message": "of a fabric"} for name, status in said]
    status = {
        "allocation": {"devices": {"results": [result]}},
        "devices": [{**device, "conditions": conditions}] if said else [],
    }
    return {"metadata": {"name": "c", "namespace": "default"}, "status": status}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(claim(), Preparation((AWAITED,)), id="the driver says nothing yet"),
        pytest.param(claim(("ready", "True")), Preparation(), id="ready"),
        pytest.param(
            claim(("ready", "False")),
            Preparation(("condition ready of device fabric.example.com/n/d0 is False ('of a fabric')",)),
            id="not ready",
        ),
        pytest.param(
            claim(("ready", "True"), waits_for=("ready", "linked")),
            Preparation(("condition linked of device fabric.example.com/n/d0 is not set",)),
            id="one of two",
        ),
        pytest.param(
            claim(("broken", "True")),
            Preparation(
                (AWAITED,), ("condition broken of device fabric.example.com/n/d0 is True ('of a fabric')",)
            ),
            id="failed",
        ),
        pytest.param(claim(("broken", "False"), ("ready", "True")), Preparation(), id="not failed"),
        pytest.param(claim(("broken", "True"), waits_for=()), Preparation(), id="nothing is waited for"),
    ],
)
def test_a_binding_waits_for_all_conditions_of_a_device(written: Object, expected: Preparation) -> None:
    assert preparation_of(msgspec.convert(written, ResourceClaimObject)) == expected


def test_what_is_said_of_one_share_of_a_device_says_nothing_of_another() -> None:
    written = claim(("ready", "True"), share="a")
    written["status"]["devices"][0]["shareID"] = "b"
    assert preparation_of(msgspec.convert(written, ResourceClaimObject)).awaited == (AWAITED,)


def test_a_claim_without_devices_waits_for_none() -> None:
    assert preparation_of(msgspec.convert({"metadata": {"name": "c"}}, ResourceClaimObject)) == Preparation()
