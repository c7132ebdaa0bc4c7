"""What all parts of the agent share: the node's state as values, and what keeps it.

``node_state`` has the values (GPUs, readings, pods, holders), ``topic`` is how one part publishes a value and
others follow it, ``disk`` replaces a file atomically, ``checksummed`` puts a checksum over its text, and
``state_errors`` has the agent's errors.
"""
