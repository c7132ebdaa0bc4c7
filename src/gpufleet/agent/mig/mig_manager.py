"""NVIDIA's MIG Manager: where it changes the layouts of a node, this agent changes none."""

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.objects.metadata import Metadata, PartialObject
from gpufleet.kube.resources import NODES
from gpufleet.model.fleet_policy import MIG_MANAGER_LABEL

MIG_MANAGER_WORDS = "NVIDIA's MIG Manager changes the layouts of this node"
_NODE = msgspec.json.Decoder(PartialObject)


def is_at_work(node: Metadata) -> bool:
    """Whether it runs on a node, or is paused there, by the node's label."""
    return node.labels.get(MIG_MANAGER_LABEL, "false") != "false"


class MigManager:
    """Asks the API server for it. ``obstacle`` is for parts that do not follow the Node."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node

    async def obstacle(self) -> str:
        """Why no card of this node may be cut, "" where they may. Raises KubeError."""
        answer = await self._client.get(NODES, self._node, retry_limits=ONE_TRY)
        return MIG_MANAGER_WORDS if is_at_work(decode(answer, _NODE).metadata) else ""
