"""The GPUs that pods have by resource claims (DRA), in thousandths, as a drain counts what work holds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gpufleet.drain.question import MILLI_PER_GPU
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.model.gpu_drivers import is_gpu_driver
from gpufleet.model.identifiers import PodUid


def claimed_milli(claims: Iterable[ResourceClaimObject]) -> Mapping[PodUid, int]:
    """By pod; a claim that pods share counts once in all. A device counts whole, also a part of a card.

    Access for administrators holds none: it only looks.
    """
    found: defaultdict[PodUid, int] = defaultdict(int)
    for claim in claims:
        allocation = claim.status.allocation
        results = () if allocation is None else allocation.devices.results
        devices = sum(is_gpu_driver(one.driver) and not one.admin_access for one in results)
        users = [one.uid for one in claim.status.reserved_for if one.resource == "pods"]
        if devices:
            for uid in users:
                found[PodUid(uid)] += devices * MILLI_PER_GPU // len(users)
    return found
