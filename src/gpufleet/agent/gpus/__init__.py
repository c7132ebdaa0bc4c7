"""The GPUs of this node, watched: what they are, how they are, and what they read.

Begin at ``watchman``, which keeps the topics that all others follow; ``vendor_watch`` looks at one
vendor's cards and ``card`` holds what is known of each.
"""
