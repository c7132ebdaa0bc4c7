"""Which kinds advice reads in a cluster. Secrets are never among them.

A kind of an extension is asked for in whichever version the server prefers, and only where it is served.
"""

from typing import NamedTuple

from gpufleet.kube.listing import ALL, Selection


class Wanted(NamedTuple):
    """A kind that is read, by the group it is in and the name its objects say."""

    group: str
    name: str
    selection: Selection = ALL

    @property
    def title(self) -> str:
        """The kind's name as in rights: the group behind the name."""
        return f"{self.name} ({self.group})" if self.group else self.name


_BUILT_IN = {
    "": (
        "Node",
        "Pod",
        "Namespace",
        "Service",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ResourceQuota",
        "LimitRange",
        "ReplicationController",
    ),
    "apps": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "batch": ("Job", "CronJob"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "policy": ("PodDisruptionBudget",),
    "networking.k8s.io": ("NetworkPolicy",),
    "node.k8s.io": ("RuntimeClass",),
    "scheduling.k8s.io": ("PriorityClass", "PodGroup"),
    "coordination.k8s.io": ("Lease",),
    "storage.k8s.io": ("StorageClass",),
    "discovery.k8s.io": ("EndpointSlice",),
    "resource.k8s.io": ("DeviceClass", "ResourceSlice", "ResourceClaim"),
    "apiregistration.k8s.io": ("APIService",),
    "admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ),
}
_EXTENSIONS = {
    "gpufleet.io": ("NodeDevices", "FleetQueue"),
    "nvidia.com": ("ClusterPolicy", "NVIDIADriver"),
    "kueue.x-k8s.io": ("ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Workload"),
    "scheduling.volcano.sh": ("Queue", "PodGroup"),
    "scheduling.x-k8s.io": ("PodGroup",),
    "scheduling.run.ai": ("Queue", "PodGroup"),
    "batch.volcano.sh": ("Job",),
    "jobset.x-k8s.io": ("JobSet",),
    "leaderworkerset.x-k8s.io": ("LeaderWorkerSet",),
    "kubeflow.org": ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "Notebook"),
    "ray.io": ("RayCluster", "RayJob", "RayService"),
    "serving.kserve.io": ("InferenceService", "ServingRuntime", "ClusterServingRuntime"),
    "serving.knative.dev": ("Service",),
    "karpenter.sh": ("NodePool", "NodeClaim"),
    "karpenter.k8s.aws": ("EC2NodeClass",),
    "amd.com": ("DeviceConfig",),
    "deviceplugin.intel.com": ("GpuDevicePlugin",),
    "keda.sh": ("ScaledObject",),
    "monitoring.coreos.com": ("ServiceMonitor", "PodMonitor", "PrometheusRule", "Prometheus"),
}
WARNINGS = Wanted("", "Event", Selection(fields="type=Warning"))
"""What controllers could not do, and kubelets neither."""

WANTED = (
    *(
        Wanted(group, name)
        for groups in (_BUILT_IN, _EXTENSIONS)
        for group, names in groups.items()
        for name in names
    ),
    WARNINGS,
)
