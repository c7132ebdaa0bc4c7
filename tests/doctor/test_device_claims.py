"""Devices of claims: one that is held twice, one that left its slice, a pool that gives nothing."""

import pytest

from gpufleet.doctor.check import Check, Failure, Good
from gpufleet.doctor.checks import broken_device_pool, departed_device, device_held_twice
from tests.doctor.facts_of_text import facts_of

SLICE = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {{name: node-1, generation: {generation}, resourceSliceCount: {count}}}
  {content}
"""
TWO = "devices: [{name: gpu-0}, {name: gpu-1}]"


def a_slice(content: str = TWO, name: str = "one", generation: int = 1, count: int = 1) -> str:
    return SLICE.format(content=content, name=name, generation=generation, count=count)


def a_claim(name: str, device: str, made: str = "2026-11-22T11:00:00Z", more: str = "") -> str:
    """A claim of the pod with its name, with a device."""
    result = f"{{request: r, driver: gpu.example.com, pool: node-1, device: {device}{more}}}"
    return f"""
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: team, creationTimestamp: "{made}"}}
status:
  reservedFor: [{{resource: pods, name: {name}, uid: uid-{name}}}]
  allocation: {{devices: {{results: [{result}]}}}}
"""


def found(check: Check, *objects: str) -> list[Failure | str]:
    """The failures, and what is said to be good."""
    verdicts = check.judge(facts_of("".join(objects)))
    return [one.says if isinstance(one, Good) else one for one in verdicts if isinstance(one, Failure | Good)]


def test_two_claims_with_one_device_are_named_and_the_younger_is_to_end() -> None:
    older, younger = a_claim("old", "gpu-0"), a_claim("new", "gpu-0", made="2026-11-22T11:30:00Z")
    (failure,) = found(device_held_twice.CHECK, younger, older, a_claim("other", "gpu-1"))
    assert isinstance(failure, Failure)
    assert failure.says == (
        "device gpu.example.com/node-1/gpu-0 is held by ResourceClaim team/old, ResourceClaim team/new"
    )
    assert failure.mends[0].command == "kubectl delete pod -n team new"


@pytest.mark.parametrize("more", [", shareID: 1b2c", ", adminAccess: true"])
def test_shares_and_access_for_administration_clash_with_none_of_their_kind(more: str) -> None:
    claims = [a_claim(name, "gpu-0", more=more) for name in ("a", "b")]
    assert not any(isinstance(one, Failure) for one in found(device_held_twice.CHECK, *claims))


def test_a_share_beside_a_holder_of_the_whole_is_a_clash() -> None:
    claims = a_claim("a", "gpu-0", more=", shareID: 1b2c"), a_claim("b", "gpu-0")
    assert isinstance(found(device_held_twice.CHECK, *claims)[0], Failure)


def test_a_device_that_left_its_slice_is_named_with_its_claim() -> None:
    (failure,) = found(departed_device.CHECK, a_slice(), a_claim("a", "gpu-7"), a_claim("b", "gpu-0"))
    assert isinstance(failure, Failure)
    assert failure.says == (
        "pool gpu.example.com/node-1 no longer lists gpu-7, which ResourceClaim team/a still hold"
    )


@pytest.mark.parametrize("slices", ["", a_slice(count=2)], ids=["gone", "in a change"])
def test_a_pool_that_is_gone_or_in_a_change_says_nothing_of_single_devices(slices: str) -> None:
    assert found(departed_device.CHECK, slices, a_claim("a", "gpu-7")) == []


COUNTERS = "sharedCounters: [{name: board, counters: {slots: {value: '7'}}}]"
USES = """devices:
    - name: part
      consumesCounters: [{{counterSet: {set}, counters: {{{counter}: {{value: '1'}}}}}}]"""


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([a_slice(count=2)], "has 1 of 2 slices of generation 1"),
        ([a_slice(), a_slice(name="two", generation=2, count=2)], "has 1 of 2 slices of generation 2"),
        ([a_slice("devices: [{name: a}, {name: a}]")], "has two devices a"),
        (
            [a_slice(COUNTERS, count=2), a_slice(COUNTERS, "two", count=2)],
            "has two sets of counters board",
        ),
        (
            [a_slice(COUNTERS, count=2), a_slice(USES.format(set="card", counter="slots"), "two", count=2)],
            "has a device part with the unknown counter card/slots",
        ),
    ],
)
def test_a_pool_that_gives_nothing_is_told_with_what_is_wrong(slices: list[str], problem: str) -> None:
    (failure,) = found(broken_device_pool.CHECK, *slices)
    assert isinstance(failure, Failure)
    assert failure.says == f"no device of pool gpu.example.com/node-1 is given to claims: it {problem}"


def test_what_is_as_it_should_be_is_told_as_well() -> None:
    uses = USES.format(set="board", counter="slots")
    whole = [a_slice(COUNTERS, count=2), a_slice(uses, "two", count=2), a_claim("a", "part")]
    assert found(broken_device_pool.CHECK, *whole) == ["all pools of devices are whole (1)"]
    assert found(departed_device.CHECK, *whole) == [
        "all devices in use by claims are in a slice of their pool"
    ]
    assert found(device_held_twice.CHECK, *whole) == ["no device of 1 in use by claims is held twice"]
