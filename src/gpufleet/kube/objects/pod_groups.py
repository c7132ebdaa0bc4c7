"""The objects by which people say that pods belong together: Kubernetes' own, and others' of that name.

Minimums are read as any integer: what cannot be is refused by ``codec.gangs``, with its reason.
"""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure


class GangPolicy(Structure, frozen=True):
    """All or nothing from so many members on."""

    min_count: int


class SchedulingPolicy(Structure, frozen=True):
    """How the group's pods are scheduled; without ``gang`` each goes on its own."""

    gang: GangPolicy | None = None


class TopologyConstraint(Structure, frozen=True):
    """A node label of which all members must share one value."""

    key: str


class SchedulingConstraints(Structure, frozen=True):
    """Where the members must be."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Structure, frozen=True):
    """What is asked for a native group."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    priority: int | None = None
    priority_class_name: str = ""
    parent_composite_pod_group_name: str | None = None


class PodGroup(Structure, frozen=True):
    """The native PodGroup of scheduling.k8s.io (v1alpha2 of 1.36, v1beta1 of 1.37)."""

    metadata: Metadata
    spec: PodGroupSpec


class PluginsPodGroupSpec(Structure, frozen=True):
    """What is asked for a group of scheduler-plugins."""

    min_member: int


class PluginsPodGroup(Structure, frozen=True):
    """The PodGroup of scheduling.x-k8s.io."""

    metadata: Metadata
    spec: PluginsPodGroupSpec


class NetworkTopology(Structure, frozen=True):
    """Volcano's wish for nodes that are near to one another."""

    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Structure, frozen=True):
    """How a part of a group of Volcano is placed."""

    network_topology: NetworkTopology | None = None


class VolcanoPodGroupSpec(Structure, frozen=True):
    """What is asked for a group of Volcano."""

    min_member: int = 0
    min_task_member: dict[str, int] = msgspec.field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class VolcanoPodGroup(Structure, frozen=True):
    """The PodGroup of scheduling.volcano.sh."""

    metadata: Metadata
    spec: VolcanoPodGroupSpec


class KaiTopologyConstraint(Structure, frozen=True):
    """KAI's wish for nodes that are near to one another; the levels are node labels."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class KaiSubGroup(Structure, frozen=True):
    """A part of a KAI group; its pods carry its name as a label."""

    name: str
    min_member: int = 0
    parent: str | None = None


class KaiPodGroupSpec(Structure, frozen=True):
    """What is asked for a group of KAI."""

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    sub_groups: tuple[KaiSubGroup, ...] = ()
    topology_constraint: KaiTopologyConstraint | None = None
    staleness_grace_period: str | None = None


class KaiPodGroup(Structure, frozen=True):
    """The PodGroup of scheduling.run.ai."""

    metadata: Metadata
    spec: KaiPodGroupSpec
