"""The agent as a process: logs, the way to the API server, signals, and one life of all parts.

``cli.agent`` reads the flags; ``assembly`` puts the parts together. SIGTERM ends it cleanly: sockets are
closed and removed, and nothing is told to the kubelet, so containers that run keep what they have and a
newer agent finds all as it was.
"""

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from gpufleet import __version__
from gpufleet.agent.assembly import Agent
from gpufleet.agent.machine_access import access_to_machine
from gpufleet.agent.settings import AgentSettings
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.signals import end_on_signal
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.expiry_watch import ExpiryWatch

LOG = logging.getLogger(__name__)
PROCESS_NAME = "gpufleet-agent"
"""As which `ps` and `top` show it; the kernel keeps 15 characters."""

# Watches keep one each (pods, the node, its report, a ConfigMap); other requests share the rest.
CONNECTIONS = 8
# A request that the server does not answer in time is tried again.
REQUEST_LIMIT_S = 30.0
# Only the agent's user may look into its state or open its socket.
PRIVATE = 0o700


def run_process(settings: AgentSettings) -> int:
    """Run until a signal comes; the exit code."""
    log_as_asked(settings.log_level, settings.log_format)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(PROCESS_NAME, encoding="ascii")
    return asyncio.run(_live(settings))


async def _live(settings: AgentSettings) -> int:
    choice = ClusterChoice(settings.kubeconfig, settings.context)
    async with connect(choice, connections=CONNECTIONS, timeout_s=REQUEST_LIMIT_S) as connection:
        client, transport, _ = connection
        try:
            settings.state_folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
            access = access_to_machine(settings, time.monotonic, time.time)
            expiries = ExpiryWatch(transport.expiries, client.clock)
            agent = Agent(settings, client, client.jitter, access, expiries)
            life = asyncio.ensure_future(agent.run())
            end_on_signal(life)
            LOG.info("the agent begins", extra={"node": settings.node, "version": __version__})
            await life
        except asyncio.CancelledError:
            LOG.info("stopped by a signal")
    return 0
