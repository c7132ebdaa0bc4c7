"""The claims of a pod that the scheduler may place it with, or why it has to wait for them first."""

from collections.abc import Iterable

from gpufleet.cluster.claims.pod_claims import claims_of
from gpufleet.dra_allocation.results import Allocation
from gpufleet.kube import resources
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.resource_claims import read_allocation
from gpufleet.kube.codec.resource_slices import read_device_class
from gpufleet.kube.codec.waits import Wait, WaitReason
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.resource_claims import ResourceClaimObject


class LookedUp:
    """Allocations and classes, each read when it is asked for."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def allocation(self, one: ResourceClaimObject) -> Allocation | None:
        """What a claim has. Raises ObjectError where that cannot be read."""
        return read_allocation(one)

    def has_class(self, name: str) -> bool:
        """Whether there is such a class, which can be read."""
        found = self._lookup.find(resources.DEVICE_CLASSES, name)
        if found is None:
            return False
        try:
            read_device_class(found)
        except ObjectError:
            return False
        return True

    def class_names(self) -> Iterable[str]:
        """The names of all DeviceClasses."""
        return [one.metadata.name for one in self._lookup.all(resources.DEVICE_CLASSES)]


def named_claims(pod: Pod) -> tuple[str, ...]:
    """The claims of a pod by name with namespace, each once, as far as they are made for it."""
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    names = [use.resource_claim_name or made.get(use.name) for use in pod.spec.resource_claims]
    special = pod.status.extended_resource_claim_status
    if special is not None:
        names.append(special.resource_claim_name)
    return tuple(dict.fromkeys(f"{pod.metadata.namespace}/{name}" for name in names if name))


def usable_claims(pod: Pod, lookup: Lookup) -> tuple[str, ...] | Wait:
    """The claims of a pod by name with namespace, each once, or what it waits for."""
    if not pod.spec.resource_claims:
        return ()
    found = claims_of(pod, lookup, LookedUp(lookup))
    if found.problems:
        return Wait(WaitReason.RESOURCE_CLAIM, "; ".join(dict.fromkeys(found.problems)))
    return tuple(dict.fromkeys((*found.allocated, *(claim.path for claim in found.waiting))))
