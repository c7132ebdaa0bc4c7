"""Claims and classes as users of the vendors' drivers write them, and what Kubernetes' rules give them."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gpufleet.agent.dra.device_pools import DevicePool, device_pools, pool_slices
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import ResourceClaim
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import CandidateOrder, first_fit
from gpufleet.dra_allocation.results import Allocation, Refusal
from gpufleet.dra_allocation.slices import NodeFacts
from gpufleet.kube.codec.resource_claims import read_resource_claim
from gpufleet.kube.codec.resource_slices import read_device_class, read_resource_slice
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import DeviceClassObject, ResourceSliceObject, ResourceSliceSpec
from tests.agent.node_values import NODE

OF_NVIDIA = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == "
CLASSES = {
    "gpu.nvidia.com": OF_NVIDIA + "'gpu'",
    "mig.nvidia.com": OF_NVIDIA + "'mig'",
    "gpu.amd.com": "device.driver == 'gpu.amd.com'",
    "gpu.intel.com": "device.driver == 'gpu.intel.com'",
}
"""DeviceClasses that the vendors' charts install, with their selectors."""


def a_claim(*requests: dict[str, Any], same: str = "", name: str = "claim") -> ResourceClaim:
    """A claim of these requests; ``same`` is an attribute that all devices have in common."""
    constraints = [{"requests": [], "matchAttribute": same}] if same else []
    body = {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"devices": {"requests": list(requests), "constraints": constraints}},
    }
    return read_resource_claim(msgspec.convert(body, ResourceClaimObject))


def exactly(name: str, device_class: str, *selectors: str, **more: Any) -> dict[str, Any]:
    """A request of one class."""
    chosen = [{"cel": {"expression": one}} for one in selectors]
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": chosen, **more}}


def of_profile(name: str, profile: str) -> dict[str, Any]:
    """A request of one MIG profile, as NVIDIA's examples write it."""
    return exactly(name, "mig.nvidia.com", f"device.attributes['gpu.nvidia.com'].profile == '{profile}'")


def pools_of(node: NodeGpus) -> tuple[DevicePool, ...]:
    """The pools of all cards."""
    return device_pools(node, lambda _: True)


def slices_of(node: NodeGpus) -> list[ResourceSliceSpec]:
    """The slices of all cards, as they are first written."""
    return [one for pool in pools_of(node) for one in pool_slices(pool, 1)]


def allocator_of(specs: Iterable[ResourceSliceSpec], order: CandidateOrder = first_fit) -> Allocator:
    """The choice on the node of these slices, that of Kubernetes unless another order is said."""
    read = [
        read_resource_slice(ResourceSliceObject(Metadata(f"slice-{number}"), spec))
        for number, spec in enumerate(specs)
    ]
    classes = {
        name: read_device_class(
            msgspec.convert(
                {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}}]}},
                DeviceClassObject,
            )
        )
        for name, text in CLASSES.items()
    }
    return Allocator(NODE, SliceIndex(read).pools(NodeFacts(NODE)), classes, order=order)


def given(
    specs: Iterable[ResourceSliceSpec], *claims: ResourceClaim, held: Sequence[Allocation] = ()
) -> list[list[str]] | str:
    """The devices of each claim, or why there are none."""
    found = allocator_of(specs).allocate(claims, HeldDevices.of(held))
    if isinstance(found, Refusal):
        return found.reason
    return [[device.id.device for device in one.devices] for one in found]
