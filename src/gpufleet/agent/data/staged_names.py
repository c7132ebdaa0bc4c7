"""What copies are called in the cache of a node."""

import hashlib

from gpufleet.kube.objects.node_data import MODEL, DataEntry

STAGING = ".gpufleet-staging"
"""The folder of the cache with copies that still arrive, and with what is known of those that are there."""

LENGTH_MAX = 200
"""File systems allow 255 bytes for a name."""

_DIGEST_CHARACTERS = 16
"""64 bits: no two names of a node agree in them by chance."""


def staged_name(entry: DataEntry) -> str:
    """The folder of a copy. Slashes of its name are replaced, so that it leads to no other folder."""
    named = f"{entry.kind}--{entry.name}{f'@{entry.revision}' if entry.revision else ''}"
    plain = named.replace("/", "--")
    if len(plain) <= LENGTH_MAX:
        return plain
    digest = hashlib.sha256(named.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{plain[: LENGTH_MAX - _DIGEST_CHARACTERS - 1]}-{digest}"


def repository_name(entry: DataEntry) -> str:
    """The folder of a repository in a cache of Hugging Face's hub."""
    prefix = "models" if entry.kind == MODEL else "datasets"
    return f"{prefix}--{entry.name.replace('/', '--')}"
