"""Claims of devices (DRA): from ResourceClaims, ResourceSlices and classes to what the allocator takes.

``devices`` reads what a cluster has, ``pod_claims`` what one pod asks for.
"""
