"""What an earlier agent said of MIG layouts goes from the Node, where this agent carries none out.

While it stands, the scheduler and ``gpufleet mig apply`` write layouts for this node and wait for them.
"""

import asyncio
import logging

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODES
from gpufleet.mig.wanted import STATES_ANNOTATION

LOG = logging.getLogger(__name__)

RETRY_S = 60.0
"""A word that stays for a minute costs a cut that is taken back later, and nothing else."""


class _Node(Structure, frozen=True):
    metadata: Metadata


DECODER = msgspec.json.Decoder(_Node)


class StatesTakenBack:
    """Takes the annotation back once, while ``run`` runs. ``problem`` says what keeps it from that."""

    def __init__(self, client: Client, node: str) -> None:
        self.problem = ""
        self._client = client
        self._node = node

    async def run(self) -> None:
        """Try until it is done; then wait until cancelled, because a part that ends counts as failed."""
        while not await self._is_done():
            await self._client.clock.sleep(RETRY_S)
        await asyncio.Event().wait()

    async def _is_done(self) -> bool:
        try:
            said = decode(await self._client.get(NODES, self._node), DECODER).metadata
            if STATES_ANNOTATION in said.annotations:
                body = {"metadata": {"annotations": {STATES_ANNOTATION: None}}}
                await self._client.patch(NODES, self._node, body)
        except KubeError as error:
            self.problem = f"the annotation {STATES_ANNOTATION} may stand on the Node still: {error}"
            LOG.warning("states of MIG layouts may stay on the node", extra={"problem": str(error)})
            return False
        self.problem = ""
        return True
