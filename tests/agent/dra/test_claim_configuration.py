"""Configurations of NVIDIA's driver are honoured where a card does so by itself, else refused by name."""

from typing import Any

import msgspec
import pytest

from gpufleet.agent.dra.claim_configuration import check_configuration
from gpufleet.kube.objects.resource_claims import WrittenAllocatedConfiguration, WrittenResult
from gpufleet.kube.objects.resource_slices import OpaqueConfiguration
from gpufleet.model.model_errors import InputError

DRIVER = "gpu.nvidia.com"
MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}
LONG = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
DEFAULT = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}


def configured(
    sharing: dict[str, Any] | None, source: str = "FromClaim", driver: str = DRIVER, *requests: str
) -> WrittenAllocatedConfiguration:
    written: dict[str, Any] = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    if sharing is not None:
        written["sharing"] = sharing
    raw = msgspec.Raw(msgspec.json.encode(written))
    return WrittenAllocatedConfiguration(source, requests, OpaqueConfiguration(driver, raw))


def check(*configurations: WrittenAllocatedConfiguration, request: str = "gpu") -> None:
    result = WrittenResult(request=request, driver=DRIVER, pool="node-1", device="gpu-0")
    check_configuration(DRIVER, result, configurations)


@pytest.mark.parametrize("sharing", [None, DEFAULT, {"strategy": "TimeSlicing"}])
def test_what_a_card_does_by_itself_is_honoured(sharing: dict[str, Any] | None) -> None:
    check(configured(sharing))


@pytest.mark.parametrize(
    ("sharing", "field"),
    [(MPS, "sharing.strategy"), (LONG, "sharing.timeSlicingConfig.interval")],
)
def test_what_a_card_does_not_do_is_refused_by_its_field(sharing: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        check(configured(sharing))


def test_an_unknown_field_or_kind_is_refused() -> None:
    with pytest.raises(InputError, match="sharin"):
        check(configured({"strategy": "TimeSlicing", "sharin": 1}))
    other = msgspec.Raw(b'{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "VfioDeviceConfig"}')
    with pytest.raises(InputError, match="VfioDeviceConfig"):
        check(WrittenAllocatedConfiguration("FromClaim", (), OpaqueConfiguration(DRIVER, other)))


def test_the_claims_word_goes_before_the_classs() -> None:
    check(configured(MPS, "FromClass"), configured(DEFAULT))
    with pytest.raises(InputError):
        check(configured(DEFAULT, "FromClass"), configured(MPS))


def test_what_is_meant_for_other_requests_or_drivers_does_not_count() -> None:
    check(configured(MPS, "FromClaim", DRIVER, "another"))
    check(configured(MPS, "FromClaim", "gpu.example.com"))
    with pytest.raises(InputError):
        check(configured(MPS, "FromClaim", DRIVER, "gpu"), request="gpu/large")
