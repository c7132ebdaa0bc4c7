"""The login on one's own machine: a random token stands in the URL that the command prints.

Other users of the machine reach the port too, so the port alone opens nothing. The token is taken from the
URL by a redirect, and a cookie comes in its place. What is shown is read with the caller's own kubeconfig.
"""

import hmac
import secrets
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import parse_qs

from gpufleet.daemon.http_server import Page, Request
from gpufleet.kube.clock import Clock
from gpufleet.web.documents import Refusal
from gpufleet.web.login.person import Person, RefusedError
from gpufleet.web.login.sessions import Sessions
from gpufleet.web.rights import Rights

WAY_OUT = "open the URL that `gpufleet web` printed when it started"


class LocalLogin:
    """One token, which is good while the server runs. ``rights`` are those that the kubeconfig has."""

    def __init__(self, clock: Clock, port: int, rights: Callable[[], Rights]) -> None:
        self.token = secrets.token_urlsafe(32)
        self._rights = rights
        self._sessions: Sessions[bool] = Sessions(clock, f"gpufleet-{port}", secure=False)

    async def person(self, request: Request) -> Person:
        """The caller of the command, if the request has a session. Raises RefusedError."""
        if not self._sessions.of(request):
            raise RefusedError(401, Refusal("you have not logged in", way_out=WAY_OUT))
        return Person("", self._rights())

    async def log_in(self, request: Request) -> Page:
        """Begin a session for the token of the URL. Raises RefusedError."""
        given = _token_of(request.target.partition("?")[2])
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise RefusedError(401, Refusal("this token is not the server's", "token", way_out=WAY_OUT))
        cookie = self._sessions.begin(value=True)
        return Page((), status=HTTPStatus.SEE_OTHER, fields=(cookie, ("Location", "/")))

    def log_out(self, request: Request) -> Page:
        """End the session of the request."""
        return Page((), status=HTTPStatus.NO_CONTENT, fields=(self._sessions.end(request),))


def _token_of(query: str) -> str:
    """The token of a query; empty where the query has none, or more fields than the printed URL ever has."""
    try:
        return parse_qs(query, max_num_fields=1).get("token", [""])[0]
    except ValueError:
        return ""
