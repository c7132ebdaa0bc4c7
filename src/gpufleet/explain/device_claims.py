"""The claims of a pod and the devices of the cluster, read for an answer about them.

Kinds of claims are listed only where the question is about a pod that has some: most clusters have many
slices, and most questions need none. ``claim_nodes`` judges what is read here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpufleet.cluster.watching.mirrors import Watched
from gpufleet.cluster.watching.picture import Picture
from gpufleet.dra_allocation.claims import DeviceClass, ResourceClaim
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.results import Allocation
from gpufleet.dra_allocation.slices import ResourceSlice
from gpufleet.dra_allocation.taint_rules import with_taint_rules
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.resource_claims import read_allocation, read_resource_claim
from gpufleet.kube.codec.resource_slices import (
    read_device_class,
    read_resource_slice,
    read_taint_rule,
)
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.mirror_changes import Unreadable
from gpufleet.kube.objects.pod import Pod, ResourceClaimUse
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import (
    DeviceClassObject,
    DeviceTaintRuleObject,
    ResourceSliceObject,
)
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import printable

CLAIM_KINDS = (
    Watched(resources.RESOURCE_CLAIMS, ResourceClaimObject, optional=True),
    Watched(resources.RESOURCE_SLICES, ResourceSliceObject, optional=True),
    Watched(resources.DEVICE_CLASSES, DeviceClassObject, optional=True),
    Watched(resources.DEVICE_TAINT_RULES, DeviceTaintRuleObject, optional=True),
)
"""What claims are judged by. Clusters before Kubernetes 1.34 have none of it, before 1.37 no taint rules."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a cluster, the classes, and what claims have. ``problems`` tells what is unreadable."""

    slices: SliceIndex
    classes: Mapping[str, DeviceClass]
    allocations: Mapping[str, Allocation]
    users: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod: those that wait, those that have devices, and why others cannot be judged.

    ``ways`` says what to do for those others.
    """

    waiting: list[ResourceClaim] = field(default_factory=list)
    allocated: dict[str, Allocation] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)


def read_devices(picture: Picture) -> Devices:
    """All devices, classes and allocations of a picture."""
    problems = [
        f"{kind.name} {harmless(change.name)}: {printable(change.problem)}"
        for kind, change in picture.unreadable
        if isinstance(change, Unreadable)
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


def claims_of(pod: Pod, picture: Picture, devices: Devices) -> PodClaims:
    """The claims of a pod, by what they need."""
    found = PodClaims()
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        name = use.resource_claim_name
        if name is None:
            if use.name not in made:
                _not_made(found, use)
                continue
            name = made[use.name]
        if name is not None:
            _sort_in(found, pod.metadata.namespace, name, picture, devices)
    return found


def _not_made(found: PodClaims, use: ResourceClaimUse) -> None:
    template = harmless(use.resource_claim_template_name or "")
    found.problems.append(f"no claim has been made of the template {template} yet")
    found.ways.append(
        f"kube-controller-manager makes the claim: see whether the ResourceClaimTemplate {template} is there"
    )


def _sort_in(found: PodClaims, namespace: str, name: str, picture: Picture, devices: Devices) -> None:
    one: ResourceClaimObject | None = picture.find(resources.RESOURCE_CLAIMS, name, namespace)
    if one is None:
        found.problems.append(f"the ResourceClaim {harmless(name)} is not there")
        known = (key[1] for key in picture.objects.get(resources.RESOURCE_CLAIMS, {}) if key[0] == namespace)
        found.ways.append(_meant("ResourceClaim", name, known))
        return
    path = one.metadata.path
    if one.metadata.deletion_timestamp is not None:
        found.problems.append(f"the ResourceClaim {harmless(name)} is being deleted")
        found.ways.append("make it anew once it is gone")
    elif path in devices.allocations:
        found.allocated[path] = devices.allocations[path]
    else:
        try:
            claim = read_resource_claim(one)
        except ObjectError as error:
            found.problems.append(str(error))
            found.ways.append(f"correct that field in a new ResourceClaim {harmless(name)}")
            return
        found.waiting.append(claim)
        _check_classes(found, claim, devices.classes)


def _check_classes(found: PodClaims, claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> None:
    choices = (choice for request in claim.requests for choice in request.choices)
    for name in dict.fromkeys(choice.class_name for choice in choices):
        if name not in classes:
            found.problems.append(f"the DeviceClass {harmless(name)} is not there")
            found.ways.append(_meant("DeviceClass", name, classes))


def _meant(kind: str, name: str, known: Iterable[str]) -> str:
    meant = nearest(name, list(known))
    return f"did you mean {harmless(meant)}?" if meant else f"create the {kind} {harmless(name)}"
