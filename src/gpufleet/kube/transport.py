"""The seam between us and an API server: requests and answers as bytes.

Everything above (``client``, ``mirror``, the shells) runs unchanged over any of its makings:
``http_transport`` speaks HTTP/1.1 to a real server, the simulation answers from memory and
injects faults.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from gpufleet.kube.kube_errors import TransportError

__all__ = ["Request", "Response", "ResponseStream", "Transport", "TransportError"]

JSON = "application/json"


LARGEST_BODY_BYTES = 1024 * 1024 * 1024
"""A page of a list: 500 objects as large as etcd takes them have 750 MiB."""

LARGEST_OBJECT_BYTES = 16 * 1024 * 1024
"""One object: etcd takes 1.5 MiB, and an aggregated server rarely more."""


class Request(msgspec.Struct, frozen=True):
    """One request. ``target`` is path and query as they stand in the request line."""

    method: str
    target: str
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    most_bytes: int = LARGEST_BODY_BYTES
    """A longer answer is refused."""


class Response(msgspec.Struct, frozen=True):
    """A whole answer. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class ResponseStream(Protocol):
    """An answer that is still coming: a watch."""

    status: int
    headers: dict[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, cut anywhere; ends when the server ends it.

        Raises TransportError when the connection breaks.
        """
        ...

    async def close(self) -> None:
        """Stop listening; more than once does no harm."""
        ...


class Transport(Protocol):
    """A way to one API server, for many requests at once."""

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Send a request and wait for its whole answer, whatever its status.

        Raises TransportError; its ``reached`` tells whether the server may have acted.
        """
        ...

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """Send a request and wait, at most so long, until its answer begins."""
        ...

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        ...
