"""An Event on the node when what proves the agent to the API server, or it to us, ends soon.

The Event is written while the credential still works; after its end the agent could write none.
"""

import asyncio

from gpufleet.agent.events.node_events import NodeEvent, NodeEvents
from gpufleet.kube.client import Client
from gpufleet.kube.expiry_watch import ExpiryWatch

REASON = "CredentialExpires"


class CredentialEvents:
    """Runs the watch and writes what it says."""

    def __init__(self, client: Client, node: str, watch: ExpiryWatch) -> None:
        self._events = NodeEvents(client, node)
        self._watch = watch
        watch.on_near = self._say

    async def run(self) -> None:
        """Watch and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run())
            group.create_task(self._events.run())

    def _say(self, sentence: str) -> None:
        self._events.say(NodeEvent("Warning", REASON, "LookAtCredentials", sentence))
