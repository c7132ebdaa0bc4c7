"""The node agent: GPUs to containers, labels, health and metrics, in one process on each node.

Built so far: what the kubelet speaks (``kubelet_api``) and the device plugin's sockets (``plugin``).
The GPUs themselves are in ``gpufleet.devices``.
"""
