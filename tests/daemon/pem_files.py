"""A certificate and its key as a mounted Secret has them, and clients that trust their authority."""

import os
import ssl
from pathlib import Path

from gpufleet.localkube.access.certificates import Authority, Identity

AUTHORITY = Authority.new("authority of the tests")


def issued() -> Identity:
    """A new certificate for this machine, with a key of its own."""
    return AUTHORITY.server(["localhost"], ["127.0.0.1"])


def client(authority: Authority = AUTHORITY) -> ssl.SSLContext:
    """A client that checks the server's certificate and name."""
    return ssl.create_default_context(cadata=authority.identity.certificate.decode())


def mount(folder: Path, identity: Identity) -> tuple[Path, Path]:
    """Put the pair where it is served from, at once, as the kubelet does: through a link to a new folder."""
    version = folder / f"..version-{len(list(folder.iterdir()))}"
    version.mkdir()
    (version / "tls.crt").write_bytes(identity.certificate)
    (version / "tls.key").write_bytes(identity.key)
    (folder / "..data_tmp").symlink_to(version.name)
    (folder / "..data_tmp").rename(folder / "..data")
    paths = folder / "tls.crt", folder / "tls.key"
    for path in paths:
        if not path.is_symlink():
            path.symlink_to(os.path.join("..data", path.name))  # noqa: PTH118  a link has a text
    return paths
