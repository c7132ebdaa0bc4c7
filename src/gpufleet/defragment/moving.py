"""Making planned moves: one pod after the other is evicted, and the next only when the one before runs again.

Each move counts on those before it, so the first that does not come out as planned is the last. Evictions go
through the Eviction API, which keeps disruption budgets. Nothing is broken off in the middle of a write:
``stop`` stops this between two requests, and the node is opened again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import msgspec

from gpufleet.defragment.cordon import cordoned
from gpufleet.defragment.plan import PlannedMove
from gpufleet.engine.instruction import WhyEvicted
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import PodsWatchedByAsker, Victim
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import NotFound
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import WorldError, printable
from gpufleet.model.pod_name import PodName

POLL_EVERY_S = 1.0
"""A replacement takes seconds to start; each look reads one pod or a few."""

NEW_PLAN = "ask for a new plan"
OVER = ("Succeeded", "Failed")
"""Phases of a pod that has ended for good."""

Tell = Callable[[str], None]


class MoveFailedError(WorldError):
    """A move was refused, or did not come out as planned; the moves after it are not made."""


class StoppedError(WorldError):
    """A stop was asked for; the moves after this one are not made."""


class _Spec(Structure, frozen=True):
    node_name: str = ""


class _Status(Structure, frozen=True):
    phase: str = ""


class _Pod(Structure, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER = msgspec.json.Decoder(_Pod)


class Mover:
    """Makes moves in a cluster; ``settle_s`` is how long one may take until its pod runs again."""

    def __init__(self, client: Client, settle_s: float, tell: Tell, stop: asyncio.Event) -> None:
        self.client = client
        self.evictions = Evictions(
            client,
            PodsWatchedByAsker(),
            epoch=None,
            at_once=1,
            may_write=lambda: True,
            ends=lambda _: False,
        )
        self.settle_s = settle_s
        self.tell = tell
        self.stop = stop

    async def make(self, moves: Sequence[PlannedMove]) -> None:
        """Make all moves, in their order. Raises MoveFailedError, StoppedError and CordonLeftError."""
        for number, move in enumerate(moves, 1):
            if self.stop.is_set():
                raise StoppedError(f"stopped after {number - 1} of {len(moves)} moves")
            self.tell(f"{number} of {len(moves)}: {move.pod} leaves {move.source}")
            async with cordoned(self.client, move.source, self.tell):
                found = await self._make(move)
            self.tell(f"{number} of {len(moves)}: {found.metadata.path} runs on {move.target}")

    async def _make(self, move: PlannedMove) -> _Pod:
        namespace, _, name = move.pod.partition("/")
        leaving = await self._still_there(move, namespace, name)
        siblings = await self._of_controller(leaving)
        # The replacement is known by being none of these.
        before = {one.metadata.uid for one in siblings}
        victim = Victim(PodName(namespace, name, PodUid(move.uid)), WhyEvicted.MOVED.value)
        refusal = await self.evictions.evict(victim)
        if refusal is not None:
            raise MoveFailedError(
                f"{move.pod} stays on {move.source}: its eviction is refused: {printable(refusal.words, 400)}"
            )
        return await self._settled(move, leaving, before)

    async def _still_there(self, move: PlannedMove, namespace: str, name: str) -> _Pod:
        try:
            pod = decode(await self.client.get(PODS, name, namespace=namespace), _DECODER)
        except NotFound as gone:
            raise MoveFailedError(f"{move.pod} is gone already: {NEW_PLAN}") from gone
        if pod.metadata.uid != move.uid or pod.metadata.deletion_timestamp is not None:
            raise MoveFailedError(f"{move.pod} is gone already: {NEW_PLAN}")
        if pod.metadata.controller is None:
            raise MoveFailedError(f"{move.pod} has no controller any more that would replace it: {NEW_PLAN}")
        return pod

    async def _settled(self, move: PlannedMove, leaving: _Pod, before: set[str]) -> _Pod:
        """The pod that runs instead, once the one that leaves is gone."""
        limit_s = self.client.clock.monotonic_s() + self.settle_s
        while True:
            pods = await self._of_controller(leaving)
            instead = _instead(move, [one for one in pods if one.metadata.uid not in before])
            ended = all(one.metadata.uid != move.uid or one.status.phase in OVER for one in pods)
            if ended and instead is not None and instead.status.phase in ("Running", "Succeeded"):
                return instead
            doing = _doing(move, instead, ended=ended)
            if self.client.clock.monotonic_s() >= limit_s:
                raise MoveFailedError(f"after {self.settle_s:g} s {doing}")
            if await self._stopped():
                raise StoppedError(f"stopped while {doing}")

    async def _stopped(self) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), POLL_EVERY_S)
        return self.stop.is_set()

    async def _of_controller(self, pod: _Pod) -> list[_Pod]:
        """The pods that the same controller manages now."""
        controller = pod.metadata.controller
        found: list[_Pod] = []
        async for page in self.client.list_pages(PODS, namespace=pod.metadata.namespace):
            found += [decode(bytes(raw), _DECODER) for raw in page.items or ()]
        return [
            one
            for one in found
            if controller and one.metadata.controller and one.metadata.controller.uid == controller.uid
        ]


def _instead(move: PlannedMove, new: list[_Pod]) -> _Pod | None:
    """The new pod that came to the node of the plan. Raises MoveFailedError where one went elsewhere only."""
    placed = [one for one in new if one.spec.node_name]
    here = next((one for one in placed if one.spec.node_name == move.target), None)
    if here is None and placed:
        pod, node = placed[0].metadata.path, placed[0].spec.node_name
        raise MoveFailedError(f"{pod}, in place of {move.pod}, went to {node} and not to {move.target}")
    if here is not None and here.status.phase == "Failed":
        raise MoveFailedError(f"{here.metadata.path}, in place of {move.pod}, failed on {move.target}")
    return here


def _doing(move: PlannedMove, instead: _Pod | None, *, ended: bool) -> str:
    """What is waited for."""
    if not ended:
        return f"{move.pod} has not ended"
    if instead is None:
        return (
            f"{move.controller} has no pod on a node in place of {move.pod}; "
            "`gpufleet explain` says what it waits for"
        )
    return f"{instead.metadata.path} does not run yet on {move.target}, in place of {move.pod}"
