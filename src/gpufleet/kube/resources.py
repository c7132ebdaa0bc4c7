"""The kinds of the Kubernetes API that we speak of, and the paths under which they are served.

A kind of another project (a CRD that may not be installed) is a value like any other:
``client.Client.serves`` says whether the server knows it.
"""

from urllib.parse import quote

import msgspec

from gpufleet.model.model_errors import InternalError


class Kind(msgspec.Struct, frozen=True):
    """One kind: where it is served and what its objects say in ``apiVersion`` and ``kind``.

    ``group`` is empty for the core group; ``plural`` stands in paths, ``name`` in objects.
    """

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The version as objects carry it: "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name by which rights and people call it: "pods", "fleetqueues.gpufleet.io"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection(self, namespace: str = "") -> str:
        """The path of all objects, of all namespaces or of one."""
        if not namespace:
            return f"{self.root}/{self.plural}"
        if not self.namespaced:
            raise InternalError(f"{self.plural} are in no namespace, but {namespace!r} was given")
        return f"{self.root}/namespaces/{quote(namespace, safe='')}/{self.plural}"

    def item(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """The path of one object, or of a part of it such as "status"."""
        if self.namespaced and not namespace:
            raise InternalError(f"{self.plural} {name!r} are in a namespace, and none was given")
        # A name of dots would lead to another place.
        if not name or name in {".", ".."}:
            raise InternalError(f"{self.plural} cannot be named {name!r}")
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def _core(plural: str, name: str, *, namespaced: bool = True) -> Kind:
    return Kind("", "v1", plural, name, namespaced)


# Kinds that Kubernetes itself serves.
PODS = _core("pods", "Pod")
NODES = _core("nodes", "Node", namespaced=False)
NAMESPACES = _core("namespaces", "Namespace", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = _core("persistentvolumes", "PersistentVolume", namespaced=False)
SERVICES = _core("services", "Service")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
CONFIG_MAPS = _core("configmaps", "ConfigMap")
SECRETS = _core("secrets", "Secret")
REPLICATION_CONTROLLERS = _core("replicationcontrollers", "ReplicationController")

POD_TEMPLATES = _core("podtemplates", "PodTemplate")

EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
RESOURCE_QUOTAS = _core("resourcequotas", "ResourceQuota")
LIMIT_RANGES = _core("limitranges", "LimitRange")
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
_RBAC = "rbac.authorization.k8s.io"
ROLE_BINDINGS = Kind(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Kind(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Kind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)

DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Kind("batch", "v1", "jobs", "Job")

# Notebooks of Kubeflow and model servers of KServe, where these are installed.
NOTEBOOKS = Kind("kubeflow.org", "v1", "notebooks", "Notebook")
INFERENCE_SERVICES = Kind("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")

# Dynamic resource allocation, stable from 1.34 on.
_RESOURCE = "resource.k8s.io"
RESOURCE_SLICES = Kind(_RESOURCE, "v1", "resourceslices", "ResourceSlice", namespaced=False)
RESOURCE_CLAIMS = Kind(_RESOURCE, "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Kind(_RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
DEVICE_CLASSES = Kind(_RESOURCE, "v1", "deviceclasses", "DeviceClass", namespaced=False)
# Stable from 1.37 on.
DEVICE_TAINT_RULES = Kind(_RESOURCE, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)

_STORAGE = "storage.k8s.io"
STORAGE_CLASSES = Kind(_STORAGE, "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Kind(_STORAGE, "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Kind(_STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Kind(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Kind(_STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False)

# Our own kinds, from our own CustomResourceDefinitions.
NODE_DEVICES = Kind("gpufleet.io", "v1alpha1", "nodedevices", "NodeDevices", namespaced=False)
FLEET_QUEUES = Kind("gpufleet.io", "v1alpha1", "fleetqueues", "FleetQueue", namespaced=False)
FLEET_POLICIES = Kind("gpufleet.io", "v1alpha1", "fleetpolicies", "FleetPolicy", namespaced=False)
GPU_PROJECTS = Kind("gpufleet.io", "v1alpha1", "gpuprojects", "GpuProject", namespaced=False)
NODE_DATA = Kind("gpufleet.io", "v1alpha1", "nodedata", "NodeData", namespaced=False)
OWN_KINDS = (NODE_DEVICES, NODE_DATA, FLEET_QUEUES, FLEET_POLICIES, GPU_PROJECTS)
# Node Feature Discovery's, where that is installed.
NODE_FEATURES = Kind("nfd.k8s-sigs.io", "v1alpha1", "nodefeatures", "NodeFeature")
CUSTOM_RESOURCE_DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

_ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = Kind(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
MUTATING_WEBHOOKS = Kind(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
VALIDATING_POLICIES = Kind(
    _ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)

# Gangs, native and of others; which of them a server has is found out at start.
POD_GROUPS_V1ALPHA2 = Kind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
POD_GROUPS_V1BETA1 = Kind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
PLUGINS_POD_GROUPS = Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
VOLCANO_POD_GROUPS = Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
HYPER_NODES = Kind("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False)
KAI_POD_GROUPS = Kind("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")

# Of node autoscalers, where they are installed.
PROVISIONING_REQUESTS = Kind("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest")
NODE_POOLS = Kind("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_OVERLAYS = Kind("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", namespaced=False)

# Owners of pods that belong together.
JOB_SETS = Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Kind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
PYTORCH_JOBS = Kind("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
TF_JOBS = Kind("kubeflow.org", "v1", "tfjobs", "TFJob")
JAX_JOBS = Kind("kubeflow.org", "v1", "jaxjobs", "JAXJob")
PADDLE_JOBS = Kind("kubeflow.org", "v1", "paddlejobs", "PaddleJob")
XGBOOST_JOBS = Kind("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob")
MPI_JOBS = Kind("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
RAY_CLUSTERS = Kind("ray.io", "v1", "rayclusters", "RayCluster")
