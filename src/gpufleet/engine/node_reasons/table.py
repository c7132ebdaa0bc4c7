"""All reasons of nodes: the one list of them, and what follows from it.

Room comes by itself, a pod or a taint can be edited, GPUs do not grow on nodes: so the reasons have heights,
by which the nodes that come nearest are found (``place.refusal.nearest_nodes``).
"""

import functools
from collections.abc import Iterable

from gpufleet.engine.node_reasons import (
    claim_devices,
    claim_elsewhere,
    cordoned,
    cpu,
    cuda_driver,
    data_missing,
    feature,
    gpu_apart,
    gpu_busy,
    gpu_count,
    gpu_fragmented,
    gpu_memory,
    gpu_model,
    gpu_sharing,
    gpu_sick,
    gpu_unreported,
    gpu_vendor,
    gpu_withheld,
    memory,
    no_agent,
    no_gpu,
    node_not_ready,
    other_resource,
    others_anti_affinity,
    pod_affinity,
    pod_anti_affinity,
    pods,
    ports,
    rejects_pods,
    selector,
    spread,
    storage,
    taint,
    unknown_resource,
    volume_affinity,
    volume_in_use,
    volume_limit,
    volume_unbound,
)
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason

# A fleet has few sets of reasons, and the same ones come with every refusal.
KEPT_MAX = 4096


class ReasonTable:
    """Reasons by bit and by name, in the order in which they are told.

    Raises ValueError where two have the same bit or name.
    """

    def __init__(self, reasons: Iterable[NodeReason]) -> None:
        self.reasons = tuple(reasons)
        self.by_name = {one.name: one for one in self.reasons}
        self.by_bit = {one.bit: one for one in self.reasons}
        by_bit = sorted(self.reasons, key=lambda one: one.bit)
        self.turns = tuple(by_bit.index(one) for one in self.reasons)
        """For each reason in ``reasons``, how many have a lower bit."""
        if not len(self.by_name) == len(self.by_bit) == len(self.reasons):
            raise ValueError("two reasons have the same bit or the same name")
        if any(one.bit.bit_count() != 1 for one in self.reasons):
            raise ValueError("a reason needs a bit of its own")
        self.bits = max(self.by_bit, default=0).bit_length()
        """How many bits a set of reasons may have."""
        self.places = functools.lru_cache(KEPT_MAX)(self._places)
        self.of = functools.lru_cache(KEPT_MAX)(self._of)
        self.height = functools.lru_cache(KEPT_MAX)(self._height)
        self.hardest_first = functools.lru_cache(KEPT_MAX)(self._hardest_first)

    def mask(self, *kinds: Kind) -> int:
        """The bits of all reasons of these kinds."""
        return sum(one.bit for one in self.reasons if one.kind in kinds)

    def first_told(self, names: Iterable[str]) -> str:
        """Of these reasons the one that is told first, under which a node is counted that has them all."""
        return next(one.name for one in self.reasons if one.name in set(names))

    def names_of(self, found: int) -> tuple[str, ...]:
        """The names of these reasons, the first to be told first."""
        return tuple(one.name for one in self.of(found))

    def _places(self, found: int) -> tuple[int, ...]:
        """Where in ``reasons`` those of these bits stand, the first to be told first."""
        return tuple(place for place, one in enumerate(self.reasons) if found & one.bit)

    def _of(self, found: int) -> tuple[NodeReason, ...]:
        """The reasons of these bits, the first to be told first."""
        return tuple(one for one in self.reasons if found & one.bit)

    def _height(self, found: int) -> int:
        """How much would have to change for all these reasons to go away."""
        return sum(one.height for one in self._of(found))

    def _hardest_first(self, found: int) -> tuple[str, ...]:
        """The names of all these reasons, the one that is hardest to change first."""
        return tuple(one.name for one in sorted(self._of(found), key=lambda one: -one.height))


TABLE = ReasonTable(
    module.REASON
    for module in (
        cordoned,
        taint,
        node_not_ready,
        selector,
        volume_affinity,
        feature,
        cuda_driver,
        gpu_unreported,
        no_agent,
        no_gpu,
        gpu_vendor,
        gpu_model,
        gpu_sharing,
        gpu_withheld,
        gpu_sick,
        gpu_count,
        gpu_busy,
        gpu_fragmented,
        gpu_memory,
        cpu,
        memory,
        pods,
        storage,
        unknown_resource,
        other_resource,
        ports,
        volume_in_use,
        volume_limit,
        volume_unbound,
        data_missing,
        claim_elsewhere,
        claim_devices,
        spread,
        pod_affinity,
        pod_anti_affinity,
        others_anti_affinity,
        gpu_apart,
        rejects_pods,
    )
)
"""Every reason that the engine knows."""
