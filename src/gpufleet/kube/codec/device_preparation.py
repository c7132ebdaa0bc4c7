"""Devices that are made ready before their pod is bound, such as those that a fabric attaches to a node.

A driver says in its slices which conditions such a device must have (``bindingConditions``), and writes these
into the status of the claim that was given the device. ``scheduler.claim_binder`` waits for them.
"""

from typing import NamedTuple

from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.resource_claims import DeviceCondition, ResourceClaimObject, WrittenResult


class Preparation(NamedTuple):
    """What devices of a claim lack, and which of them failed, in words; empty for nothing to say."""

    awaited: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def preparation_of(claim: ResourceClaimObject) -> Preparation:
    """What is to happen before pods of the claim are bound."""
    allocation = claim.status.allocation
    if allocation is None:
        return Preparation()
    statuses = {
        (one.driver, one.pool, one.device, one.share_id): {each.type: each for each in one.conditions}
        for one in claim.status.devices
    }
    awaited: list[str] = []
    failed: list[str] = []
    for result in allocation.devices.results:
        # Without conditions for a success nothing is waited for, and so no failure counts.
        if result.binding_conditions:
            said = statuses.get((result.driver, result.pool, result.device, result.share_id), {})
            awaited += _words(result, result.binding_conditions, said, is_true=False)
            failed += _words(result, result.binding_failure_conditions, said, is_true=True)
    return Preparation(tuple(awaited), tuple(failed))


def _words(
    result: WrittenResult, types: tuple[str, ...], said: dict[str, DeviceCondition], *, is_true: bool
) -> list[str]:
    """The conditions of these types that are ``True``, or those that are not."""
    device = harmless(f"{result.driver}/{result.pool}/{result.device}")
    found = []
    for name in types:
        one = said.get(name, DeviceCondition(name))
        if (one.status == "True") is is_true:
            message = f" ({harmless(one.message)})" if one.message else ""
            found.append(
                f"condition {harmless(name)} of device {device} is {one.status or 'not set'}{message}"
            )
    return found
