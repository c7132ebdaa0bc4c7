"""Groups of nodes that an autoscaler grows from nothing: those of eksctl and of Cluster API.

Of a group without nodes the autoscaler knows what the group itself tells: on AWS tags beside the type of
instance, in Cluster API annotations, or the capacity that the template of its machines reports. Sources: the
README of its provider for AWS, eksctl's guide to autoscaling, and ``CanScaleFromZero`` of that for Cluster
API.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.kube.meanings.gpu_instances import is_gpu_instance
from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
GPU_TYPE, GPU_COUNT = f"{_CAPACITY}/gpu-type", f"{_CAPACITY}/gpu-count"
DRA_DRIVER = f"{_CAPACITY}/dra-driver"
_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
# Kinds of Cluster API whose machines become nodes.
_MACHINES = frozenset({"MachineDeployment", "MachineSet", "MachinePool"})
_ABOUT_GPUS = re.compile(r"gpu|accelerator", re.IGNORECASE)


def is_eksctl(manifest: Manifest) -> bool:
    """Whether the object is a cluster as eksctl makes it."""
    return (manifest.group, manifest.kind) == ("eksctl.io", "ClusterConfig")


def is_machine_group(manifest: Manifest) -> bool:
    """Whether the object is a group of machines of Cluster API."""
    return manifest.group == "cluster.x-k8s.io" and manifest.kind in _MACHINES


@dataclass(frozen=True)
class EksctlGroup:
    """A node group of eksctl; ``is_managed`` for those of EKS."""

    field: Field
    is_managed: bool

    @property
    def name(self) -> str:
        """The node group's name."""
        return self.field.text_at("name") or self.field.path

    @property
    def has_gpus(self) -> bool:
        """Whether one of its types of instances has GPUs."""
        types = [self.field.at("instanceType"), *self.field.at("instanceTypes").items()]
        types += self.field.at("instancesDistribution", "instanceTypes").items()
        return any(is_gpu_instance(one.text or "") for one in types)

    @property
    def starts_empty(self) -> bool:
        """Whether it may have no nodes."""
        return self.field.at("minSize").integer == 0

    @property
    def untold(self) -> tuple[str, ...]:
        """Tags that would tell the autoscaler its labels and taints, and that it does not have."""
        if self.field.at("propagateASGTags").is_true:
            return ()
        wanted = [f"{TEMPLATE_TAG}/label/{name}" for name, _ in self.field.at("labels").entries()]
        taints = self.field.at("taints")
        names = [name for name, _ in taints.entries()] + [one.text_at("key") or "" for one in taints.items()]
        wanted += [f"{TEMPLATE_TAG}/taint/{name}" for name in names]
        return tuple(one for one in wanted if not self.field.at("tags", one).exists)


def eksctl_groups(manifest: Manifest) -> Iterator[EksctlGroup]:
    """The node groups of an eksctl file."""
    for kind in ("nodeGroups", "managedNodeGroups"):
        for one in manifest.root.at(kind).items():
            yield EksctlGroup(one, is_managed=kind == "managedNodeGroups")


@dataclass(frozen=True)
class MachineGroup:
    """A group of machines, and the template that they are made of, if that is known."""

    manifest: Manifest
    template: Manifest | None

    @property
    def starts_empty(self) -> bool:
        """Whether an autoscaler grows it and may leave it without machines."""
        least = self.manifest.annotation(f"{_SIZE}-min-size")
        return self.manifest.annotation(f"{_SIZE}-max-size") is not None and least in {None, "0"}

    @property
    def capacity(self) -> Field | None:
        """What the template reports of its machines; None where it reports nothing."""
        field = self.template.root.at("status", "capacity") if self.template is not None else None
        return field if field is not None and field.exists else None

    @property
    def reports_gpus(self) -> bool:
        """Whether the template reports GPUs."""
        return self.capacity is not None and any(is_gpu(name) for name, _ in self.capacity.entries())

    @property
    def has_gpus(self) -> bool:
        """Whether something of it tells of GPUs."""
        machine = self.manifest.root.at("spec", "template")
        names = [name for name, _ in machine.at("metadata", "labels").entries()]
        names += [one.text_at("key") or "" for one in machine.at("spec", "taints").items()]
        names += [self.manifest.annotation(f"{_CAPACITY}/{one}") or "" for one in ("labels", "taints")]
        annotated = any(self.manifest.annotation(one) for one in (GPU_TYPE, GPU_COUNT, DRA_DRIVER))
        return (
            annotated or any(map(_ABOUT_GPUS.search, names)) or self.reports_gpus or self._is_of_gpu_instances
        )

    @property
    def _is_of_gpu_instances(self) -> bool:
        if self.template is None:
            return False
        spec = self.template.root.at("spec", "template", "spec")
        return any(is_gpu_instance(spec.text_at(name) or "") for name in ("instanceType", "vmSize"))
