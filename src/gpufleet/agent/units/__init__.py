"""The units that the kubelet counts, and what each of them is on this node.

``node_units`` has the units of whole GPUs, replicas and MIG instances; ``share_slots`` those of shares.
``granted_units`` finds the units of a scheduler's grant, and ``instance_part`` the size of a MIG instance.
"""
