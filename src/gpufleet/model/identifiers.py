"""Names of things as distinct types, so that a pod's uid is never taken for a node's name."""

from typing import NewType

NodeName = NewType("NodeName", str)
PodUid = NewType("PodUid", str)
GangName = NewType("GangName", str)
QueueName = NewType("QueueName", str)
DeviceId = NewType("DeviceId", str)
GpuModelName = NewType("GpuModelName", str)
TopologyLevelName = NewType("TopologyLevelName", str)
QuotaResource = NewType("QuotaResource", str)
FleetPolicyName = NewType("FleetPolicyName", str)
GpuProjectName = NewType("GpuProjectName", str)

DEFAULT_QUEUE = QueueName("default")
