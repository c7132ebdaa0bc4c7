"""Names on a namespace by which images of its pods are judged; ``admission.images`` judges them."""

IMAGE_POLICY = "gpufleet.io/image-policy"
"""The label that says what happens to what does not fit: off, audit, warn or deny."""

ALLOWED_REGISTRIES = "gpufleet.io/allowed-registries"
"""The annotation that lists, separated by commas, from where images may come."""
