"""Models of GPU in an order of preference: this one, else that one.

A request that names an order is tried on one group of its models after the other, each time as if its
shape accepted no others, so that rankings, quota and trials need to know nothing of it. A later group is
only tried where no earlier one has room, and quota, now; no pod is evicted for the sake of an earlier
one while a later one has room. ``queueing.gate`` hands out the groups; a gang that wants to be on one model
as a whole is tried model by model by ``gangs``.
"""

from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.shape import GpuRequest

Models = tuple[GpuModelName, ...]
"""Models to look at; none listed stands for all that are accepted."""

ALL_AT_ONCE: tuple[Models, ...] = ((),)


def groups_of(gpu: GpuRequest, only: Models = ()) -> tuple[Models, ...]:
    """The groups in which the models of a request are tried, within ``only`` if any are given there.

    No group at all where it accepts none of them.
    """
    if not gpu.count:
        return ALL_AT_ONCE
    if not only:
        return gpu.model_order or ALL_AT_ONCE
    accepted = tuple(sorted(model for model in only if not gpu.models or model in gpu.models))
    return (accepted,) if accepted else ()
