"""Resource claims and slices: what they say as values, and what is none, with its field."""

from typing import Any

import msgspec
import pytest

from gpufleet.kube.codec.resource_claims import read_allocation, read_resource_claim, write_allocation
from gpufleet.kube.codec.resource_slices import read_resource_slice
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import ResourceSliceObject

EXACTLY = {"deviceClassName": "gpu"}


def claim(request: dict[str, Any], **devices: Any) -> ResourceClaimObject:
    spec = {"devices": {"requests": [{"name": "r", **request}], **devices}}
    body = {"metadata": {"namespace": "team", "name": "c"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=ResourceClaimObject)


def device(**fields: Any) -> ResourceSliceObject:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "nodeName": "n", "devices": [{"name": "x", **fields}]}
    body = {"metadata": {"name": "s"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=ResourceSliceObject)


def test_a_request_without_a_count_asks_for_one_device_and_one_of_mode_all_for_no_number() -> None:
    assert read_resource_claim(claim({"exactly": EXACTLY})).requests[0].choices[0].count == 1
    every = read_resource_claim(claim({"exactly": {**EXACTLY, "allocationMode": "All"}}))
    assert every.requests[0].choices[0].count is None


@pytest.mark.parametrize(
    ("request_fields", "devices", "words"),
    [
        ({}, {}, r"requests\[0\]: no one kind of request"),
        ({"exactly": {}}, {}, r"requests\[0\].exactly.deviceClassName"),
        ({"exactly": {**EXACTLY, "allocationMode": "Some"}}, {}, "exactly.allocationMode"),
        ({"exactly": {**EXACTLY, "count": -1}}, {}, "exactly.count"),
        ({"exactly": {**EXACTLY, "selectors": [{}]}}, {}, r"exactly.selectors\[0\]"),
        ({"exactly": {**EXACTLY, "derivedAttributes": [{"name": "a"}]}}, {}, "derivedAttributes"),
        ({"exactly": {**EXACTLY, "capacity": {"requests": {"m": "x"}}}}, {}, r"capacity.requests\[m\]"),
        ({"exactly": {**EXACTLY, "tolerations": [{"operator": "In"}]}}, {}, r"tolerations\[0\].operator"),
        ({"exactly": EXACTLY}, {"constraints": [{}]}, r"constraints\[0\]"),
    ],
)
def test_what_is_no_claim_is_refused_with_its_field(
    request_fields: dict[str, Any], devices: dict[str, Any], words: str
) -> None:
    with pytest.raises(ObjectError, match=f"ResourceClaim team/c, spec.devices.*{words}"):
        read_resource_claim(claim(request_fields, **devices))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attributes": {"a": {}}}, r"attributes\[a\]: 0 values"),
        ({"attributes": {"a": {"int": 1, "string": "b"}}}, r"attributes\[a\]: 2 values"),
        ({"attributes": {"a": {"version": "1"}}}, r"attributes\[a\]"),
        ({"capacity": {"m": {"value": "1x"}}}, r"capacity\[m\].value"),
        ({"capacity": {"m": {"value": "1", "requestPolicy": {"validRange": {}}}}}, "validRange.min"),
        (
            {"capacity": {"m": {"value": "1", "requestPolicy": {"validRange": {"min": "0", "step": "0"}}}}},
            "validRange.step",
        ),
    ],
)
def test_what_is_no_device_is_refused_with_its_field(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ObjectError, match=rf"ResourceSlice s, spec.devices\[0\].*{words}"):
        read_resource_slice(device(**fields))


def test_an_allocation_is_read_as_it_was_written() -> None:
    result = {
        "request": "r/big",
        "driver": "d",
        "pool": "p",
        "device": "x",
        "shareID": "2f0d3c8e-5f0c-4c1e-9f0a-0c9a3d1b7a11",
        "consumedCapacity": {"memory": "10Gi"},
        "bindingConditions": ["ready"],
        "tolerations": [{"key": "sick", "operator": "Exists", "tolerationSeconds": 5}],
    }
    opaque = {"driver": "d", "parameters": {"kind": "GpuConfig"}}
    allocation = {
        "devices": {
            "results": [result],
            "config": [{"source": "FromClaim", "requests": ["r"], "opaque": opaque}],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ]
        },
    }
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": None}}}
    body["status"] = {"allocation": allocation}
    found = read_allocation(msgspec.json.decode(msgspec.json.encode(body), type=ResourceClaimObject))
    assert found is not None
    written = msgspec.json.encode(write_allocation(found, lambda: str(result["shareID"])))
    assert msgspec.json.decode(written) == allocation
