"""Controllers that need their pods to start together or not at all, in one table.

A row says by which label a pod names its owner, which kind the owner is, and what the owner's
own fields say about the members: how many must run at once, of which role. A controller that makes
some pods only after others run is never one gang, or it would wait for itself: its rows cut it into
parts that come together. Jobs and StatefulSets are not here: their pods stand alone unless they ask
(``gangs``).
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects import owners
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind

# Roles and startup policies, in the words of JobSet, LeaderWorkerSet, Ray and the training operators.
LEADER = "leader"
WORKER = "worker"
HEAD = "headgroup"
LAUNCHER = "launcher"
IN_ORDER = "InOrder"
LEADER_READY = "LeaderReady"
AFTER_WORKERS = "WaitForWorkersReady"


class OwnedPart(msgspec.Struct, frozen=True):
    """A pod's part: which of the owner's parts that come together, its role in it, and its minimums.

    ``name`` is "" where all of the owner's pods come together; a part of one pod is no gang.
    """

    min_members: int
    role_minimums: tuple[tuple[str, int], ...] = ()
    name: str = ""
    role: str = ""


class GangOwner(msgspec.Struct, frozen=True):
    """One kind of owner. ``controllers`` are the kinds that a pod's own controller may have."""

    kind: Kind
    type: type[Any]
    label: str
    controllers: tuple[str, ...]
    part: Callable[[Any, Pod], OwnedPart]


def _job_set(job_set: owners.JobSet, pod: Pod) -> OwnedPart:
    """All Jobs of a JobSet, or one kind of Job at a time where they come in order."""
    role = _label(pod, keys.JOB_SET_REPLICATED_JOB)
    counts = {job.name: job.replicas * job.template.spec.at_once for job in job_set.spec.replicated_jobs}
    if role not in counts:
        field = f"metadata.labels[{keys.JOB_SET_REPLICATED_JOB}]"
        raise ObjectError("not a Job of its JobSet", field=field, value=role, expected=", ".join(counts))
    policy = job_set.spec.startup_policy
    ordered = policy is not None and policy.startup_policy_order == IN_ORDER
    if ordered or any(job.depends_on for job in job_set.spec.replicated_jobs):
        return OwnedPart(counts[role], name=role, role=role)
    return _all_of(counts, role)


def _leader_worker_set(found: owners.LeaderWorkerSet, pod: Pod) -> OwnedPart:
    """One leader and its workers; without the leader where the workers wait for it."""
    group = _label(pod, keys.LEADER_WORKER_SET_GROUP)
    size = found.spec.leader_worker_template.size
    role = LEADER if _label(pod, keys.LEADER_WORKER_SET_WORKER) == "0" else WORKER
    waits = found.spec.startup_policy == LEADER_READY
    if waits or keys.LEADER_WORKER_SET_EXCLUSIVE in found.metadata.annotations:
        return OwnedPart(1 if role == LEADER else size - 1, name=f"{group}/{role}", role=role)
    return OwnedPart(size, ((LEADER, 1), (WORKER, size - 1)) if size > 1 else ((LEADER, 1),), group, role)


def _training_job(job: owners.TrainingJob, pod: Pod) -> OwnedPart:
    """All replicas, or ``minAvailable`` of them; of elastic workers as many as can train."""
    labels = pod.metadata.labels
    role = labels.get(keys.TRAINING_ROLE) or labels.get(keys.MPI_ROLE, "")
    counts = {
        name.lower(): 1 if replicas.replicas is None else replicas.replicas
        for name, replicas in job.spec.replicas.items()
    }
    elastic = job.spec.elastic_policy
    if elastic is not None and elastic.min_replicas is not None and WORKER in counts:
        counts[WORKER] = min(counts[WORKER], elastic.min_replicas)
    if job.spec.launcher_creation_policy == AFTER_WORKERS:
        if role == LAUNCHER:
            return OwnedPart(1, name=LAUNCHER, role=role)
        counts.pop(LAUNCHER, None)
    policy = job.spec.run_policy.scheduling_policy
    if policy is not None and policy.min_available is not None:
        return OwnedPart(policy.min_available, role=role)
    return _all_of(counts, role)


def _ray_cluster(cluster: owners.RayCluster, pod: Pod) -> OwnedPart:
    """The head and its workers; where their number follows the load, as few as there may be."""
    counts = {HEAD: 1}
    for group in cluster.spec.worker_group_specs:
        if not group.suspend:
            scaled = cluster.spec.enable_in_tree_autoscaling
            replicas = group.min_replicas if scaled or group.replicas is None else group.replicas
            counts[group.group_name] = (replicas or 0) * group.num_of_hosts
    return _all_of(counts, _label(pod, keys.RAY_GROUP))


def _all_of(counts: Mapping[str, int], role: str) -> OwnedPart:
    minimums = tuple(sorted((name, count) for name, count in counts.items() if count))
    return OwnedPart(sum(counts.values()), minimums, role=role)


def _label(pod: Pod, key: str) -> str:
    value = pod.metadata.labels.get(key)
    if value is None:
        raise ObjectError(
            "a label is missing", field=f"metadata.labels[{key}]", expected="what its controller writes"
        )
    return value


def _training(kind: Kind) -> GangOwner:
    # An MPIJob's launcher is made by a Job.
    return GangOwner(kind, owners.TrainingJob, keys.TRAINING_JOB, (kind.name, "Job"), _training_job)


# Controllers whose pods start together although the pods name no group.
OWNERS: tuple[GangOwner, ...] = (
    GangOwner(resources.JOB_SETS, owners.JobSet, keys.JOB_SET, ("Job",), _job_set),
    GangOwner(
        resources.LEADER_WORKER_SETS,
        owners.LeaderWorkerSet,
        keys.LEADER_WORKER_SET,
        ("StatefulSet",),
        _leader_worker_set,
    ),
    _training(resources.PYTORCH_JOBS),
    _training(resources.TF_JOBS),
    _training(resources.JAX_JOBS),
    _training(resources.PADDLE_JOBS),
    _training(resources.XGBOOST_JOBS),
    _training(resources.MPI_JOBS),
    GangOwner(resources.RAY_CLUSTERS, owners.RayCluster, keys.RAY_CLUSTER, ("RayCluster",), _ray_cluster),
)
