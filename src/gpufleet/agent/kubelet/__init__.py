"""What the kubelet and the API server say of this node's pods.

``pods`` follows the node's pods in the API. ``pod_resources`` asks the kubelet for allocations,
``kubelet_checkpoint`` reads its checkpoint file, ``process_owners`` finds the pod of a process, and
``kubelet_api`` holds the kubelet's published interfaces.
"""
