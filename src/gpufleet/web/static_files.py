"""The files of the page, read once at the start. A path is looked up by its name, so none leads elsewhere."""

import gzip
import hashlib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from gpufleet.daemon.http_server import Accepted, Page

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
PACKED = frozenset({".html", ".css", ".js", ".svg", ".txt"})
INDEX = "/index.html"


class StaticFile(NamedTuple):
    """A file as it is sent, and packed; ``tag`` changes with its content."""

    content: bytes
    packed: bytes | None
    content_type: str
    tag: str


def page_files() -> dict[str, StaticFile]:
    """The files by the path under which they are served. None of another type is."""
    return dict(_files(resources.files("gpufleet.web") / "static", ""))


def _files(folder: Traversable, path: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    if not folder.is_dir():
        return found
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        ending = f".{one.name.rpartition('.')[2]}"
        if one.is_dir():
            found += _files(one, f"{path}/{one.name}")
        elif ending in TYPES:
            found.append((f"{path}/{one.name}", _file(one.read_bytes(), ending)))
    return found


def _file(content: bytes, ending: str) -> StaticFile:
    packed = gzip.compress(content, mtime=0) if ending in PACKED else None
    return StaticFile(content, packed, TYPES[ending], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def page_of(file: StaticFile, accepted: Accepted) -> Page:
    """The file, packed where the client takes that."""
    is_packed = accepted.gzip and file.packed is not None
    body = file.packed if is_packed and file.packed is not None else file.content
    return Page((body,), file.content_type, gzipped=is_packed)
