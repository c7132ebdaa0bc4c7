"""Annotations by which autoscalers of nodes leave the members of a gang where they run.

An autoscaler that saves a node evicts one member, and the whole gang stands still. The annotations travel
with the Binding, in the same write, so a member never runs without them. They end with the pod: of a pod that
has ended, both autoscalers take no notice. What the pod says itself by one of them stays.
"""

from gpufleet.kube import keys
from gpufleet.kube.objects.pod import Pod

PROTECTION = {keys.SAFE_TO_EVICT: "false", keys.DO_NOT_DISRUPT: "true"}
"""What Cluster Autoscaler and Karpenter read. Neither stops the provider from taking spot capacity back."""


def protection_of(pod: Pod) -> dict[str, str]:
    """The annotations that a member of a gang gets."""
    said = pod.metadata.annotations
    return {key: value for key, value in PROTECTION.items() if key not in said}
