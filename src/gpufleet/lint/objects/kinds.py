"""The kinds that Kubernetes itself has, and pods of kinds that it does not have, found by their shape.

A kind of a controller may hold pod templates anywhere. What has a list of containers with names and images
is one, wherever it stands: a kind that ``template_paths`` does not name is judged by its pods all the same.
Only what is no template of pods but looks like one is left out, such as the patterns of policies.
"""

from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.source.fields import Field

KINDS = {
    "": frozenset(
        [
            "Binding",
            "ComponentStatus",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "List",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ]
    ),
    "apps": frozenset(["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    "autoscaling": frozenset({"HorizontalPodAutoscaler", "Scale"}),
    "batch": frozenset({"CronJob", "Job"}),
    "networking.k8s.io": frozenset(["Ingress", "IngressClass", "IPAddress", "NetworkPolicy", "ServiceCIDR"]),
    "policy": frozenset({"Eviction", "PodDisruptionBudget", "PodSecurityPolicy"}),
    "rbac.authorization.k8s.io": frozenset(["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    "resource.k8s.io": frozenset(
        ["DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"]
    ),
}
"""By API group, the kinds of Kubernetes 1.37 and of versions before it."""

PATTERN_GROUPS = frozenset({"kyverno.io", "policies.kyverno.io", "templates.gatekeeper.sh"})
"""Policies hold patterns of pods and no pods."""

GROUPS_WITHOUT_PODS = PATTERN_GROUPS | {"gpufleet.io"}
"""Groups with no kind that makes pods: gpufleet's own reports are as many as there are nodes."""

DEPTH_MAX = 40
"""Deeper than any object of a controller; bounds what hostile input costs."""


def is_of_kubernetes(group: str, kind: str) -> bool:
    """Whether every API server has the kind, without a definition."""
    return kind in KINDS.get(group, frozenset())


def templates_by_shape(group: str, kind: str, root: Field) -> Iterator[PodTemplate]:
    """The pod templates in an object of a kind that is not Kubernetes' own."""
    if is_of_kubernetes(group, kind) or group in GROUPS_WITHOUT_PODS:
        return
    for field in _mappings(root, DEPTH_MAX):
        if _is_pod_spec(field):
            parent = field.parent
            has_template = parent is not None and field.key == "spec" and parent.at("metadata").exists
            # Controllers add to such pods what is not known here.
            yield PodTemplate(
                parent.at("metadata") if parent is not None and has_template else root.at("metadata"),
                field,
                is_completed=True,
            )


def asked_gpus(root: Field) -> Iterator[Field]:
    """The fields by which an object asks for GPUs, in the words of resources or of Spark."""
    for field in _mappings(root, DEPTH_MAX):
        if isinstance(field.key, str) and field.key.startswith("resources"):
            for part in ("limits", "requests"):
                yield from (one for name, one in field.at(part).entries() if is_gpu(name))
        elif field.key == "gpu" and is_gpu(field.text_at("name") or "") and field.at("quantity").exists:
            yield field.at("name")


def _is_pod_spec(field: Field) -> bool:
    containers = field.at("containers").items()
    return bool(containers) and all(one.text_at("name") and one.text_at("image") for one in containers)


def _mappings(field: Field, depth: int) -> Iterator[Field]:
    """The field and all that is in it, from the outside in."""
    yield field
    if depth:
        for one in (*(child for _, child in field.entries()), *field.items()):
            yield from _mappings(one, depth - 1)
