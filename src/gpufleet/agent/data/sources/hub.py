"""A store that answers as Hugging Face's hub does: the hub itself, or a mirror of it.

``/api/models/ORG/NAME/revision/REVISION?blobs=true`` names the commit and each file with its size and digest,
``/ORG/NAME/resolve/COMMIT/FILE`` has the file. The digest is SHA-256 for files in large file storage, and
git's own for the others; the hub's libraries name blobs by the same digests.
"""

from typing import Any
from urllib.parse import quote

import msgspec

from gpufleet.agent.data.hub_cache import COMMIT
from gpufleet.agent.data.sources.http_reader import UNAUTHORIZED, HttpReader, RefusedError
from gpufleet.agent.data.sources.offer import (
    GIT,
    SHA256,
    Checksum,
    Offer,
    RemoteFile,
    checked_name,
    checked_path,
    checked_size,
    offer_of,
)
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.kube.objects.node_data import MODEL
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import printable

DEFAULT_BRANCH = "main"
_REPOSITORY_PARTS = (1, 2)
"""NAME, or ORG/NAME."""


class _Large(msgspec.Struct, frozen=True):
    sha256: str
    size: int


class _File(msgspec.Struct, frozen=True, rename={"name": "rfilename", "blob_id": "blobId"}):
    name: str
    size: int | None = None
    blob_id: str = ""
    lfs: _Large | None = None


class _Repository(msgspec.Struct, frozen=True):
    sha: str
    siblings: tuple[_File, ...] = ()


_DECODER = msgspec.json.Decoder(_Repository)


class Hub:
    """``address`` is that of the hub, without a slash at its end."""

    def __init__(self, address: str, reader: HttpReader) -> None:
        self.address = address
        self._reader = reader

    def find(self, ask: DataAsk) -> Offer | None:
        """The files of a revision, as a copy for a cache of the hub. Raises NotCopiedError."""
        kind, parts, revision = checked_name(ask)
        if len(parts) not in _REPOSITORY_PARTS:
            return None
        branch = revision or DEFAULT_BRANCH
        name = "/".join(parts)
        api = f"{self.address}/api/{kind}s/{name}/revision/{quote(branch, safe='')}?blobs=true"
        body = self._asked(api)
        if body is None:
            return None
        try:
            found = _DECODER.decode(body)
        except msgspec.DecodeError as error:
            raise NotCopiedError(f"{api} answers with no repository: {error}") from error
        if not COMMIT.fullmatch(found.sha):
            raise NotCopiedError(f"{api} names the commit {printable(found.sha, 80)}")
        if "/" in branch:
            # It has no file of its own in the cache's folder of branches, so no reader would find the copy.
            raise NotCopiedError(
                f"the branch {branch} has a slash, and no copy can be named by it: "
                f"name its commit, {found.sha}"
            )
        place = f"{self.address}/{'' if kind == MODEL else f'{kind}s/'}{name}/resolve/{found.sha}"
        files = [_file(one, place) for one in found.siblings]
        offer = offer_of(ask, found.sha, place, files)
        branches = (branch,) if branch != found.sha else ()
        entry = msgspec.structs.replace(offer.entry, branches=branches)
        return Offer(entry, offer.files, is_hub=True)

    def _asked(self, api: str) -> bytes | None:
        try:
            return self._reader.small(api)
        except RefusedError as error:
            # The hub's answer for repositories that are not there, and for those that need a token.
            if error.status == UNAUTHORIZED:
                return None
            raise


def _file(one: _File, place: str) -> RemoteFile:
    path = checked_path(one.name, place)
    size: Any = one.size if one.lfs is None else one.lfs.size
    checksum = Checksum(GIT, one.blob_id) if one.lfs is None else Checksum(SHA256, one.lfs.sha256)
    url = f"{place}/{quote('/'.join(path))}"
    return RemoteFile(path, checked_size(size, url), checksum, url)
