"""Ending pods that the engine did not choose: half-bound gangs, device conflicts, memory offenders.

Their watchers look at the pods again and ask again, so no answer is waited for.
"""

from gpufleet.cluster.pods.pod_entry import PlacedPod
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import Plan, Unconcerned, Victim

TRY_AGAIN_S = 15.0
"""A pod that may be evicted has ended within this time, or its disruption budget has been asked in vain."""

STAYS = "it stays, because no controller would replace it; delete it to free its room"


def end_pod(evictions: Evictions, placed: PlacedPod, reason: str) -> None:
    """Have a pod evicted, or deleted where its owner asked for that and no controller makes another."""
    victim = Victim(placed.pod, reason, deleted=not placed.controlled)
    evictions.submit(Plan((victim,), Unconcerned()))
