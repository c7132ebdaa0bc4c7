"""Asks a Prometheus server: the one module here that touches the network.

A redirect is not followed, because the token must reach the named server alone. Every failure names the
address and what to check. ``answer`` decodes, ``window`` cuts a long range into parts.
"""

import gzip
import http.client
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol
from urllib.parse import urlencode, urlsplit

from gpufleet import __version__
from gpufleet.files.fetching import NoRedirect, fetched
from gpufleet.model.model_errors import WorldError, printable
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.answer import PrometheusAnswer, beginning, decode, of_cluster, refusal, within
from gpufleet.usage.prometheus.window import Window

PATH = "/api/v1/query_range"
TIMEOUT_S = 130.0
"""A little more than the two minutes after which a server gives a query up, so that its own words are
heard."""
TOTAL_S = 600.0
"""The time for a whole answer: a gigabyte on a slow line."""

ANSWER_BYTES_MAX = 2**30
"""More would fill the machine's memory once decoded."""

MOMENT_BYTES_MAX = 2**27
"""For the values of one moment: those of 80,000 GPUs have some 30 MB."""

# The time for a whole answer is looked at after each block.
_BLOCK_BYTES = 2**20

Heard = Callable[[str, int, int], None]
"""Hears the query's name, how many parts of it have been answered, and how many there are."""


class Source(Protocol):
    """A source of answers to queries over a range."""

    @property
    def url(self) -> str:
        """The server's address, for messages."""

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """The answers part by part, in order of time; raises WorldError."""


class Prometheus:
    """A Prometheus server; the ``name`` of a query is for the display of progress."""

    def __init__(
        self,
        access: Access,
        heard: Heard | None = None,
        total_s: float = TOTAL_S,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        self.url = access.url
        self._cluster = access.cluster
        self._heard = heard
        self._headers = {"Accept-Encoding": "gzip", "User-Agent": f"gpufleet/{__version__}"}
        if token := access.token():
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = access.tls()
        self._total_s = total_s
        self._bytes_max = bytes_max

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """The answers part by part, in order of time."""
        parts = list(window.parts())
        for done, part in enumerate(parts, start=1):
            yield self._asked(promql, part)
            if self._heard is not None:
                self._heard(name, done, len(parts))

    def _asked(self, promql: str, part: Window) -> PrometheusAnswer:
        asked = {"query": promql, "start": part.first_s, "end": part.last_s, "step": part.step_s}
        url = f"{self.url}{PATH}?{urlencode(asked)}"
        request = urllib.request.Request(url, headers=self._headers)  # noqa: S310  http or https, see access
        try:
            with fetched(
                request, step_s=TIMEOUT_S, total_s=self._total_s, tls=self._tls, handlers=(NoRedirect(),)
            ) as response:
                body = self._read(response, response.headers.get("Content-Encoding", ""))
        except urllib.error.HTTPError as error:
            raise WorldError(self._why(error, promql)) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise WorldError(self._out_of_reach(error)) from error
        answer = of_cluster(decode(body, self.url + PATH), self._cluster, self.url)
        return within(answer, part.first_s, part.last_s, self.url)

    def _why(self, error: urllib.error.HTTPError, promql: str) -> str:
        start = f"{self.url}{PATH} answers {error.code}"
        if error.code in {401, 403}:
            return (
                f"{start}: access denied; name a file with a token that may query (--prometheus-token-file)"
            )
        # A redirect is not followed: a token would go to a server that was not named.
        if error.code in {301, 302, 303, 307, 308}:
            return (
                f"{start} and points to {_place_of(error.headers.get('Location'))}; name that server itself"
            )
        try:
            body = self._read(error, error.headers.get("Content-Encoding", ""))
        # The reason only comes on top: that the server refused has to be told in any case.
        except (OSError, http.client.HTTPException, WorldError):
            body = b""
        said = refusal(body)
        if error.code == 404 and not said:
            return f"{start}: no Prometheus there; check the address, and whether it has a path before {PATH}"
        if "too many samples" in said or "timed out" in said or "timeout" in said:
            return f"{start}: {printable(said, 300)}; take a longer --step or a shorter --window"
        told = printable(said, 300) if said else beginning(body)
        return f"{start}: {told}; the query was {promql}"

    def _out_of_reach(self, error: Exception) -> str:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        check = "check the address, and that it can be reached from here (kubectl port-forward)"
        if "CERTIFICATE_VERIFY_FAILED" in str(reason):
            check = "name the certificate authority that signed its certificate (--prometheus-ca-file)"
        return (
            f"no answer from Prometheus at {self.url}: {printable(str(reason) or repr(reason), 200)}; {check}"
        )

    def _read(self, response: http.client.HTTPResponse | urllib.error.HTTPError, encoding: str) -> bytes:
        """The whole body, unpacked; raises WorldError if it is too large or broken."""
        stream: IO[bytes] = response
        if encoding == "gzip":
            stream = gzip.GzipFile(fileobj=response)  # type: ignore[assignment]
        blocks, size = [], 0
        try:
            while block := stream.read(_BLOCK_BYTES):
                size += len(block)
                if size > self._bytes_max:
                    raise WorldError(
                        f"{self.url} answers with more than {self._bytes_max >> 20} MiB; "
                        "take a longer --step or a shorter --window, or a server with fewer series"
                    )
                blocks.append(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise WorldError(f"the answer of {self.url} breaks off or is damaged: {error}") from error
        # A read of so many bytes ends silently where a connection does.
        if missing := getattr(response, "length", None):
            broken = f"{missing} bytes are missing"
            raise WorldError(f"the answer of {self.url} breaks off or is damaged: {broken}")
        return b"".join(blocks)


def _place_of(location: str | None) -> str:
    """Where a redirect points, without its query, which may hold secrets."""
    try:
        place = urlsplit(location or "")
    except ValueError:
        place = None
    if place is None or not place.netloc:
        return "no address"
    return printable(f"{place.scheme}://{place.netloc}{place.path}")
