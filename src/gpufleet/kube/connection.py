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

from gpufleet.kube.client import CALL_TIMEOUT_S, Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kubeconfig import Overrides

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


@contextlib.asynccontextmanager
async def connect(
    choice: ClusterChoice, *, connections: int = CONNECTIONS, timeout_s: float = CALL_TIMEOUT_S
) -> AsyncIterator[Connection]:
    """The cluster of a choice, until the block ends. Raises SettingsError where none can be found."""
    overrides = Overrides(context=choice.context, namespace=choice.namespace)
    access = find_access(kubeconfig=choice.kubeconfig, overrides=overrides)
    transport = HttpTransport(access, connections=connections)
    client = Client(transport, MachineClock(), random.Random(), timeout_s=timeout_s)
    try:
        yield Connection(client, transport, choice.namespace or access.namespace or DEFAULT_NAMESPACE)
    finally:
        await transport.close()
