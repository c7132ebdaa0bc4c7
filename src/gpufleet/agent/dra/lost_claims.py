"""Prepared claims whose records were lost: the kubelet says which claims pods have, the API server with what.

The kubelet prepares a claim once. Where its record is damaged or the agent's folder is gone, nothing else
would keep its devices from another claim. ``claim_preparer`` asks here before it prepares anything new.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

import msgspec

from gpufleet.agent.dra.prepared_claims import PreparedClaim
from gpufleet.agent.kubelet.pod_resources import ClaimUse
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject, WrittenAllocation
from gpufleet.kube.resources import RESOURCE_CLAIMS
from gpufleet.kube.status import NotFound
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
_CLAIM = msgspec.json.Decoder(ResourceClaimObject)

InUse = Callable[[], Awaitable[Collection[ClaimUse]]]
"""What the kubelet says of claims. Raises KubeletError."""


class LostClaim(msgspec.Struct, frozen=True):
    """A claim that pods have and no record names, with what it was allocated."""

    namespace: str
    name: str
    uid: str
    driver: str
    allocation: WrittenAllocation


class NotKnownError(Exception):
    """It is not known yet what pods have: kubelet or API server do not say."""


class LostClaims:
    """Asks once for each process of the agent."""

    def __init__(self, client: Client, in_use: InUse, drivers: Collection[str]) -> None:
        self._client = client
        self._in_use = in_use
        self._drivers = drivers
        self.problems: list[str] = []
        """Claims of pods that are not found again, in sentences."""

    async def found(self, known: Iterable[PreparedClaim]) -> list[LostClaim]:
        """The claims that are not among those that are known. Raises NotKnownError."""
        names = {(one.namespace, one.name, one.driver) for one in known}
        try:
            uses = await self._in_use()
            found = []
            for key in sorted({(one.namespace, one.name, one.driver) for one in uses}):
                if key not in names and key[2] in self._drivers:
                    found += await self._claim(*key, [one for one in uses if _key(one) == key])
        except (KubeletError, KubeError, InputError) as error:
            raise NotKnownError(f"which claims pods have is not known: {error}") from error
        return found

    async def _claim(
        self, namespace: str, name: str, driver: str, uses: Collection[ClaimUse]
    ) -> list[LostClaim]:
        """The claim as the API server has it, if it has the devices that the kubelet says."""
        title = f"{namespace}/{name}"
        try:
            answer = await self._client.get(RESOURCE_CLAIMS, name, namespace=namespace, retry_limits=ONE_TRY)
        except NotFound:
            self.problems.append(f"claim {title} of a pod is gone from the API server, and so is its record")
            return []
        claim = decode(answer, _CLAIM)
        allocation = claim.status.allocation
        results = () if allocation is None else allocation.devices.results
        there = {(one.pool, one.device) for one in results if one.driver == driver}
        if allocation is None or any((one.pool, one.device) not in there for one in uses):
            self.problems.append(f"claim {title} of a pod has other devices now, and its record is lost")
            return []
        LOG.warning("a prepared claim is found again without its record", extra={"claim": title})
        return [LostClaim(namespace, name, claim.metadata.uid, driver, allocation)]


def _key(one: ClaimUse) -> tuple[str, str, str]:
    return one.namespace, one.name, one.driver
