"""What the scheduler last said of the nodes that a pod waits for, which autoscalers buy or do not."""

from gpufleet.cluster.waiting_reasons import ABOUT_NODES
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod


def node_notes(pod: Pod) -> list[str]:
    """A note of it, where the condition of the pod has such words."""
    condition = pod.condition(POD_SCHEDULED)
    _, found, words = ("", "", "") if condition is None else condition.message.rpartition(ABOUT_NODES)
    return [f"nodes: {words}"] if found else []
