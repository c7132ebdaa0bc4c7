"""Claims of devices (DRA): from ResourceClaims, ResourceSlices and classes to what the allocator takes.

``devices`` reads what a cluster has and ``claim_tracker`` follows it; ``pod_claims`` reads what one pod asks
for, and ``usable_claims`` whether it may be placed with it.
"""
