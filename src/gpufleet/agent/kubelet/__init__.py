"""What the kubelet knows: its pods, and which container holds which device.

``pods`` follows the API for this node, ``holders`` asks the kubelet itself, and ``kubelet_api`` holds
its published interfaces. ``plugin`` is where the kubelet asks us.
"""
