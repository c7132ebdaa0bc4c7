"""Events about the pods of this node, for their owners: `kubectl describe pod` shows them.

An Event that cannot be written is left, since the log has the same words.
"""

import logging

import msgspec

from gpufleet.agent.holders.held_parts import PodName
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import EVENTS
from gpufleet.model.visible import visible_text

LOG = logging.getLogger(__name__)


class PodEvents:
    """Writes Events about pods, one after another."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node
        self._written = 0

    async def warn(self, pod: PodName, reason: str, action: str, note: str) -> None:
        """Write a warning; ``action`` is what was tried or happened."""
        await self.write("Warning", pod, reason, action, note)

    async def write(self, kind: str, pod: PodName, reason: str, action: str, note: str) -> None:
        """Write one, Normal or Warning."""
        self._written += 1
        moment = self._client.clock.now()
        # A name has at most 253 characters: the rest is for the time and the number.
        name = f"{pod.name[:200]}.{int(moment.timestamp() * 1e6):x}.{self._written:x}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "gpufleet-agent",
            "reportingInstance": self._node,
            "type": kind,
            "reason": reason,
            "action": action,
            "note": visible_text(note),
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
        }
        try:
            await self._client.create(EVENTS, msgspec.json.encode(body), name=name, namespace=pod.namespace)
        except KubeError as error:
            LOG.warning("an Event was not written", extra={"problem": str(error), "note": note})
