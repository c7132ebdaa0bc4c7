"""A store that is a registry of the OCI distribution specification: models and datasets as artifacts.

``model/ORG/NAME@TAG`` is the repository ``PREFIX/org/name`` with the tag TAG, or ``latest``. Each layer is a
file, named by the annotation ``org.opencontainers.image.title``, as ORAS writes it, or by
``org.cncf.model.filepath``, as the model format of the CNCF does.
"""

import hashlib
import re
from urllib.parse import urlencode

import msgspec

from gpufleet.agent.data.sources.http_reader import FORBIDDEN, UNAUTHORIZED, HttpReader, RefusedError
from gpufleet.agent.data.sources.offer import (
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
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import printable

LATEST = "latest"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ACCEPTED = f"{MANIFEST}, application/vnd.docker.distribution.manifest.v2+json"
TITLES = ("org.opencontainers.image.title", "org.cncf.model.filepath")
_PACKED = re.compile(r".*(\btar\b|rootfs\.diff).*")
"""Media types of layers that are archives."""

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class _Layer(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    size: int
    media_type: str = ""
    annotations: dict[str, str] = {}


class _Manifest(msgspec.Struct, frozen=True):
    layers: tuple[_Layer, ...] = ()


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""


_MANIFEST = msgspec.json.Decoder(_Manifest)
_TOKEN = msgspec.json.Decoder(_Token)


class Registry:
    """``address`` is that of the server, ``prefix`` what stands before each repository, with its slash."""

    def __init__(self, address: str, prefix: str, reader: HttpReader) -> None:
        self.address = address
        self._prefix = prefix
        self._reader = reader
        self._tokens: dict[str, str] = {}
        """A token is for one repository."""
        reader.login = self

    def find(self, ask: DataAsk) -> Offer | None:
        """The layers of an artifact, each a file. Raises NotCopiedError."""
        _, parts, revision = checked_name(ask)
        tag = revision or LATEST
        if not _TAG.fullmatch(tag):
            raise NotCopiedError(f"{printable(tag, 80)} is no tag of a registry")
        repository = self._prefix + "/".join(parts).lower()
        reference = f"sha256:{tag}" if _DIGEST.fullmatch(tag) else tag
        place = f"{self.address}/v2/{repository}"
        url = f"{place}/manifests/{reference}"
        body = self._manifest(url)
        if body is None:
            return None
        if reference != tag and hashlib.sha256(body).hexdigest() != tag:
            raise NotCopiedError(f"{url} answers with a manifest of another digest")
        try:
            manifest = _MANIFEST.decode(body)
        except msgspec.DecodeError as error:
            raise NotCopiedError(f"{url} answers with no manifest: {error}") from error
        files = [_file(one, place) for one in manifest.layers]
        return offer_of(ask, ask.revision, f"{place}:{tag}", files)

    def _manifest(self, url: str) -> bytes | None:
        try:
            return self._reader.small(url, {"Accept": ACCEPTED, **self.headers(url)})
        except RefusedError as error:
            self.renew(url, error)
        return self._reader.small(url, {"Accept": ACCEPTED, **self.headers(url)})

    def headers(self, url: str) -> dict[str, str]:
        """The token of a manifest's or a blob's repository."""
        token = self._tokens.get(_repository_of(url))
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def renew(self, url: str, refusal: RefusedError) -> None:
        """Get a token for anyone, where the registry's challenge says from where. Raises NotCopiedError."""
        challenge = refusal.challenge
        said = dict(_CHALLENGE.findall(challenge))
        realm = said.pop("realm", "")
        # Some registries forbid with a challenge where a token is of another repository, or has ended.
        refused = refusal.status in (UNAUTHORIZED, FORBIDDEN) and challenge.startswith("Bearer ")
        if not refused or not realm or not self._reader.may_ask(realm):
            raise refusal
        wanted = {name: said[name] for name in ("service", "scope") if name in said}
        body = self._reader.small(f"{realm}?{urlencode(wanted)}")
        try:
            answer = _TOKEN.decode(body or b"")
        except msgspec.DecodeError as error:
            raise NotCopiedError(f"{realm} answers with no token: {error}") from error
        self._tokens[_repository_of(url)] = answer.token or answer.access_token


def _repository_of(url: str) -> str:
    """The part of an address before ``/manifests/REFERENCE`` or ``/blobs/DIGEST``."""
    return url.rsplit("/", 2)[0]


def _file(one: _Layer, place: str) -> RemoteFile:
    title = next((one.annotations[name] for name in TITLES if name in one.annotations), "")
    if not title or _PACKED.fullmatch(one.media_type):
        shown = printable(one.media_type, 80)
        raise NotCopiedError(f"{place} has a layer of the type {shown} that is no file with a name")
    algorithm, _, digest = one.digest.partition(":")
    if algorithm != SHA256:
        raise NotCopiedError(f"{place} has a layer with the digest {printable(one.digest, 80)}")
    url = f"{place}/blobs/{one.digest}"
    return RemoteFile(checked_path(title, place), checked_size(one.size, url), Checksum(SHA256, digest), url)
