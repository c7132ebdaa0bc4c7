"""Every way in which pods say that they belong together, as the projects' own controllers write it.

Each source gives the objects that must be there first and the pods of one gang of three. Where the
owner is a kind of another project, its controller does not run here: the pods are made as it makes them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Post = Callable[[Object], Object]

MEMBERS = 3
TRAINING = {"containers": [{"name": "main", "image": "train"}]}


@dataclass(frozen=True)
class Source:
    """A way of naming a gang: what is created before it, and how each pod is written."""

    name: str
    api_version: str = ""
    kind: str = ""
    spec: Object = field(default_factory=dict)
    labels: tuple[Object, ...] = ({},) * MEMBERS
    annotations: Object = field(default_factory=dict)
    pod_spec: Object = field(default_factory=dict)
    controller: tuple[str, str] | None = None

    def group(self) -> Object | None:
        """The object that says how many belong together, where there is one."""
        if not self.kind:
            return None
        metadata = {"name": self.name, "namespace": "default"}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "spec": self.spec}

    def pods(self, uid: str) -> list[Object]:
        """The members, not created yet."""
        return [self._pod(number, labels, uid) for number, labels in enumerate(self.labels)]

    def _pod(self, number: int, labels: Object, uid: str) -> Object:
        metadata: Object = {
            "name": f"{self.name}-{number}",
            "namespace": "default",
            "labels": labels,
            "annotations": self.annotations,
        }
        if self.controller is not None:
            version, kind = self.controller
            owner = {"apiVersion": version, "kind": kind, "name": self.name, "uid": uid, "controller": True}
            metadata["ownerReferences"] = [owner]
        limits = {"cpu": "1", "nvidia.com/gpu": "1"}
        container = {"name": "main", "image": "train", "resources": {"limits": limits}}
        spec = {"schedulerName": "gpufleet", "containers": [container], **self.pod_spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def same(**labels: str) -> tuple[Object, ...]:
    """Labels that all members have."""
    return tuple(dict(labels) for _ in range(MEMBERS))


def _training_labels(name: str) -> tuple[Object, ...]:
    prefix = "training.kubeflow.org"
    roles = ("master", "worker", "worker")
    return tuple({f"{prefix}/job-name": name, f"{prefix}/replica-type": role} for role in roles)


SOURCES = (
    Source(
        "native",
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}},
        pod_spec={"schedulingGroup": {"podGroupName": "native"}},
    ),
    Source(
        "plugins",
        "scheduling.x-k8s.io/v1alpha1",
        "PodGroup",
        {"minMember": MEMBERS},
        labels=same(**{"scheduling.x-k8s.io/pod-group": "plugins"}),
    ),
    Source(
        "volcano",
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        {"minMember": MEMBERS},
        annotations={"scheduling.k8s.io/group-name": "volcano"},
    ),
    Source(
        "kai",
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        {"minMember": MEMBERS},
        annotations={"pod-group-name": "kai"},
    ),
    Source(
        "kueue",
        labels=same(**{"kueue.x-k8s.io/pod-group-name": "kueue"}),
        annotations={"kueue.x-k8s.io/pod-group-total-count": str(MEMBERS)},
    ),
    Source("own", annotations={"gpufleet.io/gang": "own", "gpufleet.io/gang-min-members": str(MEMBERS)}),
    Source(
        "jobset",
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {"parallelism": 1, "completions": 1}}},
                {"name": "workers", "template": {"spec": {"parallelism": 2, "completions": 2}}},
            ]
        },
        labels=tuple(
            {"jobset.sigs.k8s.io/jobset-name": "jobset", "jobset.sigs.k8s.io/replicatedjob-name": role}
            for role in ("driver", "workers", "workers")
        ),
        controller=("batch/v1", "Job"),
    ),
    Source(
        "lws",
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": MEMBERS}},
        labels=tuple(
            {
                "leaderworkerset.sigs.k8s.io/name": "lws",
                "leaderworkerset.sigs.k8s.io/group-index": "0",
                "leaderworkerset.sigs.k8s.io/worker-index": str(number),
            }
            for number in range(MEMBERS)
        ),
        controller=("apps/v1", "StatefulSet"),
    ),
    Source(
        "pytorch",
        "kubeflow.org/v1",
        "PyTorchJob",
        {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}},
        labels=_training_labels("pytorch"),
        controller=("kubeflow.org/v1", "PyTorchJob"),
    ),
    Source(
        "ray",
        "ray.io/v1",
        "RayCluster",
        {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 2}]},
        labels=tuple(
            {"ray.io/cluster": "ray", "ray.io/group": group} for group in ("headgroup", "gpu", "gpu")
        ),
        controller=("ray.io/v1", "RayCluster"),
    ),
)


def definition(api_version: str, kind: str) -> Object:
    """A CustomResourceDefinition that takes anything, in place of the project's own."""
    group, version = api_version.split("/")
    plural = kind.lower() + "s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # The API server asks for it from whoever defines kinds below k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }
