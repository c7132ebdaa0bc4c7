"""What each version of Kubernetes needs to be told to offer what gpufleet uses.

The native gang API (Workload and PodGroup of scheduling.k8s.io) is behind a feature gate in every version
that has it, and its version moves from release to release. MutatingAdmissionPolicy
needs nothing from 1.36 on; older servers do without it, so it is not switched on there.
"""

from gpufleet.localkube.programs.releases import minor_version

GANG_API_VERSIONS = {(1, 36): "v1alpha2", (1, 37): "v1beta1"}
"""The served version of scheduling.k8s.io with PodGroup, by minor version of Kubernetes."""


def gang_api_version(kubernetes: str) -> str | None:
    """The version of scheduling.k8s.io that has PodGroup there, None before 1.36."""
    minor = minor_version(kubernetes)
    newest = max(GANG_API_VERSIONS)
    return GANG_API_VERSIONS.get(minor, GANG_API_VERSIONS[newest] if minor > newest else None)


def api_server_gates(kubernetes: str) -> dict[str, bool]:
    """Feature gates of kube-apiserver and kube-controller-manager."""
    return {} if gang_api_version(kubernetes) is None else {"GenericWorkload": True}


def served_groups(kubernetes: str) -> tuple[str, ...]:
    """Values of ``--runtime-config``: API versions that are off by default."""
    version = gang_api_version(kubernetes)
    return () if version is None else (f"scheduling.k8s.io/{version}=true",)
