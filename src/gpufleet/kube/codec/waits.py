"""Why a pod is not handed to the engine yet, though nothing is wrong with it.

Gates are lifted by the controllers that set them; claims of devices, and claims for storage, may not be there
yet (``volumes``).
"""

import enum

import msgspec

from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.pod import Pod

MAXIMUM_NAMED = 5
"""A message stays readable: further names are only counted."""


class WaitReason(enum.Enum):
    """What kind of thing is waited for; also the reason in a pod's condition."""

    GATED = "SchedulingGated"
    RESOURCE_CLAIM = "ResourceClaimNotReady"
    CLAIM_MISSING = "PersistentVolumeClaimMissing"
    CLAIM_LOST = "PersistentVolumeClaimLost"
    CLAIM_DELETED = "PersistentVolumeClaimBeingDeleted"
    CLAIM_FOREIGN = "PersistentVolumeClaimOfAnotherPod"
    CLAIM_UNBOUND = "PersistentVolumeClaimUnbound"
    CLASS_MISSING = "StorageClassMissing"
    VOLUME_MISSING = "PersistentVolumeMissing"
    GROUP_MISSING = "PodGroupMissing"


class Wait(msgspec.Struct, frozen=True):
    """One thing that is waited for, in words for the pod's owner."""

    reason: WaitReason
    message: str


def waits_of(pod: Pod) -> tuple[Wait, ...]:
    """What the pod itself says it must wait for; ``volumes.read_volumes`` knows of storage."""
    found = []
    if pod.spec.scheduling_gates:
        gates = _listed([gate.name for gate in pod.spec.scheduling_gates])
        found.append(Wait(WaitReason.GATED, f"waits until its scheduling gates are lifted: {gates}"))
    return tuple(found)


def _listed(names: list[str]) -> str:
    named = ", ".join(harmless(name) for name in names[:MAXIMUM_NAMED])
    return named if len(names) <= MAXIMUM_NAMED else f"{named} and {len(names) - MAXIMUM_NAMED} more"
