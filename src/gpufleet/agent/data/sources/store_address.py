"""The stores that the operator named: a folder of the node, or a server and how it is asked.

``https://HOST/PATH`` is a tree of files, ``s3+https://ENDPOINT/BUCKET/PREFIX`` a bucket, ``hf+https://HOST``
a hub and ``oci+https://HOST/PREFIX`` a registry; each also with ``http``. These and what ``--data-redirect``
allows are all the servers that an agent ever asks for data.
"""

import ssl
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from gpufleet.agent.data.sources.bucket import Bucket
from gpufleet.agent.data.sources.file_tree import FileTree
from gpufleet.agent.data.sources.http_reader import HttpReader
from gpufleet.agent.data.sources.hub import Hub
from gpufleet.agent.data.sources.offer import RemoteStore
from gpufleet.agent.data.sources.registry import Registry
from gpufleet.model.model_errors import InputError

TREE, S3, HUB, OCI = "", "s3", "hf", "oci"
KINDS = (TREE, S3, HUB, OCI)
SCHEMES = ("https", "http")
EXPECTED = "a folder as /PATH, or https://, s3+https://, hf+https:// or oci+https://HOST/PATH"


def is_address(store: str) -> bool:
    """True for a server, false for a folder."""
    return "://" in store


def remote_store(
    store: str, allowed: Sequence[str], tls: ssl.SSLContext | None = None, field: str = "--data-store"
) -> tuple[RemoteStore, HttpReader]:
    """The store at an address, and what reads from it. Raises InputError."""
    kind, _, rest = store.rpartition("+")
    base = checked_origin(rest.rstrip("/"), field, store)
    if kind not in KINDS:
        raise InputError("not a kind of store", field=field, value=store, expected=EXPECTED)
    reader = HttpReader(base, allowed, tls)
    path = urlsplit(base).path.strip("/")
    origin = base.removesuffix(urlsplit(base).path)
    if kind == S3:
        bucket, _, prefix = path.partition("/")
        if not bucket:
            raise InputError("no bucket", field=field, value=store, expected="s3+https://ENDPOINT/BUCKET")
        return Bucket(f"{origin}/{bucket}", f"{prefix}/" if prefix else "", reader), reader
    if kind == OCI:
        return Registry(origin, f"{path.lower()}/" if path else "", reader), reader
    return (Hub(base, reader) if kind == HUB else FileTree(base, reader)), reader


def checked_origin(address: str, field: str, value: str) -> str:
    """An address without anything that is no part of one. Raises InputError."""
    try:
        found = urlsplit(address)
        plain = found.scheme in SCHEMES and found.hostname and (found.port is None or found.port)
    except ValueError:
        plain = False
    if not plain or "@" in found.netloc or found.query or found.fragment or not address.isprintable():
        raise InputError("not the address of a server", field=field, value=value, expected=EXPECTED)
    return address


def folder_of(store: str) -> Path:
    """A store that is a folder of the node. Raises InputError."""
    if not store.startswith("/"):
        raise InputError(
            "neither a folder nor a server", field="--data-store", value=store, expected=EXPECTED
        )
    return Path(store)
