"""Gangs that pods ask for without a group object: by our annotation, or by a minimum among an owner's pods.

``gpufleet.io/gang: NAME`` gathers the pods of a namespace that carry this name. The size is
``gpufleet.io/gang-min-members``; without it, a Job's or a StatefulSet's own number of pods. Volcano and KAI
also write a bare minimum on the pods of one controller, Kueue on a Job that may start with fewer pods than it
would like.
"""

from gpufleet.kube import keys, resources
from gpufleet.kube.codec.counts import read_count
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.gang_terms import GangTerms, Membership
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.waits import Wait, WaitReason
from gpufleet.kube.meanings.group_names import BARE_MINIMUMS, said_of_gang
from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.objects.owners import Job, StatefulSet
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import GangName
from gpufleet.model.model_errors import InputError

PARALLEL = "Parallel"
"""The StatefulSet policy that makes all pods at once; otherwise each pod waits for the one before."""


def own_gang(pod: Pod, name: str, lookup: Lookup) -> Membership | Wait:
    """The gang of our own annotation or label."""
    minimum = _said(pod, keys.GANG_MIN_MEMBERS)
    field = f"metadata.annotations[{keys.GANG_MIN_MEMBERS}]"
    size = _size_of_controller(pod, field, lookup) if minimum is None else read_count(minimum, field)
    if isinstance(size, Wait):
        return size
    path = GangName(f"gang/{pod.metadata.namespace}/{name}")
    return Membership(path, GangTerms(size, field=field), _said(pod, keys.GANG_ROLE) or "")


def alone_with_a_minimum(pod: Pod, controller: OwnerReference) -> Membership | None:
    """The gang of all pods of one controller, where Volcano's or KAI's bare minimum asks for it."""
    for key in BARE_MINIMUMS:
        text = _said(pod, key)
        if text is not None:
            field = f"metadata.annotations[{key}]"
            path = f"{controller.kind.lower()}/{pod.metadata.namespace}/{controller.name}"
            return Membership(GangName(path), GangTerms(read_count(text, field), field=field))
    return None


def partial_job(pod: Pod, controller: OwnerReference, lookup: Lookup) -> Membership | None:
    """The gang of a Job's pods, where the Job says with how many of them it may start.

    A Job that is not there is not waited for: Jobs may be out of the scheduler's sight.
    """
    if controller.kind != "Job":
        return None
    job: Job | None = lookup.find(resources.JOBS, controller.name, pod.metadata.namespace)
    said = {} if job is None else job.metadata.annotations
    text = said.get(keys.KUEUE_MIN_PARALLELISM, pod.metadata.annotations.get(keys.KUEUE_MIN_PARALLELISM))
    if text is None:
        return None
    field = f"Job {harmless(controller.name)}: metadata.annotations[{keys.KUEUE_MIN_PARALLELISM}]"
    least = read_count(text, field)
    size = least if job is None else min(least, job.spec.at_once)
    return Membership(
        GangName(f"job/{pod.metadata.namespace}/{controller.name}"), GangTerms(size, field=field)
    )


def _size_of_controller(pod: Pod, field: str, lookup: Lookup) -> int | Wait:
    controller = pod.metadata.controller
    namespace = pod.metadata.namespace
    if controller is not None and controller.kind == "Job":
        job: Job | None = lookup.find(resources.JOBS, controller.name, namespace)
        return _missing(controller) if job is None else job.spec.at_once
    if controller is not None and controller.kind == "StatefulSet":
        found: StatefulSet | None = lookup.find(resources.STATEFUL_SETS, controller.name, namespace)
        if found is None:
            return _missing(controller)
        # Its second pod is made when the first is ready, which waits for the second.
        if found.spec.pod_management_policy != PARALLEL:
            problem = f"StatefulSet {harmless(controller.name)} starts its pods one after the other"
            raise InputError(problem, field="podManagementPolicy", expected=PARALLEL)
        return 1 if found.spec.replicas is None else found.spec.replicas
    raise InputError("a gang without its size", field=field, expected="how many pods must start together")


def _missing(controller: OwnerReference) -> Wait:
    message = f"its owner, {harmless(controller.kind)} {harmless(controller.name)}, is not there"
    return Wait(WaitReason.GROUP_MISSING, message)


def _said(pod: Pod, key: str) -> str | None:
    return said_of_gang(pod.metadata.labels, pod.metadata.annotations, key)
