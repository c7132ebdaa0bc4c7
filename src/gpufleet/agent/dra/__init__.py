"""Dynamic Resource Allocation (DRA): cards in ResourceSlices, and claims made ready for containers.

``device_pools`` has what a node offers as values, ``slice_publisher`` writes it to the API server,
``claim_preparer`` answers the kubelet and ``kubelet_plugin`` is its sockets. Names of drivers, devices,
attributes and capacities are those of the vendors' own drivers, so that claims and classes written for them
work here.
"""
