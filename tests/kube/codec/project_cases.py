"""Malformed and odd GpuProjects, each with the API server's verdict and ours.

`test_gpu_projects` asks the codec, `tests.operator.projects.test_on_a_real_server` a real server: what the
server refuses the codec refuses too, in case it was stored before the definition was as strict.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProjectCase:
    """One spec. ``refused`` is the field that the codec names, "" where it takes it.

    ``stored`` is for what the server takes although the codec refuses it.
    """

    what: str
    spec: Any
    refused: str = ""
    unreadable: bool = False
    stored: bool = False

    def __str__(self) -> str:
        """As the test is called."""
        return self.what.replace(" ", "-")

    def object(self, name: str = "vision") -> dict[str, Any]:
        """The whole object."""
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "GpuProject"}
        return {**kind, "metadata": {"name": name}, "spec": self.spec}


def spec(**fields: Any) -> dict[str, Any]:
    """A spec of one namespace."""
    return {"namespaces": ["vision"], **fields}


def quota(key: str, amount: int | str = "8", **defaults: str) -> dict[str, Any]:
    """A spec with one amount of a quota."""
    return spec(namespaceQuota={key: amount}, containerDefaults=defaults)


def member(**fields: str) -> dict[str, Any]:
    """A spec with one member."""
    return spec(members=[{"role": "Member", **fields}])


PROJECT_CASES = (
    ProjectCase("one namespace and nothing more", spec()),
    ProjectCase(
        "everything",
        {
            "team": "Vision",
            "namespaces": ["vision", "vision-dev"],
            "members": [{"user": "ann", "role": "Member"}, {"group": "guests", "role": "Viewer"}],
            "ownerLimits": {"namespacesMax": 5, "namespacePrefix": "vis-"},
            "queue": "vision",
            "ownQueue": {
                "parent": "research",
                "quotas": [{"resource": "gpu", "nominal": 8, "borrowingLimit": "4", "hardLimit": "12"}],
            },
            "namespaceQuota": {
                "requests.nvidia.com/gpu": 8,
                "limits.memory": "1Ti",
                "count/jobs.batch": "50",
            },
            "containerDefaults": {"memory": "1Gi"},
            "podSecurity": "Baseline",
            "network": {"egress": ["0.0.0.0/0", "fd00::/8"], "ingressNamespaces": ["monitoring"]},
            "images": {"policy": "Deny", "registries": ["registry.example.com/vision"]},
            "idleRule": {"after": "2h", "warning": "15m"},
            "toleratedTaints": ["*", "example.com/spot", "dedicated"],
        },
    ),
    ProjectCase("no namespaces", {}, unreadable=True),
    ProjectCase("namespaces empty", spec(namespaces=[]), refused="spec.namespaces"),
    ProjectCase("namespace twice", spec(namespaces=["a", "a"]), refused="spec.namespaces[1]"),
    ProjectCase("namespace of no form", spec(namespaces=["a.b"]), refused="spec.namespaces[0]"),
    ProjectCase("namespace of Kubernetes", spec(namespaces=["kube-system"]), refused="spec.namespaces[0]"),
    ProjectCase("namespace default", spec(namespaces=["default"]), refused="spec.namespaces[0]"),
    ProjectCase("our namespace", spec(namespaces=["gpufleet-system"]), refused="spec.namespaces[0]"),
    ProjectCase("team no label value", spec(team="a b"), refused="spec.team"),
    ProjectCase("member without a name", member(), refused="spec.members[0].user"),
    ProjectCase("member of two names", member(user="ann", group="all"), refused="spec.members[0].user"),
    ProjectCase("all who are known", member(group="system:authenticated"), refused="spec.members[0].group"),
    ProjectCase("a ServiceAccount", member(user="system:serviceaccount:a:b"), refused="spec.members[0].user"),
    ProjectCase(
        "role unknown", spec(members=[{"user": "ann", "role": "Admin"}]), refused="spec.members[0].role"
    ),
    ProjectCase("queue of no form", spec(queue="a b"), refused="spec.queue"),
    ProjectCase("an owner", spec(members=[{"user": "ann", "role": "Owner"}])),
    ProjectCase(
        "less than no namespaces",
        spec(ownerLimits={"namespacesMax": -1}),
        refused="spec.ownerLimits.namespacesMax",
    ),
    ProjectCase(
        "prefix of no form",
        spec(ownerLimits={"namespacePrefix": "-a"}),
        refused="spec.ownerLimits.namespacePrefix",
    ),
    ProjectCase("an own queue and no more", spec(ownQueue={})),
    ProjectCase(
        "own queue below itself",
        spec(ownQueue={"parent": "vision"}),
        refused="spec.ownQueue.parent",
        stored=True,
    ),
    ProjectCase(
        "own queue of an unknown resource",
        spec(ownQueue={"quotas": [{"resource": "gpus"}]}),
        refused="spec.ownQueue.quotas[0].resource",
        stored=True,
    ),
    ProjectCase(
        "own queue of less than nothing",
        spec(ownQueue={"quotas": [{"resource": "gpu", "nominal": "-1"}]}),
        refused="spec.ownQueue.quotas[0].nominal",
    ),
    ProjectCase("bare GPU", quota("nvidia.com/gpu"), refused="spec.namespaceQuota[nvidia.com/gpu]"),
    ProjectCase(
        "limits of GPUs", quota("limits.nvidia.com/gpu"), refused="spec.namespaceQuota[limits.nvidia.com/gpu]"
    ),
    ProjectCase("no key", quota("gpus"), refused="spec.namespaceQuota[gpus]"),
    ProjectCase("less than nothing", quota("pods", "-1"), refused="spec.namespaceQuota[pods]"),
    ProjectCase("MIG and shares", quota("requests.nvidia.com/mig-1g.10gb")),
    ProjectCase("claims of a class", quota("gpu.deviceclass.resource.k8s.io/devices")),
    ProjectCase("devices of a class as a resource", quota("requests.deviceclass.resource.kubernetes.io/gpu")),
    ProjectCase("storage of a class", quota("fast.storageclass.storage.k8s.io/requests.storage")),
    ProjectCase("huge pages", quota("hugepages-2Mi")),
    ProjectCase("requests of huge pages", quota("requests.hugepages-1Gi")),
    ProjectCase(
        "claims of a class with a verb",
        quota("requests.gpu.deviceclass.resource.k8s.io/devices"),
        refused="spec.namespaceQuota[requests.gpu.deviceclass.resource.k8s.io/devices]",
    ),
    ProjectCase(
        "nothing that is counted of a class",
        quota("gpu.deviceclass.resource.k8s.io/claims"),
        refused="spec.namespaceQuota[gpu.deviceclass.resource.k8s.io/claims]",
    ),
    ProjectCase(
        "cores without a default", quota("requests.cpu"), refused="spec.namespaceQuota[requests.cpu]"
    ),
    ProjectCase("cores with a default", quota("requests.cpu", cpu="1")),
    ProjectCase(
        "a GPU by default",
        spec(containerDefaults={"nvidia.com/gpu": "1"}),
        refused="spec.containerDefaults",
    ),
    ProjectCase("security privileged", spec(podSecurity="Privileged"), refused="spec.podSecurity"),
    ProjectCase(
        "egress no network", spec(network={"egress": ["example.com"]}), refused="spec.network.egress[0]"
    ),
    ProjectCase(
        "egress with bits behind its length",
        spec(network={"egress": ["10.0.0.1/8"]}),
        refused="spec.network.egress[0]",
        stored=True,
    ),
    ProjectCase("image policy unknown", spec(images={"policy": "deny"}), refused="spec.images.policy"),
    ProjectCase(
        "idle for a moment", spec(idleRule={"after": "1s"}), refused="spec.idleRule.after", stored=True
    ),
    ProjectCase("taint of no form", spec(toleratedTaints=["a b"]), refused="spec.toleratedTaints[0]"),
    ProjectCase("idle of no form", spec(idleRule={"after": "soon"}), refused="spec.idleRule.after"),
)
