"""Text of manifests as a tree of values that know where they stand."""
