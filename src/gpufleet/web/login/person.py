"""A person who may watch, as a login finds them, and the protocol of logins."""

from typing import NamedTuple, Protocol

from gpufleet.daemon.http_server import Page, Request
from gpufleet.web.documents import Refusal
from gpufleet.web.rights import Rights


class Person(NamedTuple):
    """A person: the name, "" on their own machine, what they may see, and whether a session can end."""

    user: str
    rights: Rights
    has_session: bool = False


class RefusedError(Exception):
    """A request is refused: with this status, because of this."""

    def __init__(self, status: int, refusal: Refusal) -> None:
        self.status = status
        self.refusal = refusal
        super().__init__(refusal.problem)


class Login(Protocol):
    """Finds out which person asks."""

    async def person(self, request: Request) -> Person:
        """The person that asks, and what that person may see now. Raises RefusedError."""
        ...

    async def log_in(self, request: Request) -> Page:
        """Begin a session. Raises RefusedError."""
        ...

    def log_out(self, request: Request) -> Page:
        """End the session of the request, if it has one."""
        ...
