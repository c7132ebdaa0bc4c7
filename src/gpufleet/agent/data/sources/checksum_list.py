"""The file SHA256SUMS, as the program sha256sum writes it: a digest and a path on each line.

A tree of files on a web server has no list of its own that says digests, so the store's files are listed once
by ``sha256sum``. The list names the files of one model or dataset, with their paths below its own folder.
"""

import re

from gpufleet.agent.data.sources.offer import SHA256, Checksum, checked_path
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.model.model_errors import printable

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


def read_checksums(body: bytes, place: str) -> dict[tuple[str, ...], Checksum]:
    """The digest of each file, by its path. Raises NotCopiedError."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise NotCopiedError(f"{place} is no text in UTF-8") from error
    found: dict[tuple[str, ...], Checksum] = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise NotCopiedError(f"{place}, line {number} is {printable(line, 80)}, expected DIGEST  PATH")
        path = checked_path(match[2], place)
        if path != (NAME,):
            found[path] = Checksum(SHA256, match[1].lower())
    return found
