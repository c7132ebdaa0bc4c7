"""Labels, annotations and names of the objects that make up a project."""

from gpufleet.kube import keys

PROJECT = "gpufleet.io/project"
"""The label of everything that belongs to a project, with the project's name."""

TEAM = "gpufleet.io/team"
WRITTEN = "gpufleet.io/project-written"
"""On each object: a digest of what was written last, so that a field that is wanted no more is taken away."""

TOLERATED_TAINTS = "gpufleet.io/tolerated-taints"
"""On each Namespace: the keys of taints that its pods may tolerate, separated by commas."""

FIELD_MANAGER = "gpufleet-project"
OBJECT_NAME = "gpufleet-project"
"""The name of the quota, the limits and the network policy in each namespace."""

CRITICAL = "gpufleet-project-critical"
"""The quota that keeps pods of the cluster's own priority classes out."""

OWNERS, MEMBERS, VIEWERS = "gpufleet-project-owners", "gpufleet-project-members", "gpufleet-project-viewers"
"""The names of the bindings in each namespace."""

OWNER_ROLE, MEMBER_ROLE, VIEWER_ROLE = (
    "gpufleet-project-owner",
    "gpufleet-project-member",
    "gpufleet-project-viewer",
)
"""The ClusterRoles of ``kube.manifests`` that they give."""

PROJECT_ROLE_PREFIX = "gpufleet-project:"
"""Before the name of a project: its ClusterRole, by which owners write their GpuProject, and the binding."""

ENDING = "gpufleet.io/project-ending"
"""On a GpuProject that is being deleted: nothing is made any more, and no rights are given."""

QUEUE_LABEL = keys.QUEUE
MANAGED, NAMESPACE_NAME = keys.MANAGED, keys.NAMESPACE_NAME
POD_SECURITY = tuple(f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "audit", "warn"))
