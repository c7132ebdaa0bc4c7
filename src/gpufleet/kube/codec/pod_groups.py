"""Groups that pods name themselves, each in the words of the project it comes from.

Every function takes the pod, the group's name and the lookup, and answers with the membership, or
with a wait while the group's object is not there.
"""

from typing import Any

from gpufleet.kube import keys, resources
from gpufleet.kube.codec.counts import read_count
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.gang_stale_after import read_stale_after
from gpufleet.kube.codec.gang_terms import GangTerms, Membership
from gpufleet.kube.codec.hyper_nodes import levels_of
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.waits import Wait, WaitReason
from gpufleet.kube.meanings.group_names import said_of_gang
from gpufleet.kube.objects.disruption import PriorityClass
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.pod_groups import KaiPodGroup, PluginsPodGroup, PodGroup, VolcanoPodGroup
from gpufleet.kube.resources import Kind
from gpufleet.model.identifiers import GangName, QueueName, TopologyLevelName
from gpufleet.model.model_errors import InputError


def native(pod: Pod, name: str, lookup: Lookup) -> Membership | Wait:
    """The PodGroup of scheduling.k8s.io; one without a gang policy is a gang of one."""
    kinds = (resources.POD_GROUPS_V1BETA1, resources.POD_GROUPS_V1ALPHA2)
    group: PodGroup | None = next((one for kind in kinds if (one := _find(lookup, kind, pod, name))), None)
    if group is None:
        return _missing("PodGroup", name)
    spec = group.spec
    field = f"PodGroup {harmless(name)}: spec"
    if spec.parent_composite_pod_group_name is not None:
        problem = "a part of a CompositePodGroup, which cannot be scheduled here"
        raise InputError(problem, field=f"{field}.parentCompositePodGroupName", expected="none")
    topology = () if spec.scheduling_constraints is None else spec.scheduling_constraints.topology
    if len(topology) > 1:
        place = f"{field}.schedulingConstraints.topology"
        raise InputError(f"{len(topology)} topologies", field=place, expected="at most one")
    gang = spec.scheduling_policy.gang
    terms = GangTerms(
        1 if gang is None else gang.min_count,
        priority=spec.priority,
        required_level=_level(topology[0].key if topology else ""),
        created_at=group.metadata.creation_timestamp,
        field=f"{field}.schedulingPolicy.gang.minCount",
    )
    return Membership(_name(resources.POD_GROUPS_V1BETA1, pod, name), terms)


def of_plugins(pod: Pod, name: str, lookup: Lookup) -> Membership | Wait:
    """The PodGroup of scheduler-plugins."""
    kind = resources.PLUGINS_POD_GROUPS
    group: PluginsPodGroup | None = _find(lookup, kind, pod, name)
    if group is None:
        return _missing("PodGroup of scheduler-plugins", name)
    created_at = group.metadata.creation_timestamp
    field = f"PodGroup {harmless(name)}: spec.minMember"
    return Membership(
        _name(kind, pod, name), GangTerms(group.spec.min_member, created_at=created_at, field=field)
    )


def of_volcano(pod: Pod, name: str, lookup: Lookup) -> Membership | Wait:
    """The PodGroup of Volcano; a pod's role is its task."""
    kind = resources.VOLCANO_POD_GROUPS
    group: VolcanoPodGroup | None = _find(lookup, kind, pod, name)
    if group is None:
        return _missing("PodGroup of Volcano", name)
    spec = group.spec
    field = f"PodGroup {harmless(name)}: spec"
    if any(one.network_topology is not None for one in spec.sub_group_policy):
        problem = "a network topology of a subgroup, which cannot be kept"
        place = f"{field}.subGroupPolicy"
        raise InputError(problem, field=place, expected="podset-slice-required-topology on the pods")
    required, preferred = levels_of(spec.network_topology, lookup, f"{field}.networkTopology")
    minimum = pod.metadata.annotations.get(keys.VOLCANO_GROUP_MINIMUM)
    if minimum is not None:
        place = f"metadata.annotations[{keys.VOLCANO_GROUP_MINIMUM}]"
        if read_count(minimum, place) != spec.min_member:
            expected = f"the PodGroup's {spec.min_member}"
            raise InputError("another size than its group's", field=place, value=minimum, expected=expected)
    terms = GangTerms(
        # Volcano writes 1 where its users leave it out.
        spec.min_member or 1,
        role_minimums=tuple(sorted((role, count) for role, count in spec.min_task_member.items() if count)),
        queue=QueueName(spec.queue) if spec.queue else None,
        priority=_priority(spec.priority_class_name, field, lookup),
        required_level=required,
        preferred_level=preferred,
        created_at=group.metadata.creation_timestamp,
        field=f"{field}.minMember",
    )
    return Membership(_name(kind, pod, name), terms, pod.metadata.annotations.get(keys.VOLCANO_TASK, ""))


