"""A store that is a tree of files on a web server: ``STORE/model/ORG/NAME@REVISION/`` with a SHA256SUMS.

The folder is named as pods name the data, without ``@REVISION`` where they name none. ``checksum_list`` reads
its list; the sizes are those that the server says.
"""

from urllib.parse import quote

from gpufleet.agent.data.sources.checksum_list import NAME, read_checksums
from gpufleet.agent.data.sources.http_reader import HttpReader
from gpufleet.agent.data.sources.offer import FILES_MAX, Offer, RemoteFile, checked_name, offer_of
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.model.data import DataAsk


class FileTree:
    """``address`` is that of the tree, without a slash at its end."""

    def __init__(self, address: str, reader: HttpReader) -> None:
        self.address = address
        self.reader = reader

    def find(self, ask: DataAsk) -> Offer | None:
        """The files of its folder. Raises NotCopiedError."""
        checked_name(ask)
        place = f"{self.address}/{quote(str(ask), safe='/@')}"
        body = self.reader.small(f"{place}/{NAME}")
        if body is None:
            return None
        checksums = read_checksums(body, f"{place}/{NAME}")
        if len(checksums) > FILES_MAX:
            raise NotCopiedError(f"{place} has {len(checksums)} files, expected at most {FILES_MAX}")
        files = []
        for path, checksum in checksums.items():
            url = f"{place}/{quote('/'.join(path))}"
            files.append(RemoteFile(path, self.reader.size_bytes(url), checksum, url))
        return offer_of(ask, ask.revision, place, files)
