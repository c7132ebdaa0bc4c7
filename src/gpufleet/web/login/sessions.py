"""Sessions: a random name in a cookie, and what stands behind it, in memory alone.

The cookie is HttpOnly, so that no script reads it, and SameSite=Strict, so that no other site's page sends
it. Cookies do not know ports, so its name has the port in it: two servers on one machine do not end each
other's.
"""

import secrets
from typing import Generic, NamedTuple, TypeVar

from gpufleet.daemon.http_server import Request
from gpufleet.kube.clock import Clock

LASTS_S = 12 * 3600.0
"""A working day; then a person logs in again."""

SESSIONS_MAX = 1024
"""More people than watch one fleet; each costs a token in memory."""

NAME_BYTES = 32
"""256 random bits cannot be guessed."""

Value = TypeVar("Value")


class _Session(NamedTuple, Generic[Value]):
    until_s: float
    value: Value


class Sessions(Generic[Value]):
    """Sessions with something behind each. The oldest goes where there are too many."""

    def __init__(self, clock: Clock, cookie: str, *, secure: bool) -> None:
        self._clock = clock
        self._cookie = cookie
        self._secure = secure
        self._sessions: dict[str, _Session[Value]] = {}

    def begin(self, value: Value) -> tuple[str, str]:
        """A new session: the field of the answer that gives the browser its cookie."""
        name = secrets.token_urlsafe(NAME_BYTES)
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[name] = _Session(self._clock.monotonic_s() + LASTS_S, value)
        return self._field(name, int(LASTS_S))

    def of(self, request: Request) -> Value | None:
        """What stands behind the cookie of a request; None where it has none that counts."""
        name = self._name(request)
        session = self._sessions.get(name)
        if session is None:
            return None
        if session.until_s <= self._clock.monotonic_s():
            self._sessions.pop(name)
            return None
        return session.value

    def end(self, request: Request) -> tuple[str, str]:
        """End the session of a request: the field that takes the browser's cookie."""
        self._sessions.pop(self._name(request), None)
        return self._field("", 0)

    def _name(self, request: Request) -> str:
        for field in request.all_of("cookie"):
            for pair in field.split(";"):
                name, _, value = pair.strip().partition("=")
                if name == self._cookie:
                    return value
        return ""

    def _field(self, value: str, lasts_s: int) -> tuple[str, str]:
        secure = "; Secure" if self._secure else ""
        text = f"{self._cookie}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"
        return "Set-Cookie", text
