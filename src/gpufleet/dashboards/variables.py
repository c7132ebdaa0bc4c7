"""The choices above boards; each lists what the cluster that is chosen has.

A Prometheus of one cluster has no label ``cluster``: for this label, all means also none.
"""

from gpufleet.dashboards.board import LabelVariable

CLUSTER = LabelVariable("cluster", "Cluster", "gpufleet_scheduler_leader", ".*")
NODE = LabelVariable("node", "Node", "gpufleet_agent_info")
QUEUE = LabelVariable("queue", "Queue", "gpufleet_scheduler_queue_active")
NAMESPACE = LabelVariable("namespace", "Namespace", "gpufleet_pod_gpu_held_ratio")
POD = LabelVariable("pod", "Pod", "gpufleet_pod_gpu_held_ratio")
