"""A store that is a bucket of an object store with S3's API, read without a signature.

The objects of ``PREFIX/model/ORG/NAME@REVISION/`` are listed by ListObjectsV2. Their digests are those of an
object SHA256SUMS there, else the ETags, which are MD5 where an object was put in one piece.
"""

from collections.abc import Iterator
from urllib.parse import quote, unquote_plus, urlencode
from xml.etree import ElementTree as ET

import msgspec

from gpufleet.agent.data.sources.checksum_list import NAME, read_checksums
from gpufleet.agent.data.sources.http_reader import HttpReader
from gpufleet.agent.data.sources.offer import (
    FILES_MAX,
    MD5,
    Checksum,
    Offer,
    RemoteFile,
    checked_name,
    checked_path,
    offer_of,
)
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.model.data import DataAsk

PAGES_MAX = 8
"""A page has up to 1000 objects."""


class _Object(msgspec.Struct, frozen=True):
    key: str
    size_bytes: int
    etag: str


class Bucket:
    """``address`` is ENDPOINT/BUCKET, ``prefix`` what stands before each name, with a slash at its end."""

    def __init__(self, address: str, prefix: str, reader: HttpReader) -> None:
        self.address = address
        self._prefix = prefix
        self._reader = reader

    def find(self, ask: DataAsk) -> Offer | None:
        """The objects under its name. Raises NotCopiedError."""
        checked_name(ask)
        inside = f"{self._prefix}{ask}/"
        objects = {one.key.removeprefix(inside): one for one in self._listed(inside)}
        # Consoles make an object of no bytes for a folder.
        files = {name: one for name, one in objects.items() if name and not name.endswith("/")}
        if not files:
            return None
        place = f"{self.address}/{quote(inside, safe='/@')}"
        listed = files.pop(NAME, None)
        checksums = None
        if listed is not None:
            body = self._reader.small(self._url(listed))
            checksums = read_checksums(body or b"", f"{place}{NAME}")
        found = []
        for name, one in files.items():
            path = checked_path(name, place)
            checksum = _by_etag(one, place) if checksums is None else checksums.get(path)
            if checksum is None:
                raise NotCopiedError(f"{place}{NAME} has no digest of {one.key}")
            found.append(RemoteFile(path, one.size_bytes, checksum, self._url(one)))
        if checksums is not None and len(checksums) != len(found):
            raise NotCopiedError(f"{place}{NAME} names {len(checksums)} objects, and {len(found)} are there")
        return offer_of(ask, ask.revision, place, found)

    def _url(self, one: _Object) -> str:
        return f"{self.address}/{quote(one.key, safe='/@')}"

    def _listed(self, inside: str) -> Iterator[_Object]:
        """All objects whose keys begin so. Raises NotCopiedError."""
        more: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            asked = {"list-type": "2", "prefix": inside, "encoding-type": "url", **more}
            body = self._reader.small(f"{self.address}?{urlencode(asked)}")
            if body is None:
                raise NotCopiedError(f"{self.address} is no bucket")
            page = _page(body, self.address)
            yield from page.objects
            if not page.next_token:
                return
            more = {"continuation-token": page.next_token}
        raise NotCopiedError(f"{self.address} has more than {FILES_MAX} objects under {inside}")


class _Page(msgspec.Struct, frozen=True):
    objects: tuple[_Object, ...]
    next_token: str


def _page(body: bytes, place: str) -> _Page:
    """One page of a list. Raises NotCopiedError."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        # No list of S3 has any, and entities can unfold without end.
        raise NotCopiedError(f"{place} answers with a document that has declarations of its own")
    try:
        root = ET.fromstring(body)  # noqa: S314  without declarations there is nothing to unfold
        objects = []
        for one in root.iterfind("{*}Contents"):
            key, size, etag = (one.findtext("{*}" + name, "") for name in ("Key", "Size", "ETag"))
            objects.append(_Object(unquote_plus(key), int(size), etag.strip('"')))
    except (ET.ParseError, ValueError) as error:
        raise NotCopiedError(f"{place} answers with no list of objects: {error}") from error
    return _Page(tuple(objects), root.findtext("{*}NextContinuationToken", ""))


def _by_etag(one: _Object, place: str) -> Checksum:
    """The digest that an ETag is. Raises NotCopiedError for one of several parts."""
    if "-" in one.etag:
        raise NotCopiedError(f"{one.key} was put in parts, so its ETag is no digest: add {place}{NAME}")
    return Checksum(MD5, one.etag.lower())
