"""The nominations of work of no FleetQueue, written into conditions of its pods.

Each pod of such a workload gets its part (``cluster.pods.nominated_pods``), and the node as
``status.nominatedNodeName``, in one write. Of each pod only the newest word is kept, and one request at a
time writes it, so that an older word never comes after a newer one. A write that fails is tried again until
it arrives, or the pod is gone. Where a nomination has ended and its pod waits on, the condition is taken
back.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import msgspec

from gpufleet.cluster.pods.nominated_pods import joined, parts_of, says
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.engine.event import KeptPlaces
from gpufleet.kube import resources
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.nomination_parts import (
    NominationPart,
    can_be_written,
    read_nomination,
    write_nomination,
)
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.pod import NOMINATED, Pod
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.model.visible import visible_text

WRITES_AT_ONCE = 4
"""As many as other statuses are written beside Bindings."""

# Pauses between two tries: the server is busy or out of reach.
PAUSE_FIRST_S = 0.2
PAUSE_MOST_S = 5.0

RELEASES_APART_S = 0.05
"""So often evictions are released while more is to be written: each release looks at all of them."""


ANSWER_COUNTS_S = 5.0
"""A watch tells of a write within a second. What it says after this counts, though it be something else:
the condition may have been deleted right after the write, and then the watch never tells of the write.
"""


class Answered(msgspec.Struct, frozen=True):
    """What the API server took of a pod, and when."""

    part: NominationPart | None
    at_s: float


class Failing(msgspec.Struct, frozen=True):
    """A status that could not be written so many times in a row, and why."""

    times: int
    words: str


class PodNominations:
    """Writes parts of nominations. ``waiting`` finds a pod that waits; ``take_before`` names the pods of
    which an earlier leader wrote that a place is kept. ``written`` is called when evictions may be released.
    """

    def __init__(
        self,
        client: Client,
        cluster: Lookup,
        waiting: Callable[[PodUid], Entry | None],
        take_before: Callable[[], Iterable[PodUid]],
        *,
        may_write: Callable[[], bool],
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.waiting = waiting
        self.take_before = take_before
        self.may_write = may_write
        self.written: Callable[[], None] = lambda: None
        self._marked: dict[PodUid, None] = {}
        self._being_bound: set[PodUid] = set()
        self._wanted: dict[PodUid, NominationPart | None] = {}
        self._answered: dict[PodUid, Answered] = {}
        self._failing: dict[PodUid, Failing] = {}
        self._unsure: set[PodUid] = set()
        self._backlog: OrderedDict[PodUid, None] = OrderedDict()
        self._under_way: set[PodUid] = set()
        self._wake = asyncio.Event()
        self._released_at_s = 0.0

    def update(self, kept: Iterable[KeptPlaces]) -> None:
        """All nominations of work of no queue are these: have them written, and what has ended taken back."""
        self._marked |= dict.fromkeys(self.take_before())
        self._being_bound.clear()
        now: set[PodUid] = set()
        for one in kept:
            now.update(place.uid for place in one.places)
            self._want(one)
        for uid in [uid for uid in self._marked if uid not in now]:
            entry = self.waiting(uid)
            if entry is None:
                self._forget(uid)
            elif entry.intent is None:
                self._put(uid, None)
            else:
                # Its condition is left as it is: the Binding ends it, and if that fails it is taken back.
                self._being_bound.add(uid)

    def write_again(self, one: KeptPlaces) -> None:
        """Have a nomination written that does not stand there, though it may have been written before."""
        self._want(one)

    @property
    def is_rechecking(self) -> bool:
        """True while a pod is bound of which the condition has to be taken back should that fail."""
        return bool(self._being_bound)

    def stands(self, one: KeptPlaces) -> bool:
        """True once the API server says this of a nomination."""
        return says(self._found(one), one)

    def problem(self, one: KeptPlaces, *, is_late: bool) -> str:
        """Why evictions for a nomination wait no longer; "" if they wait on."""
        status = "the status of its pod, which is to say which node is kept for it,"
        if not all(map(can_be_written, parts_of(one).values())):
            return f"{status} has no room for so many places"
        failing = next((self._failing[place.uid] for place in one.places if place.uid in self._failing), None)
        if failing is None or not is_late:
            return ""
        return f"{status} cannot be written: {failing.words}"

    def outstanding(self) -> Mapping[PodUid, NominationPart | None]:
        """What the server was not told yet, as far as is known."""
        recorded = {uid: self._recorded(uid) for uid in self._wanted}
        return {
            uid: part for uid, part in self._wanted.items() if uid in self._unsure or recorded[uid] != part
        }

    def _want(self, one: KeptPlaces) -> None:
        parts, found = parts_of(one), self._found(one)
        if found is not None and says(found, one):
            # What stands there holds, but for the order among nominations, which a new leader counts anew.
            parts = {uid: part._replace(number=one.number) for uid, part in parts_of(found).items()}
        elif not all(map(can_be_written, parts.values())):
            return
        for uid, part in parts.items():
            self._put(uid, part)

    def _found(self, one: KeptPlaces) -> KeptPlaces | None:
        parts = {place.uid: self._recorded(place.uid) for place in one.places}
        return joined(one.holder, one.queue, {uid: part for uid, part in parts.items() if part is not None})

    def _pod(self, uid: PodUid) -> Pod | None:
        entry = self.waiting(uid)
        if entry is None:
            return None
        found: Pod | None = self.cluster.find(resources.PODS, entry.name.name, entry.name.namespace)
        # Another pod may have the name by now, and its conditions say nothing of this one.
        return found if found is not None and found.metadata.uid == uid else None

    def _recorded(self, uid: PodUid) -> NominationPart | None:
        """What the condition of a pod says; None where it says nothing, or a write has failed of which the
        server may have taken note. The answer to our last write counts until the watch tells of that, or
        for ``ANSWER_COUNTS_S``.
        """
        if uid in self._unsure:
            return None
        pod = self._pod(uid)
        seen = None if pod is None else read_nomination(pod)
        answered = self._answered.get(uid)
        if answered is None:
            return seen
        is_old = self.client.clock.monotonic_s() - answered.at_s >= ANSWER_COUNTS_S
        if is_old or answered.part == seen:
            del self._answered[uid]
            return seen
        return answered.part

    def _put(self, uid: PodUid, part: NominationPart | None) -> None:
        self._wanted[uid] = part
        if part is not None:
            self._marked[uid] = None
        # What is wanted by then is written when the answer is there.
        if uid in self._under_way:
            return
        if uid in self._unsure or self._recorded(uid) != part:
            self._backlog[uid] = None
            self._wake.set()
        elif part is None:
            self._forget(uid)

    def _forget(self, uid: PodUid) -> None:
        self._wanted.pop(uid, None)
        self._answered.pop(uid, None)
        self._failing.pop(uid, None)
        self._unsure.discard(uid)
        self._backlog.pop(uid, None)
        self._marked.pop(uid, None)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITES_AT_ONCE):
                group.create_task(self._work(group))

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            if not self._backlog:
                self._wake.clear()
                await self._wake.wait()
                continue
            # The oldest first, so that no pod is overtaken for ever.
            uid, _ = self._backlog.popitem(last=False)
            entry = self.waiting(uid)
            if entry is None or uid not in self._wanted:
                self._forget(uid)
                continue
            # A Binding is under way, which ends the nomination; if it fails, ``update`` asks again.
            if entry.intent is not None:
                continue
            self._under_way.add(uid)
            pause_s = await self._try(entry.name, self._wanted[uid])
            if pause_s:
                group.create_task(self._again(uid, pause_s))
            else:
                self._ended(uid)

    async def _again(self, uid: PodUid, pause_s: float) -> None:
        await self.client.clock.sleep(pause_s)
        self._ended(uid)

    def _ended(self, uid: PodUid) -> None:
        """Nothing is under way for a pod any more; what is to be said of it by now is said next."""
        self._under_way.discard(uid)
        if uid in self._wanted:
            self._put(uid, self._wanted[uid])
        now_s = self.client.clock.monotonic_s()
        if not self._backlog or now_s - self._released_at_s >= RELEASES_APART_S:
            self._released_at_s = now_s
            self.written()

    async def _try(self, pod: PodName, part: NominationPart | None) -> float:
        """Write once; how long to pause before the next try, 0 if there is none."""
        try:
            if self.may_write():
                await self._write(pod, part)
                self._answered[pod.uid] = Answered(part, self.client.clock.monotonic_s())
                self._unsure.discard(pod.uid)
                self._failing.pop(pod.uid, None)
                return 0.0
            words = "leadership is not certain"
        except KubeError as problem:
            # A pod that is gone, or of which the name is another's by now, is tried until the watch tells so.
            words = str(problem)
        # The server may have taken the write all the same, so it counts neither as written nor as not.
        self._unsure.add(pod.uid)
        before = self._failing.get(pod.uid, Failing(0, ""))
        self._failing[pod.uid] = Failing(before.times + 1, words)
        pause_s: float = min(PAUSE_MOST_S, PAUSE_FIRST_S * 2**before.times)
        # Spread out, so that pods that failed together are not all written again at one moment.
        return pause_s * (0.5 + self.client.jitter.random())

    async def _write(self, pod: PodName, part: NominationPart | None) -> None:
        said = write_nomination(part)
        condition = {
            "type": NOMINATED,
            "status": said.status,
            "reason": said.reason,
            "message": visible_text(said.message),
        }
        found = self._pod(pod.uid)
        before = None if found is None else found.condition(NOMINATED)
        if before is None or before.status != said.status:
            condition["lastTransitionTime"] = whole_time(self.client.clock.now())
        status: dict[str, object] = {"conditions": [condition]}
        if part is not None:
            status["nominatedNodeName"] = part.node
        await self.client.patch(
            resources.PODS,
            pod.name,
            msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status}),
            namespace=pod.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
