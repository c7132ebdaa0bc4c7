"""Servers that models and datasets are copied from, each by what reads its kind of list and its files."""

import ssl
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from gpufleet.agent.data.held_folder import HeldFolder
from gpufleet.agent.data.sources.bucket import Bucket
from gpufleet.agent.data.sources.file_tree import FileTree
from gpufleet.agent.data.sources.http_reader import HttpReader
from gpufleet.agent.data.sources.hub import Hub
from gpufleet.agent.data.sources.offer import Catalogue, Offer
from gpufleet.agent.data.sources.registry import Registry
from gpufleet.agent.data.sources.remote_copying import copy_offer
from gpufleet.agent.data.sources.store_address import HUB, OCI, S3, checked_server
from gpufleet.model.data import DataAsk


class Server:
    """One server. ``allowed`` are those to which it may lead. Raises InputError for what is no address."""

    def __init__(self, store: str, allowed: Sequence[str] = (), tls: ssl.SSLContext | None = None) -> None:
        kind, base = checked_server(store)
        self._reader = HttpReader(base, allowed, tls)
        self.catalogue = _catalogue(kind, base, self._reader)
        self.address = self.catalogue.address

    def find(self, ask: DataAsk) -> Offer | None:
        """What the server has of it; None where it has nothing. Raises NotCopiedError."""
        return self.catalogue.find(ask)

    def bring(self, offer: Offer, cache: HeldFolder, pace: Callable[[int], None]) -> None:
        """Copy all files into a cache. Raises NotCopiedError, CopyStoppedError and OSError."""
        copy_offer(offer, self._reader, cache, pace)


def _catalogue(kind: str, base: str, reader: HttpReader) -> Catalogue:
    """What reads a server's lists."""
    path = urlsplit(base).path.strip("/")
    origin = base.removesuffix(urlsplit(base).path)
    if kind == S3:
        bucket, _, prefix = path.partition("/")
        return Bucket(f"{origin}/{bucket}", f"{prefix}/" if prefix else "", reader)
    if kind == OCI:
        return Registry(origin, f"{path.lower()}/" if path else "", reader)
    return Hub(base, reader) if kind == HUB else FileTree(base, reader)
