"""The names under which the page is served.

A page of another site could have its own name point to this address (DNS rebinding), and its scripts would
then count as ours. The browser says the name in ``Host``; one that is not ours is refused.
"""

from gpufleet.daemon.http_server import Request
from gpufleet.web.documents import Refusal
from gpufleet.web.login.person import RefusedError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def check_host(request: Request, hosts: frozenset[str]) -> None:
    """Refuse a request for another name, and a write that a page of another site sends. Raises RefusedError.

    Without ``hosts`` every name is ours: the person is then found by a token or a cookie, which no other
    name has.
    """
    # Of two names a proxy may have checked the other one.
    named = request.all_of("host")
    host = named[0].lower() if len(named) == 1 else ""
    if not host or (hosts and host not in hosts):
        refusal = Refusal(
            "this name is not served", "Host", host, f"open {min(hosts)}" if hosts else "name one host"
        )
        raise RefusedError(421, refusal)
    origin = request.one_of("origin").lower()
    if request.method == "POST" and origin and origin.partition("://")[2] != host:
        raise RefusedError(403, Refusal("pages of other sites may not ask this", "Origin", origin))


def loopback_hosts(port: int) -> frozenset[str]:
    """The names of this machine that only it can reach."""
    return frozenset(f"{name}:{port}" for name in LOOPBACK_NAMES)
