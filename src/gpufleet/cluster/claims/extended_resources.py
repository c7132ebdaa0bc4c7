"""Which extended resources are served by claims of devices, and the claim that a pod gets for them.

A class serves a resource where no node counts it by number: a pod that asks for it then gets a claim of its
own (``kube.codec.special_claims``), which the scheduler makes with the pod's place. Where some node counts
it, as a device plugin does, the resource is one like any other.
"""

from collections import Counter
from collections.abc import Iterable

from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import of_object
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.special_claims import (
    SpecialClaim,
    asked_amounts,
    classes_by_resource,
    special_claim,
)
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind

NO_AMOUNTS = frozenset({"", "0"})
"""How kubelets write that they count none of a resource."""


def special_claim_of(pod: Pod, cluster: Lookup) -> SpecialClaim | None:
    """The claim that one pod of a cluster is to have for resources that classes serve."""
    found = ExtendedResources(cluster)
    found.renew()
    return found.claim_of(pod)


class ExtendedResources:
    """The resources that classes serve, as of the last ``renew``."""

    def __init__(self, cluster: Lookup) -> None:
        self._cluster = cluster
        self._class_by_resource: dict[str, str] = {}
        self._are_classes_new = True
        self._counted: dict[str, frozenset[str]] = {}
        self._nodes: Counter[str] = Counter()
        self._changed_nodes: dict[str, None] = {}
        self._served: dict[str, str] = {}

    def hear(self, kind: Kind, name: str) -> None:
        """An object appeared, changed or went."""
        if kind == resources.DEVICE_CLASSES:
            self._are_classes_new = True
        elif kind == resources.NODES and self._class_by_resource:
            self._changed_nodes[name] = None

    def renew(self) -> bool:
        """Take in what was heard; True if other resources are served than before, or by other classes."""
        if self._are_classes_new:
            self._are_classes_new = False
            found = classes_by_resource(self._cluster.all(resources.DEVICE_CLASSES))
            if found != self._class_by_resource:
                self._class_by_resource = found
                self._counted.clear()
                self._nodes.clear()
                self._changed_nodes = {one.metadata.name: None for one in self._cluster.all(resources.NODES)}
        self._count_anew(self._changed_nodes)
        self._changed_nodes = {}
        before = self._served
        self._served = {
            resource: name for resource, name in self._class_by_resource.items() if not self._nodes[resource]
        }
        return before != self._served

    def claim_of(self, pod: Pod) -> SpecialClaim | None:
        """The claim that a waiting pod is to have for resources that classes serve; None where it needs none.

        A pod whose claim was made keeps it, whatever nodes count since. Raises ObjectError for an amount that
        is none.
        """
        made = pod.status.extended_resource_claim_status
        by_resource = self._served if made is None else self._class_by_resource
        if not by_resource:
            return None
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        names = {name for one in containers for name in asked_amounts(one)}
        if made is not None:
            # What else it asks for is counted by nodes, whatever classes would serve it too.
            names &= {one.resource_name for one in made.request_mappings}
        served = {name: by_resource[name] for name in sorted(names & by_resource.keys())}
        with of_object("Pod", pod.metadata.path):
            return special_claim(pod, served) if served else None

    def _count_anew(self, nodes: Iterable[str]) -> None:
        """Which of the resources of classes each of these nodes counts by number."""
        for name in nodes:
            found: Node | None = self._cluster.find(resources.NODES, name)
            amounts = {} if found is None else found.status.allocatable
            counted = frozenset(
                one for one in self._class_by_resource if amounts.get(one, "") not in NO_AMOUNTS
            )
            self._nodes.subtract(self._counted.pop(name, ()))
            self._nodes.update(counted)
            if counted:
                self._counted[name] = counted
