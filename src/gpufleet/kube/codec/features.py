"""Which node features a pod needs, inferred as Kubernetes 1.37 infers them.

Nodes declare what their kubelet can do (``status.declaredFeatures``); a pod that uses such a thing
may only run where it is declared. Of the features known to 1.37 three decide about placement;
the others matter for updates of running pods. Source: component-helpers, nodedeclaredfeatures.
"""

from collections.abc import Iterator

from gpufleet.kube.objects.pod import PodSpec

RESTART_ALL = "RestartAllContainers"
"""The action of a container's restart rule that only some kubelets know."""


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """The features that the pod's node must declare, sorted."""
    return tuple(sorted(_required(spec)))


def _required(spec: PodSpec) -> Iterator[str]:
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == RESTART_ALL for one in containers for rule in one.restart_policy_rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
    if any(mount.bind_mount_options for one in containers for mount in one.volume_mounts):
        yield "VolumeBindMountOptions"
