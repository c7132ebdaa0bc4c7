"""The kinds that the simulated server knows, and what each may be asked.

Columns follow the strategies in ``k8s.io/kubernetes/pkg/registry``; kinds of CustomResourceDefinitions
have ``custom`` set and follow ``apiextensions-apiserver``.
"""

import msgspec


class ObjectKind(msgspec.Struct, frozen=True):
    """One resource: where it stands in the URL, and the rules of its writes.

    ``status``: has a status subresource. ``keeps_status``: status is stored as it came at creation.
    ``unconditional``: may be replaced without naming a resourceVersion. ``put_creates``: a PUT of an
    absent object creates it. ``returns_deleted``: DELETE answers with the object, not with a Status.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = True
    keeps_status: bool = False
    unconditional: bool = True
    put_creates: bool = False
    returns_deleted: bool = False
    custom: bool = False
    initial_phase: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Group and plural: what objects of all versions of a kind are stored under."""
        return self.group, self.plural


def custom(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> ObjectKind:
    """A kind as a CustomResourceDefinition with a status subresource makes it."""
    return ObjectKind(group, (version,), plural, kind, namespaced, unconditional=False, custom=True)


STORAGE = "storage.k8s.io"
RESOURCE = "resource.k8s.io"
SCHEDULING = "scheduling.k8s.io"

BUILT_IN = (
    ObjectKind("", ("v1",), "pods", "Pod", returns_deleted=True),
    ObjectKind("", ("v1",), "nodes", "Node", namespaced=False, keeps_status=True),
    ObjectKind("", ("v1",), "namespaces", "Namespace", False, returns_deleted=True, initial_phase="Active"),
    ObjectKind("", ("v1",), "resourcequotas", "ResourceQuota", returns_deleted=True),
    ObjectKind("", ("v1",), "limitranges", "LimitRange", status=False),
    ObjectKind(
        "",
        ("v1",),
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        returns_deleted=True,
        initial_phase="Pending",
    ),
    ObjectKind(
        "",
        ("v1",),
        "persistentvolumes",
        "PersistentVolume",
        False,
        returns_deleted=True,
        initial_phase="Pending",
    ),
    ObjectKind("", ("v1",), "configmaps", "ConfigMap", status=False),
    ObjectKind("", ("v1",), "podtemplates", "PodTemplate", status=False),
    ObjectKind("", ("v1",), "services", "Service", returns_deleted=True),
    ObjectKind("", ("v1",), "events", "Event", status=False, put_creates=True),
    ObjectKind("events.k8s.io", ("v1",), "events", "Event", status=False, put_creates=True),
    ObjectKind(
        "coordination.k8s.io", ("v1",), "leases", "Lease", status=False, unconditional=False, put_creates=True
    ),
    ObjectKind("policy", ("v1",), "poddisruptionbudgets", "PodDisruptionBudget", unconditional=False),
    ObjectKind(SCHEDULING, ("v1",), "priorityclasses", "PriorityClass", namespaced=False, status=False),
    ObjectKind(SCHEDULING, ("v1beta1", "v1alpha2"), "podgroups", "PodGroup", unconditional=False),
    ObjectKind(
        SCHEDULING, ("v1beta1", "v1alpha2"), "workloads", "Workload", status=False, unconditional=False
    ),
    ObjectKind(
        STORAGE,
        ("v1",),
        "storageclasses",
        "StorageClass",
        namespaced=False,
        status=False,
        returns_deleted=True,
    ),
    ObjectKind(
        STORAGE,
        ("v1",),
        "csinodes",
        "CSINode",
        namespaced=False,
        status=False,
        returns_deleted=True,
        unconditional=False,
    ),
    ObjectKind(
        STORAGE,
        ("v1",),
        "csidrivers",
        "CSIDriver",
        namespaced=False,
        status=False,
        returns_deleted=True,
        unconditional=False,
    ),
    ObjectKind(
        STORAGE, ("v1",), "csistoragecapacities", "CSIStorageCapacity", status=False, unconditional=False
    ),
    ObjectKind(
        STORAGE,
        ("v1",),
        "volumeattachments",
        "VolumeAttachment",
        namespaced=False,
        returns_deleted=True,
        unconditional=False,
    ),
    ObjectKind(RESOURCE, ("v1",), "resourceclaims", "ResourceClaim", returns_deleted=True),
    ObjectKind(
        RESOURCE,
        ("v1",),
        "resourceslices",
        "ResourceSlice",
        namespaced=False,
        status=False,
        returns_deleted=True,
    ),
    ObjectKind(
        RESOURCE,
        ("v1",),
        "deviceclasses",
        "DeviceClass",
        namespaced=False,
        status=False,
        returns_deleted=True,
    ),
    ObjectKind("batch", ("v1",), "jobs", "Job"),
    ObjectKind("apps", ("v1",), "replicasets", "ReplicaSet"),
    ObjectKind("apps", ("v1",), "statefulsets", "StatefulSet"),
    ObjectKind("apps", ("v1",), "deployments", "Deployment"),
    ObjectKind(
        "apiextensions.k8s.io",
        ("v1",),
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
    ),
)

CUSTOM = (
    custom("gpufleet.io", "v1alpha1", "nodedevices", "NodeDevices", namespaced=False),
    custom("gpufleet.io", "v1alpha1", "nodedata", "NodeData", namespaced=False),
    custom("gpufleet.io", "v1alpha1", "fleetqueues", "FleetQueue", namespaced=False),
    custom("gpufleet.io", "v1alpha1", "fleetpolicies", "FleetPolicy", namespaced=False),
    custom("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    custom("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    custom("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup"),
    custom("kueue.x-k8s.io", "v1beta1", "workloads", "Workload"),
    custom("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    custom("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    custom("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    custom("ray.io", "v1", "rayclusters", "RayCluster"),
    custom("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"),
    custom("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False),
)
