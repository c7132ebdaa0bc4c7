"""Which pods belong together, and what their gang asks for.

A pod may say it itself in six ways (``CLAIMS``); a pod that says it in two ways is refused, because two
groups cannot both be right. A pod that says nothing may have an owner that keeps its pods together
(``gang_owners``). Each member is read on its own; ``make_gang`` then puts the members' words together, and
where they differ the whole gang is refused, with the reason.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.codec import pod_groups
from gpufleet.kube.codec.field_path import harmless, of_object
from gpufleet.kube.codec.gang_owners import OWNERS, GangOwner
from gpufleet.kube.codec.gang_stale_after import stale_after_of
from gpufleet.kube.codec.gang_terms import GangTerms, Membership
from gpufleet.kube.codec.gpu_models import one_model_of
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.own_gangs import alone_with_a_minimum, own_gang, partial_job
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.codec.topology_terms import with_topology
from gpufleet.kube.codec.waits import Wait, WaitReason
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings import group_names
from gpufleet.kube.meanings.group_names import GroupName, named_groups
from gpufleet.kube.objects.disruption import PriorityClass
from gpufleet.kube.objects.hyper_nodes import HyperNode
from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.objects.owners import Job, StatefulSet
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.pod_groups import KaiPodGroup, PluginsPodGroup, PodGroup, VolcanoPodGroup
from gpufleet.kube.resources import Kind
from gpufleet.model import pod as model
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError

Read = Membership | Wait | None

ROLES_MAX = 1000
"""A gang has at most so many roles, because a grant can name no more (``bound_terms``)."""


def _native_name(pod: Pod) -> str | None:
    if pod.spec.workload_ref is not None:
        expected = "spec.schedulingGroup of Kubernetes 1.36 or later, or another kind of group"
        raise ObjectError("a workloadRef of Kubernetes 1.35", field="spec.workloadRef", expected=expected)
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name


CLAIMS: dict[GroupName, Callable[[Pod, str, Lookup], Membership | Wait]] = {
    group_names.NATIVE: pod_groups.native,
    group_names.PLUGINS: pod_groups.of_plugins,
    group_names.VOLCANO: pod_groups.of_volcano,
    group_names.KAI: pod_groups.of_kai,
    group_names.KUEUE: pod_groups.of_kueue,
    group_names.OWN: own_gang,
}
"""What each way of naming a group means."""


FOLLOWED: tuple[tuple[Kind, type[Any]], ...] = (
    (resources.POD_GROUPS_V1BETA1, PodGroup),
    (resources.POD_GROUPS_V1ALPHA2, PodGroup),
    (resources.PLUGINS_POD_GROUPS, PluginsPodGroup),
    (resources.VOLCANO_POD_GROUPS, VolcanoPodGroup),
    (resources.HYPER_NODES, HyperNode),
    (resources.KAI_POD_GROUPS, KaiPodGroup),
    (resources.PRIORITY_CLASSES, PriorityClass),
    (resources.JOBS, Job),
    (resources.STATEFUL_SETS, StatefulSet),
    *((row.kind, row.type) for row in OWNERS),
)
"""The kinds that are looked up here, and what their objects are decoded as; few clusters have all."""


def read_membership(pod: Pod, lookup: Lookup) -> Read:
    """The pod's gang; None if it stands alone; a wait if what it names is not there yet.

    Raises ObjectError for a pod that names two groups, or one that cannot be.
    """
    with of_object("pod", pod.metadata.path):
        metadata = pod.metadata
        claimed = tuple(named_groups(metadata.labels, metadata.annotations, _native_name(pod)))
        if len(claimed) > 1:
            named = " and ".join(claim.field for claim, _ in claimed)
            raise InputError("a pod in two groups", field=named, expected="one of them")
        if claimed:
            claim, name = claimed[0]
            _check_name(name, claim.field)
            return _complete(pod, CLAIMS[claim](pod, name, lookup))
        controller = pod.metadata.controller
        if controller is None:
            return None
        alone = alone_with_a_minimum(pod, controller) or partial_job(pod, controller, lookup)
        return _complete(pod, _owned(pod, controller, lookup) if alone is None else alone)


def _complete(pod: Pod, read: Read) -> Read:
    """The membership with the gang's place, models and time to stay short that the pod itself states."""
    if not isinstance(read, Membership):
        return read
    terms = with_topology(pod, read.terms)
    if keys.GANG_ONE_MODEL in pod.metadata.annotations:
        terms = msgspec.structs.replace(terms, model_order=one_model_of(pod.metadata.annotations))
    stale_after_us = stale_after_of(pod)
    if stale_after_us is not None:
        terms = msgspec.structs.replace(terms, stale_after_us=stale_after_us)
    return msgspec.structs.replace(read, terms=terms)


def make_gang(name: GangName, members: Sequence[tuple[model.Pod, Membership]]) -> Gang:
    """The gang of these members, at least one, without those that ended.

    Raises ObjectError where their words differ: then none of them may be placed.
    """
    first_pod, first = members[0]
    terms = first.terms
    with of_object("gang", name):
        for pod, membership in members[1:]:
            if membership.terms != terms:
                problem = f"{harmless(first_pod.name)} and {harmless(pod.name)} differ in what they say of it"
                raise InputError(
                    problem, field=_difference(terms, membership.terms), expected="the same in all"
                )
        # An object that stands for the gang may name the queue; else all members have to agree.
        queues = {pod.queue for pod, _ in members} if terms.queue is None else {terms.queue}
        if len(queues) > 1:
            named = " and ".join(sorted(harmless(queue) for queue in queues))
            raise InputError(f"members in several queues, {named}", field="queue", expected="one queue")
        if terms.exact_members and len(members) > terms.min_members:
            problem = f"{len(members)} members of a group of {terms.min_members}"
            raise InputError(problem, field=terms.field, expected=f"at most {terms.min_members}")
        _check_minimums(terms)
    # A gang starts as a whole, so its most urgent member speaks for all, and its oldest for its age.
    priority = max(pod.priority for pod, _ in members) if terms.priority is None else terms.priority
    created_at_us = min(pod.created_at_us for pod, _ in members)
    return Gang(
        name=name,
        min_members=terms.min_members,
        queue=next(iter(queues)),
        priority=priority,
        required_level=terms.required_level,
        preferred_level=terms.preferred_level,
        slices=terms.slices,
        slices_preferred=terms.slices_preferred,
        balanced=terms.balanced,
        model_order=terms.model_order,
        created_at_us=created_at_us if terms.created_at is None else microseconds(terms.created_at),
        role_minimums=terms.role_minimums,
    )


def _check_minimums(terms: GangTerms) -> None:
    if not 0 < terms.min_members < 2**31:
        field = terms.field or "min members"
        raise InputError("not a size", field=field, value=terms.min_members, expected="1 or more members")
    if len(terms.role_minimums) > ROLES_MAX:
        problem = f"{len(terms.role_minimums)} roles"
        raise InputError(problem, field=terms.field or "roles", expected=f"at most {ROLES_MAX}")
    for role, count in terms.role_minimums:
        if not 0 < count < 2**31:
            field = f"{terms.field}[{harmless(role)}]"
            raise InputError("not a number of members", field=field, value=count, expected="1 or more")


def _difference(one: GangTerms, other: GangTerms) -> str:
    differing: Iterable[str] = (
        name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)
    )
    return ", ".join(differing)


def _check_name(name: str, field: str) -> None:
    if "/" in name:
        raise InputError(
            "a group of another namespace", field=field, value=name, expected="a name without slash"
        )
    if not is_subdomain(name):
        raise InputError("not a group's name", field=field, value=name, expected="a DNS name")


def _owned(pod: Pod, controller: OwnerReference, lookup: Lookup) -> Read:
    labels = pod.metadata.labels
    rows = [row for row in OWNERS if row.label in labels and controller.kind in row.controllers]
    if not rows:
        return None
    # Several kinds of training job share a label; the pod's controller, or what is there, tells which.
    named = [row for row in rows if row.kind.name == controller.kind] or rows
    for row in named:
        found = lookup.find(row.kind, labels[row.label], pod.metadata.namespace)
        if found is not None:
            return _part(row, found, pod)
    kinds = " or ".join(row.kind.name for row in named)
    message = f"its owner, {kinds} {harmless(labels[named[0].label])}, is not there"
    return Wait(WaitReason.GROUP_MISSING, message)


def _part(row: GangOwner, owner: object, pod: Pod) -> Membership | None:
    part = row.part(owner, pod)
    name = pod.metadata.labels[row.label]
    if part.min_members == 1 and part.name:
        # A part of one pod, such as a leader that comes before its workers, starts alone.
        return None
    path = "/".join(word for word in (row.kind.plural, pod.metadata.namespace, name, part.name) if word)
    terms = GangTerms(part.min_members, part.role_minimums, field=f"{row.kind.name} {harmless(name)}")
    return Membership(GangName(path), terms, part.role)