def of_kai(pod: Pod, name: str, lookup: Lookup) -> Membership | Wait:
    """The PodGroup of KAI; a pod's role is its subgroup."""
    kind = resources.KAI_POD_GROUPS
    group: KaiPodGroup | None = _find(lookup, kind, pod, name)
    if group is None:
        return _missing("PodGroup of KAI", name)
    spec = group.spec
    field = f"PodGroup {harmless(name)}: spec"
    parents = {sub.parent for sub in spec.sub_groups}
    # Pods name the leaves of the tree; what is above them only divides.
    leaves = tuple(sub for sub in spec.sub_groups if sub.name not in parents)
    minimums = tuple(sorted((sub.name, sub.min_member) for sub in leaves if sub.min_member))
    constraint = spec.topology_constraint
    terms = GangTerms(
        spec.min_member or sum(count for _, count in minimums) or 1,
        role_minimums=minimums,
        queue=QueueName(spec.queue) if spec.queue else None,
        priority=_priority(spec.priority_class_name, field, lookup),
        required_level=_level("" if constraint is None else constraint.required_topology_level),
        preferred_level=_level("" if constraint is None else constraint.preferred_topology_level),
        stale_after_us=_stale_after(spec.staleness_grace_period, f"{field}.stalenessGracePeriod"),
        created_at=group.metadata.creation_timestamp,
        field=f"{field}.minMember",
    )
    return Membership(_name(kind, pod, name), terms, pod.metadata.labels.get(keys.KAI_SUBGROUP, ""))


def _stale_after(text: str | None, field: str) -> int | None:
    return None if text is None else read_stale_after(text, field)


def of_kueue(pod: Pod, name: str, _lookup: Lookup) -> Membership | Wait:
    """Kueue's group of plain pods, which has no object: its size stands on each member."""
    field = f"metadata.annotations[{keys.KUEUE_GROUP_TOTAL}]"
    text = said_of_gang(pod.metadata.labels, pod.metadata.annotations, keys.KUEUE_GROUP_TOTAL)
    if text is None:
        raise InputError("a group without its size", field=field, expected="the number of its pods")
    # Kueue admits such a group with exactly this number of pods.
    terms = GangTerms(read_count(text, field), exact_members=True, field=field)
    return Membership(GangName(f"kueue/{pod.metadata.namespace}/{name}"), terms)


def _find(lookup: Lookup, kind: Kind, pod: Pod, name: str) -> Any | None:
    return lookup.find(kind, name, pod.metadata.namespace)


def _name(kind: Kind, pod: Pod, name: str) -> GangName:
    return GangName(f"{kind.plural}.{kind.group}/{pod.metadata.namespace}/{name}")


def _missing(kind: str, name: str) -> Wait:
    return Wait(WaitReason.GROUP_MISSING, f"its {kind} {harmless(name)} is not there")


def _level(label: str) -> TopologyLevelName | None:
    return TopologyLevelName(label) if label else None


def _priority(name: str, field: str, lookup: Lookup) -> int | None:
    if not name:
        return None
    found: PriorityClass | None = lookup.find(resources.PRIORITY_CLASSES, name)
    if found is None:
        place = f"{field}.priorityClassName"
        raise InputError("no such PriorityClass", field=place, value=name, expected="one that is there")
    return found.value
