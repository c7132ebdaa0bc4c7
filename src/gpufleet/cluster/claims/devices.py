"""The devices of the cluster, their classes, and what claims have, read from a picture.

``pod_claims`` reads the claims of one pod, ``claim_tracker`` follows all of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufleet.cluster.watching.mirrors import CLAIM_KINDS
from gpufleet.cluster.watching.picture import Picture
from gpufleet.dra_allocation.claims import DeviceClass
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.results import Allocation
from gpufleet.dra_allocation.slices import ResourceSlice
from gpufleet.dra_allocation.taint_rules import with_taint_rules
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.resource_claims import read_allocation
from gpufleet.kube.codec.resource_slices import (
    read_device_class,
    read_resource_slice,
    read_taint_rule,
)
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.mirror_changes import Unreadable
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.model.model_errors import printable


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a cluster, the classes, and what claims have. ``problems`` tells what is unreadable."""

    slices: SliceIndex
    classes: Mapping[str, DeviceClass]
    allocations: Mapping[str, Allocation]
    users: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()

    def allocation(self, one: ResourceClaimObject) -> Allocation | None:
        """What a claim has."""
        return self.allocations.get(one.metadata.path)

    def has_class(self, name: str) -> bool:
        """Whether there is such a class, which can be read."""
        return name in self.classes

    def class_names(self) -> Iterable[str]:
        """The names of all DeviceClasses."""
        return self.classes


def read_devices(picture: Picture) -> Devices:
    """All devices, classes and allocations of a picture."""
    kinds = {one.kind for one in CLAIM_KINDS}
    problems = [
        f"{kind.name} {harmless(change.name)}: {printable(change.problem)}"
        for kind, change in picture.unreadable
        if kind in kinds and isinstance(change, Unreadable)
    ]
    slices: list[ResourceSlice] = []
    classes: dict[str, DeviceClass] = {}
    allocations: dict[str, Allocation] = {}
    users: dict[str, tuple[str, ...]] = {}
    for one in picture.all(resources.RESOURCE_SLICES):
        try:
            slices.append(read_resource_slice(one))
        except ObjectError as error:
            problems.append(str(error))
    for one in picture.all(resources.DEVICE_CLASSES):
        try:
            classes[one.metadata.name] = read_device_class(one)
        except ObjectError as error:
            problems.append(str(error))
    for one in picture.all(resources.RESOURCE_CLAIMS):
        try:
            allocation = read_allocation(one)
        except ObjectError as error:
            problems.append(str(error))
            continue
        if allocation is not None:
            allocations[one.metadata.path] = allocation
            users[one.metadata.path] = tuple(user.name for user in one.status.reserved_for)
    found = (read_taint_rule(one) for one in picture.all(resources.DEVICE_TAINT_RULES))
    tainted = with_taint_rules(slices, [one for one in found if one is not None])
    return Devices(SliceIndex(tainted), classes, allocations, users, tuple(problems))
