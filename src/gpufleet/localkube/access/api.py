"""A plain client for setting up a cluster: one kept connection, JSON in and out, nothing repeated.

Enough to ask for readiness and to create what `up` creates, with the standard library alone, because the
supervisor loads it too. Code that lists, watches or binds uses `gpufleet.kube`.
"""

import http.client
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from gpufleet.localkube.access.ports import LOOPBACK
from gpufleet.localkube.processes.process_errors import ClusterError

FIELD_MANAGER = "gpufleet-up"
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
CONNECTIONS = 8
"""Creates in parallel: one connection would wait for each answer."""
IDLE_S = 60.0
"""The API server closes a connection that was idle for 90 s, without a word: a request on it gets no answer,
and it is not known whether it was carried out."""

Object = dict[str, Any]


class RefusedError(ClusterError):
    """The API server answered with an error: its code, reason and message."""

    def __init__(self, what: str, status: int, body: bytes) -> None:
        self.status = status
        super().__init__(f"the API server refused {what}: {status} {_message(body)}")


def tls_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS that trusts only this authority and shows this certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    return context


class Api:
    """A connection to the API server of a local cluster, for one thread."""

    def __init__(
        self,
        port: int,
        context: ssl.SSLContext,
        timeout_s: float = 60.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=timeout_s, context=context)
        self._clock_s = clock_s
        self._used_s = clock_s()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        *,
        accept: str = JSON,
    ) -> tuple[int, bytes]:
        """One request and its status and body, whatever the status is."""
        encoded = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": accept, "Content-Type": content_type}
        if self._clock_s() - self._used_s > IDLE_S:
            # The next request opens another one.
            self._connection.close()
        try:
            self._connection.request(method, path, encoded, headers)
            answer = self._connection.getresponse()
            found = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ClusterError(
                f"the API server on port {self._connection.port} does not answer: {error}"
            ) from error
        self._used_s = self._clock_s()
        return found

    def call(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Object:
        """One request and the object it answers with; RefusedError for an error."""
        status, answer = self.request(method, path, body, content_type)
        if status >= 300:
            raise RefusedError(f"{method} {path}", status, answer)
        decoded: Object = msgspec.json.decode(answer)
        return decoded

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply: create the object or make it so; the same again changes nothing."""
        return self.call("PATCH", f"{path}?fieldManager={FIELD_MANAGER}&force=true", body, APPLY)


def in_parallel(
    connect: Callable[[], Api], work: Callable[[Api, Object], object], objects: Sequence[Object]
) -> None:
    """Do the work for every object over a few connections at once; the first error ends it."""
    if not objects:
        return
    size = -(-len(objects) // CONNECTIONS)

    def run(part: Sequence[Object]) -> None:
        with connect() as api:
            for one in part:
                work(api, one)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(run, objects[at : at + size]) for at in range(0, len(objects), size)]:
            done.result()


def _message(body: bytes) -> str:
    """What a Status object says, or the answer itself where it is none."""
    try:
        decoded = msgspec.json.decode(body)
    except msgspec.DecodeError:
        decoded = None
    if isinstance(decoded, dict) and isinstance(decoded.get("message"), str):
        return str(decoded["message"])[:500]
    return body.decode(errors="replace")[:500]
