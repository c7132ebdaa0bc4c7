"""To which workload a pod belongs: by its owners, as kube-state-metrics tells them, else by its name.

A ReplicaSet stands for its Deployment and a Job for its CronJob. A pod without a known owner goes by its name
without the letters that controllers append.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.usage.prometheus.answer import Series
from gpufleet.usage.prometheus.labels import PodName, named_pod

NONE = ("", "<none>")
_HASHED = re.compile(
    # A Deployment's hash is a 32-bit number with its ten digits written as ten of these letters, and the five
    # at the end are drawn from 27 without vowels (k8s.io/apimachinery, util/rand).
    r"(?P<name>.+?)(?:-[bcdf456789]{7,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}"
)


class PodOwner(msgspec.Struct, frozen=True, order=True):
    """What makes pods: a Deployment, a StatefulSet, or the pod itself. ``kind`` is "" if not known."""

    kind: str
    name: str


class Owners(msgspec.Struct, frozen=True):
    """What owns pods, and what owns their owners, by namespace and name."""

    of_pods: Mapping[PodName, PodOwner]
    of_replica_sets: Mapping[tuple[str, str], PodOwner]
    of_jobs: Mapping[tuple[str, str], PodOwner]

    def owner(self, pod: PodName) -> PodOwner:
        """The workload of a pod."""
        found = self.of_pods.get(pod)
        if found is None:
            return PodOwner("", name_without_hash(pod.name))
        if found.name in NONE or found.kind in NONE:
            return PodOwner("Pod", pod.name)
        above = {"ReplicaSet": self.of_replica_sets, "Job": self.of_jobs}.get(found.kind, {})
        higher = above.get((pod.namespace, found.name))
        return found if higher is None or higher.name in NONE else higher


def owners_of(pods: Iterable[Series], replica_sets: Iterable[Series], jobs: Iterable[Series]) -> Owners:
    """The owners that ``kube_pod_owner``, ``kube_replicaset_owner`` and ``kube_job_owner`` tell."""
    of_pods: dict[PodName, PodOwner] = {}
    for one in pods:
        pod = named_pod(one.labels)
        if pod not in of_pods or one.labels.get("owner_is_controller") == "true":
            of_pods[pod] = _owner(one)
    return Owners(of_pods, _by_name(replica_sets, "replicaset"), _by_name(jobs, "job_name"))


def name_without_hash(pod: str) -> str:
    """A pod's name without what a Deployment, ReplicaSet, Job or DaemonSet appended."""
    found = _HASHED.fullmatch(pod)
    return found["name"] if found else pod


def _by_name(series: Iterable[Series], label: str) -> dict[tuple[str, str], PodOwner]:
    return {(named_pod(one.labels).namespace, one.labels.get(label, "")): _owner(one) for one in series}


def _owner(series: Series) -> PodOwner:
    return PodOwner(series.labels.get("owner_kind", ""), series.labels.get("owner_name", ""))
