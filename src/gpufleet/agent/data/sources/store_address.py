"""The stores that the operator named: a folder of the node, or a server and how it is asked.

``https://HOST/PATH`` is a tree of files, ``s3+https://ENDPOINT/BUCKET/PREFIX`` a bucket, ``hf+https://HOST``
a hub and ``oci+https://HOST/PREFIX`` a registry; each also with ``http``. These and what ``--data-redirect``
allows are all the servers that an agent ever asks for data. ``servers`` asks them.
"""

from pathlib import Path
from urllib.parse import urlsplit

from gpufleet.model.model_errors import InputError

TREE, S3, HUB, OCI = "", "s3", "hf", "oci"
KINDS = (TREE, S3, HUB, OCI)
SCHEMES = ("https", "http")
EXPECTED = "a folder as /PATH, or https://, s3+https://, hf+https:// or oci+https://HOST/PATH"


def is_address(store: str) -> bool:
    """True for a server, false for a folder."""
    return "://" in store


def checked_server(store: str, field: str = "--data-store") -> tuple[str, str]:
    """The kind of a server, and its address without a slash at the end. Raises InputError."""
    kind, _, rest = store.rpartition("+")
    base = checked_origin(rest.rstrip("/"), field, store)
    if kind not in KINDS:
        raise InputError("not a kind of store", field=field, value=store, expected=EXPECTED)
    if kind == S3 and not urlsplit(base).path:
        raise InputError("no bucket", field=field, value=store, expected="s3+https://ENDPOINT/BUCKET")
    return kind, base


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
