"""What the policy that fences older leaders (``manifests/epoch-fence.yaml``) reads and answers.

Every write of a leader names the epoch of its leadership. The API server refuses an epoch before that of the
Lease, so two leaders never write at once. ``scheduler.fence`` proves that the policy is in force.
"""

EPOCH = "gpufleet.io/epoch"
"""The annotation by which an Eviction names its epoch."""

FENCED = "another scheduler has taken over"
"""Part of the policy's answer to a write of an older epoch, and of no other answer."""
