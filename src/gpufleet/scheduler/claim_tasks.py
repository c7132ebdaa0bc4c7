"""What is written into claims of a pod that is bound, and which claims of a waiting pod are given back."""

from gpufleet.cluster.claims.claim_tracker import ClaimTracker
from gpufleet.dra_allocation.results import Allocation
from gpufleet.kube.codec.resource_claims import ShareIds, write_allocation
from gpufleet.model.identifiers import PodUid
from gpufleet.scheduler.claim_writer import ClaimTask


def claim_tasks(
    claims: tuple[str, ...],
    chosen: tuple[tuple[str, Allocation], ...],
    tracker: ClaimTracker,
    share_id: ShareIds,
) -> tuple[ClaimTask, ...]:
    """For each claim of a pod ("namespace/name") what it is to have; ``chosen`` is for those without devices.

    A claim that has none, and for which none were chosen, is a task that fails: its pod is not bound. The
    claim for extended resources may have to be made first.
    """
    allocations = dict(chosen)
    tasks = []
    for path in claims:
        seen, allocation = tracker.claims.get(path), allocations.get(path)
        written = None if allocation is None else write_allocation(allocation, share_id)
        uid = "" if seen is None else seen.uid
        tasks.append(ClaimTask(_name(path), uid, written, tracker.expected.get(path)))
    return tuple(tasks)


def claims_to_release(
    claims: tuple[str, ...], pod: PodUid, tracker: ClaimTracker, share_id: ShareIds
) -> tuple[ClaimTask, ...]:
    """The claims of a waiting pod that tie it to some nodes and that no other pod may use."""
    found = []
    for path in claims:
        seen = tracker.claims.get(path)
        if seen is None or seen.allocation is None or seen.allocation.nodes is None:
            continue
        if set(seen.reserved_for) <= {pod}:
            written = write_allocation(seen.allocation, share_id)
            found.append(ClaimTask(_name(path), seen.uid, written))
    return tuple(found)


def _name(path: str) -> str:
    return path.partition("/")[2]
