"""The choices above boards; each lists what the cluster that is chosen has.

A Prometheus of one cluster has no label ``cluster``: for this label, all means also none.
"""

from gpufleet.dashboards.board import LabelVariable, Opens

# By a metric of the scheduler: a cluster whose agents are all silent must still be listed.
CLUSTER = LabelVariable("cluster", "Cluster", "gpufleet_scheduler_leader", ".*")
NODE = LabelVariable("node", "Node", "gpufleet_agent_info")
QUEUE = LabelVariable("queue", "Queue", "gpufleet_scheduler_queue_active")
NAMESPACE = LabelVariable("namespace", "Namespace", "gpufleet_pod_gpu_held_ratio")
POD = LabelVariable("pod", "Pod", "gpufleet_pod_gpu_held_ratio")

OPENS_NODE = Opens("gpufleet-node", NODE.name)
OPENS_QUEUE = Opens("gpufleet-queues", QUEUE.name)
OPENS_NAMESPACE = Opens("gpufleet-workload", NAMESPACE.name)
OPENS_POD = Opens("gpufleet-workload", POD.name)
"""What a click on a value of a table opens."""
