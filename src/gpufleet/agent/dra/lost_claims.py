"""Prepared claims whose records were lost: the kubelet says which claims pods have, the API server with what.

The kubelet prepares a claim once. Where its record is damaged or the agent's folder is gone, nothing else
would keep its devices from another claim. ``claim_preparer`` asks here before it prepares anything new.
A claim that cannot be remembered again keeps no other claim waiting, unless the cause passes by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

import msgspec

from gpufleet.agent.dra.prepared_claims import PreparedClaim
from gpufleet.agent.kubelet.pod_resources import ClaimUse
from gpufleet.agent.state.state_errors import KubeletError, NoFilesError, RefusedError
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

FIRST_PAUSE_S = 1.0
"""How long to wait before asking again what pods have: new claims wait for the answer."""

LONGEST_PAUSE_S = 15.0
"""Each pause is twice the one before, up to a third of what the kubelet gives a claim."""

InUse = Callable[[], Awaitable[Collection[ClaimUse]]]
"""What the kubelet says of claims. Raises KubeletError."""


class LostClaim(msgspec.Struct, frozen=True):
    """A claim that pods have and no record names, with what it was allocated."""

    namespace: str
    name: str
    uid: str
    driver: str
    allocation: WrittenAllocation

    @property
    def title(self) -> str:
        """How it is named in sentences: namespace/name."""
        return f"{self.namespace}/{self.name}"


Remember = Callable[[LostClaim], Awaitable[None]]
"""Remembers a claim that a pod has. Raises RefusedError, InputError, OSError."""


class NotKnownError(Exception):
    """It is not known yet what pods have: kubelet or API server do not say."""


class LostClaims:
    """Asks until it is known what pods have, and then no more in this process of the agent."""

    def __init__(self, client: Client, in_use: InUse, drivers: Collection[str], remember: Remember) -> None:
        self._client = client
        self._in_use = in_use
        self._drivers = drivers
        self._remember = remember
        self.are_known = asyncio.Event()
        """Set once each claim that pods have is remembered, or cannot be."""
        self._next_pause_s = FIRST_PAUSE_S
        self._unanswered = ""
        self._gone: list[str] = []
        self._refused: dict[tuple[str, str], tuple[LostClaim, str]] = {}

    @property
    def problem(self) -> str:
        """What is not known, and which claims are not remembered again, in sentences."""
        refused = [words for _, words in self._refused.values()]
        return "; ".join(one for one in (self._unanswered, *self._gone, *refused) if one)

    @property
    def pause_s(self) -> float:
        """How long to wait before the next search; 0 where there is none."""
        return 0.0 if self.are_known.is_set() else self._next_pause_s

    async def find(self, known: Iterable[PreparedClaim]) -> None:
        """Have the claims of pods remembered that are not among those that are known."""
        if self.are_known.is_set():
            await self.try_again()
            return
        self._unanswered, passes = "", False
        self._gone.clear()
        self._refused.clear()
        try:
            passes = await self._tried(await self._found(known))
        except NotKnownError as error:
            self._unanswered = str(error)
        if self._unanswered or passes:
            self._next_pause_s = min(2 * self._next_pause_s, LONGEST_PAUSE_S)
        else:
            self.are_known.set()

    async def try_again(self) -> None:
        """Have claims remembered that were refused: a card may be offered again. Nothing is asked."""
        if self.are_known.is_set():
            await self._tried([one for one, _ in self._refused.values()])

    def forget(self, driver: str, uid: str) -> None:
        """A claim is taken back: no pod has it any more."""
        self._refused.pop((uid, driver), None)

    async def _tried(self, lost: Iterable[LostClaim]) -> bool:
        """Have claims remembered, each by itself; whether one is refused for a cause that passes."""
        passes = False
        for one in lost:
            key = (one.uid, one.driver)
            try:
                await self._remember(one)
            except (RefusedError, InputError, OSError) as error:
                self._refused[key] = (one, f"claim {one.title} of a pod is not remembered again: {error}")
                passes = passes or isinstance(error, NoFilesError | OSError)
            else:
                self._refused.pop(key, None)
                LOG.warning("a prepared claim is found again without its record", extra={"claim": one.title})
        return passes

    async def _found(self, known: Iterable[PreparedClaim]) -> list[LostClaim]:
        """What pods have beside the claims that are known. Raises NotKnownError."""
        names = {(one.namespace, one.name, one.driver) for one in known}
        try:
            uses = await self._in_use()
            found = []
            for key in sorted({(one.namespace, one.name, one.driver) for one in uses}):
                if key not in names and key[2] in self._drivers:
                    found += await self._claim(*key, [one for one in uses if _key(one) == key])
        except (KubeletError, KubeError) as error:
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
            self._gone.append(f"claim {title} of a pod is gone from the API server, and so is its record")
            return []
        try:
            claim = decode(answer, _CLAIM)
        except InputError as error:
            self._gone.append(f"claim {title} of a pod cannot be read, and its record is lost: {error}")
            return []
        allocation = claim.status.allocation
        results = () if allocation is None else allocation.devices.results
        there = {(one.pool, one.device) for one in results if one.driver == driver}
        if allocation is None or any((one.pool, one.device) not in there for one in uses):
            self._gone.append(f"claim {title} of a pod has other devices now, and its record is lost")
            return []
        return [LostClaim(namespace, name, claim.metadata.uid, driver, allocation)]


def _key(one: ClaimUse) -> tuple[str, str, str]:
    return one.namespace, one.name, one.driver
