"""Pages of metrics, read over HTTP when a value of theirs is asked for.

A page is kept for two seconds, so that autoscalers that ask together cause one read. Each read has a bound on
time and bytes, and not more than some run at once: a pod that hangs costs its own value only.
"""

import asyncio
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from gpufleet import __version__
from gpufleet.files.fetching import fetched
from gpufleet.model.model_errors import WorldError, printable
from gpufleet.usage.metrics_page import SeriesValue, values_on

KEPT_S = 2.0
"""Short beside the fifteen seconds after which an autoscaler asks again."""

READ_S = 3.0
"""For a whole page; one comes within milliseconds."""

AT_ONCE = 32
"""Threads that read: pages of a thousand pods come within a second, and pods that hang hold no more."""

PAGE_BYTES_MAX = 8 << 20
"""Pages have some hundred kilobytes; a server that sends more is none of metrics."""

KEPT_PAGES_MAX = 20_000
"""Twice as many as there are nodes in the largest fleet."""

# Read so much at a time, and the bound is looked at after each.
_BLOCK_BYTES = 1 << 16


class Page(NamedTuple):
    """The samples of a page that were asked for, and when it was read (seconds since 1970)."""

    at_s: float
    samples: tuple[SeriesValue, ...]


class Reader(Protocol):
    """Reads the page at a URL as text; raises WorldError."""

    def __call__(self, url: str) -> str:
        """The text of the page at a URL."""
        ...


class Pages:
    """Reads pages; ``names`` are the series that any source wants, and the rest is not even parsed."""

    def __init__(self, names: Iterable[str], *, read: Reader, now: Callable[[], float] = time.time) -> None:
        self._names = frozenset(names)
        self._read = read
        self._now = now
        self._threads = ThreadPoolExecutor(AT_ONCE, "page")
        self._kept: dict[str, asyncio.Task[Page]] = {}
        self._begun_s: dict[str, float] = {}

    async def page(self, url: str) -> Page:
        """The page, at most ``KEPT_S`` old. Raises WorldError."""
        now_s = self._now()
        task = self._kept.get(url)
        if task is None or not 0 <= now_s - self._begun_s[url] <= KEPT_S:
            self._forget(now_s)
            task = asyncio.create_task(self._asked(url))
            self._kept[url], self._begun_s[url] = task, now_s
        # Others may wait for the same page: who is cancelled must not end it for them.
        return await asyncio.shield(task)

    def close(self) -> None:
        """Wait for no read any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _asked(self, url: str) -> Page:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._in_thread, url)

    def _in_thread(self, url: str) -> Page:
        # What comes is at least as new as the question.
        at_s = self._now()
        return Page(at_s, tuple(values_on(self._read(url), self._names)))

    def _forget(self, now_s: float) -> None:
        if len(self._kept) < KEPT_PAGES_MAX:
            return
        old = [url for url, at_s in self._begun_s.items() if now_s - at_s > KEPT_S]
        for url in old:
            self._kept.pop(url)
            self._begun_s.pop(url)


class HttpReader:
    """Reads over HTTP, or over HTTPS where the URL says so; follows no redirect and uses no proxy.

    ``authority`` (PEM) has to have signed a server's certificate; its name is not checked, as a pod has
    none but its address.
    """

    def __init__(self, authority: str = "") -> None:
        self._tls = ssl.create_default_context(cadata=authority) if authority else None
        if self._tls is not None:
            self._tls.check_hostname = False

    def __call__(self, url: str) -> str:
        """The text of the page at a URL."""
        headers = {"User-Agent": f"gpufleet/{__version__}", "Accept": "text/plain"}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  the URLs are made here
        handlers = (_NoRedirect(), urllib.request.ProxyHandler({}))
        try:
            with fetched(request, step_s=READ_S, total_s=READ_S, tls=self._tls, handlers=handlers) as answer:
                return _body(answer).decode()
        except urllib.error.HTTPError as error:
            raise WorldError(f"its page of metrics answers with {error.code}") from error
        except TimeoutError as error:
            raise WorldError(f"its page of metrics does not come within {READ_S:.0f} s") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            told = printable(str(reason) or repr(reason), 200)
            raise WorldError(f"its page of metrics cannot be read: {told}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error like any other: it might lead anywhere."""

    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""


def _body(answer: http.client.HTTPResponse) -> bytes:
    blocks, size = [], 0
    while block := answer.read(_BLOCK_BYTES):
        size += len(block)
        if size > PAGE_BYTES_MAX:
            raise WorldError(f"its page of metrics has more than {PAGE_BYTES_MAX >> 20} MiB")
        blocks.append(block)
    return b"".join(blocks)
