"""The plan of each GPU, as the sharing configuration gives it to the GPU monitor.

A ``Planner`` is a function, so that a GPU is never seen without its plan: the monitor asks it whenever
the GPUs change, and a new configuration is a new function in a ``Topic[Planner]``.
"""

from collections.abc import Callable, Sequence

import msgspec

from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sharing.plan import SharingPlan, unshared
from gpufleet.model.identifiers import DeviceId


class Plans(msgspec.Struct, frozen=True):
    """The plan of each GPU by UUID, and in sentences what of the configuration could not be taken over.

    A GPU without a plan here is offered as without any configuration.
    """

    by_gpu: dict[DeviceId, SharingPlan] = {}
    problems: tuple[str, ...] = ()

    def plan(self, gpu: GpuFacts) -> SharingPlan:
        """How this GPU is offered."""
        return self.by_gpu.get(gpu.uuid) or SharingPlan(gpu.uuid, unshared(gpu))


Planner = Callable[[Sequence[GpuFacts]], Plans]


def no_sharing(_: Sequence[GpuFacts]) -> Plans:
    """The planner of a node without a sharing configuration."""
    return Plans()
