"""What the agent tells the cluster of its node: NodeDevices, a condition, and events.

``node_report`` works it out as a value, ``node_devices`` and ``node_condition`` write it.
"""
