"""A connection to the cluster that a person or a process means: found, opened, and closed.

Commands and daemons begin here. ``following_access`` finds the server and the identity, ``http_transport``
carries the requests, and ``client`` says what is asked.
"""

import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from gpufleet.kube.answer import AnswerUnreadable
from gpufleet.kube.client import CALL_TIMEOUT_S, Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.configured_access import ConfiguredAccess
from gpufleet.kube.following_access import FollowingAccess, find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.kubeconfig import Overrides
from gpufleet.kube.status import Unauthorized

CONNECTIONS = 2
"""A command asks one thing after another, and follows nothing."""

# Where a context names none, as in kubectl.
DEFAULT_NAMESPACE = "default"


class ClusterChoice(msgspec.Struct, frozen=True):
    """Which cluster is meant, and which namespace there. Empty fields leave it to the kubeconfig."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""


class Connection(NamedTuple):
    """An open connection. ``namespace``: the chosen one, else the kubeconfig's, else ``default``."""

    client: Client
    transport: HttpTransport
    namespace: str


def check_choice(choice: ClusterChoice) -> None:
    """Find out whether there is a kubeconfig with what the choice names. Raises SettingsError."""
    _access_of(choice)


@contextlib.asynccontextmanager
async def connect(
    choice: ClusterChoice, *, connections: int = CONNECTIONS, timeout_s: float = CALL_TIMEOUT_S
) -> AsyncIterator[Connection]:
    """The cluster of a choice, until the block ends. Raises SettingsError where none can be found."""
    access = _access_of(choice)
    origin = access.origin if isinstance(access, FollowingAccess) else "the account of this pod"
    transport = HttpTransport(access, connections=connections)
    client = Client(transport, MachineClock(), random.Random(), timeout_s=timeout_s)
    try:
        yield Connection(client, transport, choice.namespace or access.namespace or DEFAULT_NAMESPACE)
    except Exception as error:
        _note_ways_out(error, origin)
        raise
    finally:
        await transport.close()


def _access_of(choice: ClusterChoice) -> FollowingAccess | ConfiguredAccess:
    overrides = Overrides(context=choice.context, namespace=choice.namespace)
    return find_access(kubeconfig=choice.kubeconfig, overrides=overrides)


def _note_ways_out(error: BaseException, origin: str) -> None:
    """Add to each error of the way to the server whose kubeconfig it was, and what can be done."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            _note_ways_out(one, origin)
    elif isinstance(error, TransportError) and "certificate" in str(error):
        error.add_note(f"{origin}: renew the server's certificate, or name its authority in the kubeconfig")
    elif isinstance(error, TransportError):
        error.add_note(f"{origin}: see whether its server runs, or name another kubeconfig or context")
    elif isinstance(error, Unauthorized):
        error.add_note(f"{origin}: its user needs new credentials (a token, a client certificate, a login)")
    elif isinstance(error, AnswerUnreadable):
        error.add_note(f"{origin}: see whether its server is a Kubernetes API server, and no proxy's page")
