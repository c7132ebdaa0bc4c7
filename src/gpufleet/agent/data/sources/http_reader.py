"""Asks the servers that the operator named, and no others.

A redirect is followed to the store's own server and to those that the operator allows beside it: a hub and a
bucket send readers to servers that carry the bytes. What a pod says never becomes a server's name.
"""

import contextlib
import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Protocol
from urllib.parse import urlsplit

from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.files.fetching import fetched

STEP_S = 30.0
"""For each step of an exchange: a server that says nothing for so long is away."""

SMALL_S = 60.0
"""For a whole list or manifest."""

BYTES_PER_S_LEAST = 1_000_000
"""A file that comes slower is given up: it would hold up all other copies of the node."""

SMALL_BYTES_MAX = 16 << 20
"""A list of the files of one model or dataset."""

_LENGTH = re.compile(r"[0-9]{1,19}")
"""Of 63 bits; Python refuses to read numbers of more than 4300 digits."""

NOT_FOUND, UNAUTHORIZED, FORBIDDEN, PARTIAL = 404, 401, 403, 206


class RefusedError(NotCopiedError):
    """The server refuses, with this status; ``challenge`` says how to log in, "" for nothing."""

    def __init__(self, problem: str, status: int, challenge: str) -> None:
        super().__init__(problem)
        self.status = status
        self.challenge = challenge


class Login(Protocol):
    """Knows the tokens that the files of a store are asked for with."""

    def headers(self, url: str) -> Mapping[str, str]:
        """What a request for this file has; nothing where no token is known."""
        ...

    def renew(self, url: str, refusal: RefusedError) -> None:
        """Get a new token for this file. Raises NotCopiedError, the refusal where it says of none."""
        ...


class _Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request to follow with. Raises NotCopiedError for a server that is not allowed."""
        origin = origin_of(newurl)
        if origin not in self.allowed:
            raise NotCopiedError(
                f"{req.full_url} leads to {origin}, which --data-redirect does not allow ({code})"
            )
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and origin != origin_of(req.full_url):
            # A token is for the server that it was got for.
            followed.remove_header("Authorization")
        return followed


class HttpReader:
    """Reads from the server of one store. ``allowed`` are servers to which it may lead, as SCHEME://HOST."""

    def __init__(self, base: str, allowed: Sequence[str] = (), tls: ssl.SSLContext | None = None) -> None:
        self._redirects = _Redirects(frozenset(map(origin_of, (base, *allowed))))
        self._tls = tls
        self.login: Login | None = None
        """Asked for a token with each file, and for a new one once a file is refused."""

    def may_ask(self, url: str) -> bool:
        """True for the store's own server and those that the operator allows."""
        try:
            return origin_of(url) in self._redirects.allowed
        except ValueError:
            # No address at all.
            return False

    def small(self, url: str, headers: Mapping[str, str] | None = None) -> bytes | None:
        """The whole body; None where the server has nothing of that name. Raises NotCopiedError."""
        with self._asked(url, dict(headers or {}), SMALL_S) as answer:
            if answer is None:
                return None
            body = answer.read(SMALL_BYTES_MAX + 1)
        if len(body) > SMALL_BYTES_MAX:
            raise NotCopiedError(f"{url} has more than {SMALL_BYTES_MAX} bytes")
        return body

    def size_bytes(self, url: str) -> int:
        """The length of a file, by a HEAD. Raises NotCopiedError."""
        with self._asked(url, {}, SMALL_S, "HEAD") as answer:
            length = "" if answer is None else answer.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length):
            raise NotCopiedError(f"{url} says no Content-Length that a file can have")
        return int(length)

    @contextlib.contextmanager
    def file(
        self, url: str, size_bytes: int, from_bytes: int
    ) -> Iterator[tuple[http.client.HTTPResponse, int]]:
        """A file from a place on, and the place where the answer begins. Raises NotCopiedError."""
        asked = {"Range": f"bytes={from_bytes}-"} if from_bytes else {}
        total_s = SMALL_S + size_bytes / BYTES_PER_S_LEAST
        with contextlib.ExitStack() as stack:
            try:
                answer = stack.enter_context(self._asked(url, asked | self._tokens(url), total_s))
            except RefusedError as refusal:
                if self.login is None:
                    raise
                # A token ends after minutes, and a copy takes hours.
                self.login.renew(url, refusal)
                answer = stack.enter_context(self._asked(url, asked | self._tokens(url), total_s))
            if answer is None:
                raise NotCopiedError(f"{url} is not there any more")
            yield answer, from_bytes if answer.status == PARTIAL else 0

    def _tokens(self, url: str) -> dict[str, str]:
        return {} if self.login is None else dict(self.login.headers(url))

    @contextlib.contextmanager
    def _asked(
        self, url: str, headers: dict[str, str], total_s: float, method: str = "GET"
    ) -> Iterator[http.client.HTTPResponse | None]:
        # Bytes as they are: a size and a digest are those of the file itself.
        asked = {"User-Agent": "gpufleet-agent", "Accept-Encoding": "identity", **headers}
        request = urllib.request.Request(url, headers=asked, method=method)  # noqa: S310  the operator's
        try:
            with fetched(
                request, step_s=STEP_S, total_s=total_s, tls=self._tls, handlers=(self._redirects,)
            ) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            if error.code == NOT_FOUND:
                yield None
                return
            problem = f"{url} is refused: {error.code} {error.reason}"
            raise RefusedError(problem, error.code, error.headers.get("WWW-Authenticate", "")) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotCopiedError(f"the exchange with {url} failed: {error}") from error


def origin_of(url: str) -> str:
    """SCHEME://HOST:PORT in lower case, the port as the scheme has it where none is written."""
    found = urlsplit(url)
    port = found.port or {"https": 443, "http": 80}.get(found.scheme)
    return f"{found.scheme}://{found.hostname}:{port}"
