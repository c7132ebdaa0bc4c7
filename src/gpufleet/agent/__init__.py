"""The node agent: GPUs to containers, labels, health and metrics, in one process on each node.

Built so far: what the kubelet speaks (``kubelet``) and whose its devices are (``plugin``).
The GPUs themselves are in ``gpufleet.devices``.
"""
