"""Tells the pods of a claim which MIG instance was made for it, and how long each step of that took.

An Event in `kubectl describe pod`. The pods are those that the claim is reserved for, read from the API
server when the instance is there; where that fails, the log has the same words.
"""

import logging

import msgspec

from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.holders.held_parts import PodName
from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.resources import RESOURCE_CLAIMS
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
REASON = "MigInstanceMade"
_CLAIM = msgspec.json.Decoder(ResourceClaimObject)


class MadeInstanceEvents:
    """Writes them as instances are made."""

    def __init__(self, client: Client, events: PodEvents) -> None:
        self._client = client
        self._events = events

    async def tell(self, claim: ClaimName, note: str) -> None:
        """Tell every pod that the claim is reserved for."""
        LOG.info("an instance was made for a claim", extra={"claim": claim.title, "told": note})
        try:
            answer = await self._client.get(
                RESOURCE_CLAIMS, claim.name, namespace=claim.namespace, retry_limits=ONE_TRY
            )
            found = decode(answer, _CLAIM)
        except (KubeError, InputError) as error:
            LOG.warning("pods of a claim are not told", extra={"claim": claim.title, "problem": str(error)})
            return
        if found.metadata.uid != claim.uid:
            return
        for one in found.status.reserved_for:
            if one.resource == "pods":
                pod = PodName(claim.namespace, one.name, one.uid)
                await self._events.write("Normal", pod, REASON, "Preparing", note)
