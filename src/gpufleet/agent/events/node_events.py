"""Events about this node, for people: written one after another, beside everything else.

What cannot be written is tried once and left: the newest word is also in the log and in NodeDevices.
"""

import asyncio
import logging
from collections import deque

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import EVENTS
from gpufleet.model.visible import visible_text

LOG = logging.getLogger(__name__)
NAMESPACE = "default"
"""Where Events about nodes are kept, as the kubelet does."""

# While the API server is away the oldest are dropped: the latest tell the state.
KEPT_MAX = 100
NOTE_LENGTH_MAX = 1024
"""The API server refuses longer notes."""


class NodeEvent(msgspec.Struct, frozen=True):
    """What is said. ``kind`` is Normal or Warning, ``action`` what was tried."""

    kind: str
    reason: str
    action: str
    note: str


class NodeEvents:
    """Writes Events about one node; what was said last under a reason is not said again."""

    def __init__(self, client: Client, node: str) -> None:
        self.client = client
        self.node = node
        self._waiting: deque[NodeEvent] = deque(maxlen=KEPT_MAX)
        self._last: dict[str, str] = {}
        self._numbers = 0
        self._wake = asyncio.Event()

    def say(self, event: NodeEvent) -> None:
        """Have an Event written."""
        if self._last.get(event.reason) != event.note:
            self._last[event.reason] = event.note
            self._waiting.append(event)
            self._wake.set()

    def over(self, reason: str) -> None:
        """What was said under this reason holds no more: the same words are news again."""
        self._last.pop(reason, None)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._write(self._waiting.popleft())

    async def _write(self, said: NodeEvent) -> None:
        self._numbers += 1
        moment = self.client.clock.now()
        # A name has at most 253 characters: the rest is for the time and the number.
        name = f"{self.node[:200]}.{int(moment.timestamp() * 1e6):x}.{self._numbers:x}"
        note = visible_text(said.note)
        note = note if len(note) <= NOTE_LENGTH_MAX else note[: NOTE_LENGTH_MAX - 3] + "..."
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "gpufleet-agent",
            "reportingInstance": self.node,
            "type": said.kind,
            "reason": said.reason,
            "action": said.action,
            "note": note,
            # As the kubelet does it: the node's name in place of its uid.
            "regarding": {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": self.node},
        }
        try:
            await self.client.create(EVENTS, msgspec.json.encode(body), name=name, namespace=NAMESPACE)
        except KubeError as problem:
            LOG.warning("an Event was not written", extra={"problem": str(problem), "note": note})
