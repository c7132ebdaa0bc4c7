"""The SHA-256 of official releases, as they are pinned here: by release, then by the file's name.

A digest comes into `digests.json` by `make digest-pin` and a second, independent source that says the same;
the file is committed and reviewed like code. What is not in it is not downloaded (`downloading`).
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_regular

FILE = Path(__file__).with_name("digests.json")
# The list of digests has some kilobytes.
FILE_BYTES_MAX = 1 << 20

Digests = Mapping[str, Mapping[str, str]]
"""Digests by release ("etcd-3.6.8"), then by file ("etcd-v3.6.8-linux-amd64.tar.gz")."""


def pinned_digests(file: Path = FILE) -> dict[str, dict[str, str]]:
    """All that is pinned."""
    return msgspec.json.decode(read_regular(file, FILE_BYTES_MAX), type=dict[str, dict[str, str]])
