"""Writes an engine's log to a file, gzip-compressed if the name says so, complete or not at all."""

import contextlib
import gzip
import os
from collections.abc import Iterator
from typing import BinaryIO, cast

from gpufleet.files.atomic_write import atomic_write

LEVEL = 3
"""A low level: a long log is packed while the replay runs."""


@contextlib.contextmanager
def log_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file of bytes that takes its place when the block ends well."""
    with atomic_write(path) as file:
        if not os.fspath(path).endswith(".gz"):
            yield file.buffer
            return
        # No name and no time of writing inside: equal runs give equal files.
        with gzip.GzipFile("", "wb", fileobj=file.buffer, compresslevel=LEVEL, mtime=0) as packed:
            yield cast("BinaryIO", packed)
