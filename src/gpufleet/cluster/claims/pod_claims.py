"""The claims of one pod: which wait for devices, which have some, and why others cannot be judged."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from gpufleet.dra_allocation.claims import ResourceClaim
from gpufleet.dra_allocation.results import Allocation
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.resource_claims import read_resource_claim
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import Pod, ResourceClaimUse
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.model.label_advice import nearest


class ClaimFacts(Protocol):
    """What is known of allocations and classes."""

    def allocation(self, one: ResourceClaimObject) -> Allocation | None:
        """What a claim has. Raises ObjectError where that cannot be read."""
        ...

    def has_class(self, name: str) -> bool:
        """Whether there is such a class, which can be read."""
        ...

    def class_names(self) -> Iterable[str]:
        """The names of all DeviceClasses."""
        ...


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod: those that wait, those that have devices, and why others cannot be judged.

    ``ways`` says what to do for those others.
    """

    waiting: list[ResourceClaim] = field(default_factory=list)
    allocated: dict[str, Allocation] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)


def claims_of(pod: Pod, cluster: Lookup, devices: ClaimFacts) -> PodClaims:
    """The claims of a pod, by what they need."""
    found = PodClaims()
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        if use.resource_claim_name is not None:
            one = _find(found, pod, use.resource_claim_name, cluster)
        elif use.name not in made:
            _not_made(found, use)
            continue
        else:
            name = made[use.name]
            one = None if name is None else _find_made(found, pod, name, cluster)
        if one is not None:
            _sort_in(found, one, devices)
    return found


def _not_made(found: PodClaims, use: ResourceClaimUse) -> None:
    template = harmless(use.resource_claim_template_name or "")
    found.problems.append(f"no claim has been made of the template {template} yet")
    found.ways.append(
        f"kube-controller-manager makes the claim: see whether the ResourceClaimTemplate {template} is there"
    )


def _find(found: PodClaims, pod: Pod, name: str, cluster: Lookup) -> ResourceClaimObject | None:
    namespace = pod.metadata.namespace
    one: ResourceClaimObject | None = cluster.find(resources.RESOURCE_CLAIMS, name, namespace)
    if one is None:
        found.problems.append(f"the ResourceClaim {harmless(name)} is not there")
        every = (claim.metadata for claim in cluster.all(resources.RESOURCE_CLAIMS))
        known = (metadata.name for metadata in every if metadata.namespace == namespace)
        found.ways.append(_meant("ResourceClaim", name, known))
    return one


def _find_made(found: PodClaims, pod: Pod, name: str, cluster: Lookup) -> ResourceClaimObject | None:
    """The claim that was made of a template for this pod, which owns it.

    A claim of that name that another pod owns is left over from an earlier pod of this name, or was made by
    hand. Kubernetes' scheduler gives its devices to no other pod.
    """
    one = _find(found, pod, name, cluster)
    if one is None or any(owner.uid == pod.metadata.uid for owner in one.metadata.owner_references):
        return one
    found.problems.append(f"the ResourceClaim {harmless(name)} was not made for this pod")
    found.ways.append(f"delete the ResourceClaim {harmless(name)} if nothing uses it, then make the pod anew")
    return None


def _sort_in(found: PodClaims, one: ResourceClaimObject, devices: ClaimFacts) -> None:
    name = harmless(one.metadata.name)
    if one.metadata.deletion_timestamp is not None:
        found.problems.append(f"the ResourceClaim {name} is being deleted")
        found.ways.append("make it anew once it is gone")
        return
    try:
        allocation = devices.allocation(one)
        claim = None if allocation is not None else read_resource_claim(one)
    except ObjectError as error:
        found.problems.append(str(error))
        found.ways.append(f"correct that field in a new ResourceClaim {name}")
        return
    if allocation is not None:
        found.allocated[one.metadata.path] = allocation
    if claim is not None:
        found.waiting.append(claim)
        _check_classes(found, claim, devices)


def _check_classes(found: PodClaims, claim: ResourceClaim, devices: ClaimFacts) -> None:
    choices = (choice for request in claim.requests for choice in request.choices)
    for name in dict.fromkeys(choice.class_name for choice in choices):
        if not devices.has_class(name):
            found.problems.append(f"the DeviceClass {harmless(name)} is not there")
            found.ways.append(_meant("DeviceClass", name, devices.class_names()))


def _meant(kind: str, name: str, known: Iterable[str]) -> str:
    meant = nearest(name, list(known))
    return f"did you mean {harmless(meant)}?" if meant else f"create the {kind} {harmless(name)}"
