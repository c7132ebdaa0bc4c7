"""Nodes are emptied: they are closed, ends are waited for, and the scheduler is asked to move the rest.

Each look reads the cluster and plans anew, so that nothing is remembered that the objects do not say: which
nodes are closed and until when (``closing``), which pods were asked to save their work and when
(``keys.CHECKPOINT_REQUESTED``), and where they are to go (``keys.MOVE_TO``). A drain that was killed goes on
with the same deadlines. The scheduler keeps the places and evicts, so disruption budgets hold; pods of other
schedulers are evicted here, through the same API.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable, Iterable

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import picture_of
from gpufleet.cluster.snapshots.document import as_written
from gpufleet.cluster.watching.picture import Picture
from gpufleet.drain.checkpoints import question_on, written_question
from gpufleet.drain.closing import ClosedNode, close, end_backfill, is_closed
from gpufleet.drain.facts import DrainRequest, plan_of
from gpufleet.drain.plan import DrainPlan, PodMove, Way, WorkPlan, short_words
from gpufleet.drain.question import US_PER_S, DrainRules
from gpufleet.engine.instruction import WhyEvicted
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import PodsWatchedByAsker, Victim
from gpufleet.kube import keys, resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.objects.pod import EVICTION_REFUSED, Pod
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import WorldError, printable
from gpufleet.model.phrases import counted
from gpufleet.model.pod_name import PodName

POLL_EVERY_S = 2.0
"""Pods take seconds to end; a look lists the cluster once."""

POLL_SHARE = 4
"""A look that takes long is followed by a pause of so many times its length, to spare the API server."""

SETTLE_S = 600.0
"""How long after its deadline a node may still be emptied of pods that were told to end."""

REFUSED_FOR_S = 10.0
"""After a refused eviction of a pod of another scheduler; the controller of a budget needs some seconds."""

Tell = Callable[[str], None]


class NotDrainedError(WorldError):
    """Work is left on a node, and nothing more can be done about it."""


class StoppedError(WorldError):
    """A stop was asked for."""


class DrainOptions(msgspec.Struct, frozen=True):
    """``checkpoint_s`` is how long work may take to save itself after it was asked.

    ``without_places``: what fits nowhere else is evicted at the deadline all the same, and waits.
    """

    checkpoint_s: int = 300
    without_places: bool = False


class Drainer:
    """Empties the nodes of a request."""

    def __init__(
        self,
        client: Client,
        request: DrainRequest,
        settings: Settings,
        options: DrainOptions,
        tell: Tell,
        stop: asyncio.Event,
    ) -> None:
        self.client = client
        self.request = request
        self.settings = settings
        self.options = options
        self.stop = stop
        self._tell = tell
        self._lines_shown: dict[str, str] = {}
        self._closed: dict[str, ClosedNode] = {}
        self._empty: dict[str, None] = {}
        self._not_before_s: dict[str, float] = {}
        self._asked: dict[str, None] = {}
        self._evictions = Evictions(
            client,
            PodsWatchedByAsker(),
            epoch=None,
            at_once=4,
            # A command of a person holds no Lease that it could lose.
            may_write=lambda: True,
            ends=lambda _: False,
        )

    async def run(self, order: Iterable[str]) -> None:
        """Empty the nodes in this order. Raises NotDrainedError and StoppedError."""
        left = list(order)
        while left or len(self._empty) < len(self._closed):
            under_way = len(self._closed) - len(self._empty)
            # The slice is a copy, so the list may lose names in the loop.
            for name in left[: self.request.rules.nodes_at_once - under_way]:
                await self._close(name)
                left.remove(name)
            began_s = self.client.clock.monotonic_s()
            await self._look(left)
            if not left and len(self._empty) == len(self._closed):
                return
            took_s = self.client.clock.monotonic_s() - began_s
            await self._pause(max(POLL_EVERY_S, POLL_SHARE * took_s))

    async def _close(self, name: str) -> None:
        closed = await close(self.client, name, self.request.rules.deadline_s)
        self._closed[name] = closed
        until = whole_time(dt.datetime.fromtimestamp(closed.deadline_us / US_PER_S, dt.UTC))
        how = "is closed"
        if closed.goes_on:
            how = "was closed before, and its drain goes on"
        elif closed.is_cordon_of_others:
            how = "was cordoned before"
        self._tell(f"node {name} {how}; work that ends by {until} is waited for")

    async def _look(self, left: list[str]) -> None:
        """Read the cluster, plan for the nodes that are closed, and do what is due."""
        for name in self._closed:
            if name not in self._empty and not await is_closed(self.client, name):
                await end_backfill(self.client, name)
                raise NotDrainedError(f"node {name} was opened again by others, and is not drained any more")
        picture, settings, at = await picture_of(self.client, self.settings, lambda _: None)
        picture = as_written(picture)
        names = [name for name in self._closed if name not in self._empty]
        plan = plan_of(self._request(names, left, at), picture, settings, at, lambda _: None)
        busy = {node for work in plan.work for node in work.nodes}
        for name in names:
            # What the scheduler let in a moment ago is seen by the next look.
            if name not in busy and not await end_backfill(self.client, name):
                self._empty[name] = None
                self._tell(f"node {name} is empty: {len(self._empty)} of {len(self._closed) + len(left)}")
        for work in plan.work:
            await self._see_to(work, picture, at)
        self._give_up_what_is_late(plan, at)

    def _request(self, names: list[str], left: list[str], at: dt.datetime) -> DrainRequest:
        now_us = int(at.timestamp() * US_PER_S)
        remaining_us = min((self._closed[name].deadline_us for name in names), default=now_us) - now_us
        rules = DrainRules(max(1, len(names)), max(0, remaining_us // US_PER_S), self.request.rules.away_s)
        return DrainRequest(tuple(names), rules, self.request.only_gpus, tuple(left))

    async def _see_to(self, work: WorkPlan, picture: Picture, at: dt.datetime) -> None:
        match work.way:
            case Way.WAITS:
                self._say(work.name, f"{work.name} is waited for: it ends on its own")
            case Way.MOVES if work.at_s:
                self._say(work.name, f"{work.name} is waited for: its place is free when others have ended")
            case Way.MOVES:
                await self._move(work, picture, at)
            case Way.EVICTED:
                await self._evict(work)
            case Way.NO_PLACE:
                self._say(work.name, f"{work.name} fits nowhere else now: {short_words(work.gpus)}")
                if self.options.without_places and self._is_late(work, at):
                    await self._evict(work)
            case Way.STAYS:
                self._say(work.name, f"{work.name} stays: {work.why}")

    async def _move(self, work: WorkPlan, picture: Picture, at: dt.datetime) -> None:
        """Have the work save itself where it can, and then have the scheduler move it."""
        pods = [(move, found) for move in work.moves if (found := _pod(picture, move)) is not None]
        # A gang moves as a whole: the next look plans with the pods that are there then.
        if len(pods) < len(work.moves):
            return
        for _, pod in pods:
            refused = pod.condition(EVICTION_REFUSED)
            if refused is not None and refused.status == "True":
                words = printable(refused.message, 400)
                self._say(f"{work.name} refused", f"{work.name} stays for now: {words}")
        if work.is_asked_to_save and not await self._has_saved(work, pods, at):
            return
        changed = False
        for move, pod in pods:
            if pod.metadata.annotations.get(keys.MOVE_TO) != move.target:
                changed |= await self._annotate(move, {keys.MOVE_TO: move.target})
            self._asked[move.uid] = None
        if changed:
            ways = ", ".join(f"{move.source} -> {move.target}" for move in work.moves[:3])
            more = f" and {len(work.moves) - 3} more" if len(work.moves) > 3 else ""
            self._say(work.name, f"{work.name} is asked to move: {ways}{more}")

    async def _has_saved(self, work: WorkPlan, pods: list[tuple[PodMove, Pod]], at: dt.datetime) -> bool:
        """Ask pods that were not asked yet; True when all have saved their work, or had the time for it."""
        every = True
        for move, pod in pods:
            annotations, now_us = pod.metadata.annotations, int(at.timestamp() * US_PER_S)
            question = question_on(annotations, self._closed_us(work), now_us)
            if question is None:
                until = at + dt.timedelta(seconds=self.options.checkpoint_s)
                await self._annotate(move, {keys.CHECKPOINT_REQUESTED: written_question(at, until)})
                self._say(work.name, f"{work.name} is asked to save its work by {whole_time(until)}")
                every = False
                continue
            every &= not question.is_open(annotations, now_us)
        return every

    def _closed_us(self, work: WorkPlan) -> int:
        """When the first node of some work was closed, as its deadline tells."""
        closed = [self._closed[node].deadline_us for node in work.nodes if node in self._closed]
        return min(closed, default=0) - self.request.rules.deadline_s * US_PER_S

    async def _evict(self, work: WorkPlan) -> None:
        """Evict pods for which no place is kept; a refusal is told, and asked again later."""
        for move in work.moves:
            now_s = self.client.clock.monotonic_s()
            if self._not_before_s.get(move.uid, 0.0) > now_s:
                continue
            namespace, _, name = move.pod.partition("/")
            victim = Victim(PodName(namespace, name, PodUid(move.uid)), WhyEvicted.DRAINED.value)
            refusal = await self._evictions.evict(victim)
            # A pod that was told to end is seen to end by the next look.
            self._not_before_s[move.uid] = now_s + REFUSED_FOR_S
            if refusal is not None:
                words = printable(refusal.words, 400)
                self._say(move.uid, f"pod {move.pod} stays for now: its eviction is refused: {words}")
            else:
                self._say(move.uid, f"pod {move.pod} is evicted")

    async def _annotate(self, move: PodMove, annotations: dict[str, str | None]) -> bool:
        """Write annotations of one pod; False where it is gone, or its name is another's."""
        namespace, _, name = move.pod.partition("/")
        body = {"metadata": {"uid": move.uid, "annotations": annotations}}
        try:
            await self.client.patch(PODS, name, body, namespace=namespace)
        except (NotFound, Conflict):
            return False
        return True

    def _is_late(self, work: WorkPlan, at: dt.datetime, by_s: float = 0.0) -> bool:
        now_us = int(at.timestamp() * US_PER_S)
        closed = [self._closed[node] for node in work.nodes if node in self._closed]
        return any(now_us >= one.deadline_us + by_s * US_PER_S for one in closed)

    def _give_up_what_is_late(self, plan: DrainPlan, at: dt.datetime) -> None:
        """Raise NotDrainedError where the deadline of a node is over and its work cannot leave."""
        kept = {Way.STAYS} if self.options.without_places else {Way.STAYS, Way.NO_PLACE}
        late = [work for work in plan.work if self._is_late(work, at, 0.0 if work.way in kept else SETTLE_S)]
        if not late:
            return
        words = [self._lines_shown.get(work.name, work.name) for work in late[:3]]
        more = f"; and {len(late) - 3} more" if len(late) > 3 else ""
        nodes = counted(len({node for work in late for node in work.nodes if node in self._closed}), "node")
        raise NotDrainedError(f"{nodes} could not be emptied in time: {'; '.join(words)}{more}")

    async def take_back(self) -> None:
        """Nothing more is to move: what was asked for and not done yet is not asked for any more."""
        picture, _, _ = await picture_of(self.client, self.settings, lambda _: None)
        for pod in picture.all(resources.PODS):
            if pod.metadata.uid in self._asked and pod.metadata.deletion_timestamp is None:
                move = PodMove(pod.metadata.path, pod.metadata.uid, pod.spec.node_name, "")
                await self._annotate(move, {keys.MOVE_TO: None})

    def _say(self, about: str, line: str) -> None:
        """Tell what is news."""
        if self._lines_shown.get(about) != line:
            self._lines_shown[about] = line
            self._tell(line)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)
        if self.stop.is_set():
            left = [name for name in self._closed if name not in self._empty]
            raise StoppedError(
                f"stopped; {counted(len(left), 'node')} stay closed and are not empty: {', '.join(left[:5])}"
            )


def _pod(picture: Picture, move: PodMove) -> Pod | None:
    namespace, _, name = move.pod.partition("/")
    found: Pod | None = picture.find(resources.PODS, name, namespace)
    return found if found is not None and found.metadata.uid == move.uid else None
