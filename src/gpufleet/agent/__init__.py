"""The node agent: GPUs to containers, labels, health and metrics, in one process on each node.

``process`` is the program, and ``assembly`` makes its parts, which ``supervisor`` keeps running. A device
goes this way: the vendor's library (``gpufleet.devices``), ``gpus``, ``units``, ``device_plugin``, and back
from the kubelet to ``holders`` and ``reports``.
"""
