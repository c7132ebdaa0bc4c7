"""Gives shares of GPUs: a name at once, and what is behind it when the container is about to start.

Allocate names slots and no pod, so its answer is a CDI name made for this call alone, for which no file
exists: if everything ends here, the container cannot start and is tried again. PreStartContainer names the
slots; by then the kubelet's checkpoint has their container (``share_owner``). The owner's grant is checked
(``share_rules``), and only then the file is written (``share_files``). So a guess that is wrong or
stale keeps a container waiting; it never gives it another's share. Slots that a container has are not given
to another one before its pod is finished, also where the kubelet forgot them (``taken_slots``).
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.device_plugin.open_call_record import OpenCall, OpenCallRecord, State
from gpufleet.agent.device_plugin.share_files import KIND, ShareFiles, ShareGiven
from gpufleet.agent.device_plugin.share_owner import (
    Owner,
    abandoned,
    granted_shares,
    listed_owners,
    recorded_owners,
)
from gpufleet.agent.device_plugin.share_rules import (
    Rival,
    check_not_held,
    check_parts,
    granted_parts,
    has_started_share,
    in_service,
)
from gpufleet.agent.device_plugin.taken_slots import forgotten_slots, slots_taken, taken_slots
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse
from gpufleet.agent.holders.holder_memory import HolderMemory
from gpufleet.agent.holders.holder_record import RememberedHolder
from gpufleet.agent.kubelet.kubelet_checkpoint import read_checkpoint
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.state_errors import KubeletError, RefusedError
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.kube import keys
from gpufleet.kube.codec.grant import granted_devices
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
# What is swept harms nothing while it lies there.
SWEEP_EVERY_S = 60.0
LEFT_SWEEP_EVERY_S = 3.0
"""Where something is left that may go soon: the kubelet takes a while to let go of a pod."""

OPEN_CALLS_MOST = 1000
"""Far more than a kubelet can have under way; the oldest are forgotten first."""


class ShareInputs(msgspec.Struct, frozen=True):
    """What the allocator follows and asks.

    ``ask_pods`` and ``ask_holders`` go to the API server and to the kubelet themselves, and raise
    WorldError or TimeoutError.
    ``edits`` are what makes a GPU usable in a container. ``look`` tells that something was given. ``memory``
    keeps which container has which slots, and ``whole`` says whether all sources were read.
    """

    gpus: Topic[NodeGpus]
    pods: Topic[NodePods]
    holders: Topic[Holders]
    ask_pods: Callable[[], Awaitable[NodePods]]
    ask_holders: Callable[[], Awaitable[Holders]]
    edits: Callable[[Gpu], cdi.CdiEdits]
    look: Callable[[], None]
    memory: HolderMemory
    new_name: Callable[[], str] = lambda: secrets.token_hex(16)
    whole: Callable[[], bool] = lambda: True


class ShareAllocator:
    """The allocator of gpufleet.io/gpu-share; ``record_folder`` is where the kubelet keeps its record."""

    resource = keys.GPU_SHARE
    prefers = True
    prepares = True

    def __init__(
        self, world: ShareInputs, files: ShareFiles, checkpoint: OpenCallRecord, record_folder: Path
    ) -> None:
        self._world = world
        self._files = files
        self._checkpoint = checkpoint
        self._folder = record_folder
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._calls = {frozenset(call.units): call.name for call in checkpoint.load().state.calls}
        """The newest name that was answered for these slots, until it is behind a file."""

    @property
    def problem(self) -> str:
        """Why what was answered is not on the disk; empty where it is."""
        return self._checkpoint.problem

    @property
    def open_calls(self) -> tuple[OpenCall, ...]:
        """What was answered and is not behind a file yet, from the oldest to the newest."""
        return tuple(OpenCall(name, tuple(sorted(slots))) for slots, name in self._calls.items())

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """As Allocator; one slot is as good as another, unless a container has it that the kubelet forgot."""
        # Slots of containers that the kubelet forgot are not proposed, or it would give them out twice.
        taken = await self._taken(available, size)
        others = [unit for unit in available if unit not in required and unit not in taken]
        if len(required) + len(others) < size:
            raise RefusedError(slots_taken(taken))
        return [*required, *others][:size]

    async def allocate(self, units: Sequence[str]) -> AllocateResponse:
        """A CDI name for the container that asks. Raises RefusedError where no pod of this node may be
        asking.
        """
        await self._check_a_pod_asks(len(units))
        taken = await self._taken(units, len(units))
        if taken:
            raise RefusedError(slots_taken(taken))
        name, slots = self._world.new_name(), frozenset(units)
        # Taken out first, so that the dict goes from the oldest call to the newest.
        self._calls.pop(slots, None)
        self._calls[slots] = name
        while len(self._calls) > OPEN_CALLS_MOST:
            del self._calls[next(iter(self._calls))]
        self._news.set()
        self._world.look()
        return AllocateResponse(cdi_devices=(cdi.qualified(KIND, name),))

    async def prepare(self, units: Sequence[str]) -> None:
        """Give the owner of these slots its share. Raises RefusedError; the kubelet then asks again."""
        slots = frozenset(units)
        async with self._turn:
            self._load()
            recorded = self._recorded(slots)
            try:
                owners, pods = await self._owners(recorded, slots)
                holders = self._world.holders.value
                if not self._world.whole():
                    holders = await self._world.ask_holders()
            except (WorldError, TimeoutError) as problem:
                # A container that starts again has its file: an API server that is away does not keep it from
                # that.
                if self._had_it_before(recorded):
                    return
                words = "the container of these slots for shares cannot be found out now"
                raise RefusedError(f"{words}: {problem}") from problem
            if not owners:
                raise RefusedError(
                    "no container is known yet to hold these slots for shares; the kubelet will ask again"
                )
            # To serve either would give one pod's share to another.
            if len({owner.pod_uid for owner in owners}) > 1:
                raise RefusedError("two pods hold the same slots for shares by the kubelet's own record")
            try:
                self._give_all(owners, pods, holders)
            except RefusedError:
                # What is in the way may be left of a pod that is gone.
                swept, fresh = await self._sweep(), await self._fresh(holders)
                # Nothing has changed since the refusal, so it stands.
                if not swept and fresh == holders:
                    raise
                self._give_all(owners, pods, fresh)
            for owner in owners:
                pod, taken = pods[owner.pod_uid], tuple(sorted(slots))
                kept = RememberedHolder(
                    pod.uid, pod.namespace, pod.name, owner.container, self.resource, taken
                )
                await self._world.memory.took(kept)
            self._news.set()

    async def run(self) -> None:
        """Keep the checkpoint, and sweep up what has no owner any more, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._keep())

    async def sweep(self) -> None:
        """Take back shares of pods that are gone, and forget calls that no container will start with."""
        with contextlib.suppress(RefusedError):
            self._load()
            await self._sweep()
            await self._forget_abandoned()

    def _load(self) -> None:
        """What was given before has to be known before anything is given."""
        if self._files.loaded:
            return
        try:
            self._files.load()
        except OSError as error:
            problem = f"the CDI files of shares cannot be read: {error.strerror or error}"
            raise RefusedError(problem) from error
        # An earlier process may have died after it wrote a file and before it saved the calls.
        behind = set(self._files.given)
        self._calls = {slots: name for slots, name in self._calls.items() if name not in behind}

    async def _sweep(self) -> bool:
        """Our copy names suspects; only the API server and the kubelet themselves are believed.

        Whether anything was taken back.
        """
        suspects = self._suspects()
        if not suspects:
            return False
        try:
            pods = await self._world.ask_pods()
            holders = await self._world.ask_holders()
        # Nothing is taken back on one answer alone: a container that runs would lose its share.
        except (WorldError, TimeoutError):
            return False
        before = len(self._files.given)
        for name, one in suspects:
            if not _lives(one, pods) and not _is_held(one, holders):
                # The file stays a suspect, and the next sweep tries again.
                with contextlib.suppress(OSError):
                    self._files.take_back(name)
                    LOG.info("a share was taken back", extra={"pod": one.pod, "container": one.container})
        return len(self._files.given) < before

    async def _forget_abandoned(self) -> None:
        """As in a sweep, our copy names suspects and the API server decides, asked after the record."""
        # A copy: while the API server is asked, Allocate may lend the same slots to another call.
        calls = dict(self._calls)
        try:
            record = read_checkpoint(self._folder) if calls else ()
            if not abandoned(calls, record, self._world.pods.value, self._has_started):
                return
            pods = await self._world.ask_pods()
        except (WorldError, TimeoutError):
            return
        for slots in abandoned(calls, record, pods, self._has_started):
            # Another call may have been answered with these slots meanwhile.
            if self._calls.get(slots) == calls[slots]:
                del self._calls[slots]

    def _has_started(self, pod_uid: str, container: str) -> bool:
        return any(self._files.of(pod_uid, container))

    async def _fresh(self, known: Holders) -> Holders:
        """The holders now; the last known ones where the kubelet does not answer."""
        with contextlib.suppress(WorldError, TimeoutError):
            return await self._world.ask_holders()
        return known

    def _suspects(self) -> list[tuple[str, ShareGiven]]:
        """Shares that were given to pods that are not known to live."""
        pods = self._world.pods.value
        return [(name, one) for name, one in self._files.given.items() if not _lives(one, pods)]

    async def _check_a_pod_asks(self, slots: int) -> None:
        """A pod without a grant is turned away at once, where it is certain that only such a pod can ask."""
        if self._may_ask(self._world.pods.value, slots):
            return
        try:
            pods = await self._world.ask_pods()
        except (WorldError, TimeoutError):
            # The API server does not answer: the owner is checked when its container starts.
            return
        if not self._may_ask(pods, slots):
            raise RefusedError(
                f"no pod of this node was granted {slots} shares of GPUs; they are given to pods that "
                "gpufleet's scheduler placed: set schedulerName: gpufleet"
            )

    async def _taken(self, slots: Sequence[str], size: int) -> dict[str, RememberedHolder]:
        """Which of these slots are those of containers that the kubelet does not list any more."""
        if not self._world.whole():
            try:
                await self._world.ask_holders()
            except (WorldError, TimeoutError) as problem:
                words = "it is not known yet which container has which slots for shares"
                raise RefusedError(f"{words}: {problem}") from problem
        if not taken_slots(self._world.memory.kept(keys.GPU_SHARE), slots):
            return {}
        pods, holders = self._world.pods.value, self._world.holders.value
        with contextlib.suppress(WorldError, TimeoutError):
            pods = await self._world.ask_pods()
        with contextlib.suppress(WorldError, TimeoutError):
            holders = await self._world.ask_holders()
        return forgotten_slots(self._world.memory.kept(keys.GPU_SHARE), slots, size, pods, holders)

    @staticmethod
    def _may_ask(pods: NodePods, slots: int) -> bool:
        return any(granted_shares(pod, slots) for pod in pods.values())

    def _recorded(self, slots: frozenset[str]) -> tuple[Owner, ...]:
        try:
            return recorded_owners(read_checkpoint(self._folder), slots)
        except KubeletError as problem:
            LOG.warning("the owner of a share is looked for elsewhere", extra={"problem": str(problem)})
            return ()

    async def _owners(
        self, recorded: tuple[Owner, ...], slots: frozenset[str]
    ) -> tuple[tuple[Owner, ...], NodePods]:
        """The living containers that hold these slots, and the pods as they are known.

        Raises WorldError or TimeoutError where the API server or the kubelet has to be asked and does not
        answer.
        """
        pods = self._world.pods.value
        living = _living(recorded, pods)
        if living:
            return living, pods
        pods = await self._world.ask_pods()
        living = _living(recorded, pods)
        if living:
            return living, pods
        holders = await self._world.ask_holders()
        return tuple(self._named(listed_owners(holders, pods, slots), slots)), pods

    def _named(self, owners: Iterable[tuple[str, str]], slots: frozenset[str]) -> Iterator[Owner]:
        """The names that each of these containers may have been answered with."""
        newest = (self._calls[slots],) if slots in self._calls else ()
        for pod_uid, container in owners:
            for name in (*self._files.of(pod_uid, container), *newest):
                yield Owner(pod_uid, container, name, slots)

    def _had_it_before(self, owners: Iterable[Owner]) -> bool:
        """Whether the container that starts again was given its share before. Raises RefusedError."""
        for owner in owners:
            given = self._files.given.get(owner.name)
            if given is not None and (given.pod_uid, given.container) == (owner.pod_uid, owner.container):
                for part in given.parts:
                    in_service(part.id, self._world.gpus.value)
                return True
        return False

    def _give_all(self, owners: tuple[Owner, ...], pods: NodePods, holders: Holders) -> None:
        """Any of these containers of one pod may be the one that starts; one that may not keeps none back."""
        refusals = []
        for owner in owners:
            try:
                self._give(owner, pods, holders)
            except RefusedError as refusal:
                refusals.append(refusal)
        if len(refusals) == len(owners):
            raise refusals[0]

    def _give(self, owner: Owner, pods: NodePods, holders: Holders) -> None:
        pod = pods[owner.pod_uid]
        parts = granted_parts(pod, owner.container, len(owner.slots))
        gpus = check_parts(pod, parts, self._world.gpus.value, self._rivals(pod, pods))
        # Beside the grants: a container may still run under a grant that its pod has no more.
        check_not_held(pod, parts, self._world.gpus.value, holders)
        epoch = 0 if pod.grant is None else pod.grant.epoch
        share = ShareGiven(pod.uid, pod.title, owner.container, epoch, parts)
        edits = cdi.CdiEdits()
        for gpu in gpus:
            edits = edits.and_then(self._world.edits(gpu))
        try:
            self._files.give(owner.name, share, edits)
        except OSError as error:
            raise RefusedError(f"the share's CDI file cannot be written: {error.strerror}") from error
        # Only the newest call: an older name that starts again leaves it open.
        if self._calls.get(owner.slots) == owner.name:
            del self._calls[owner.slots]

    def _rivals(self, pod: NodePod, pods: NodePods) -> Iterator[Rival]:
        """What other pods may still have of what they were given, and what they were granted."""
        given = {one.pod_uid for one in self._files.given.values()}
        for other in pods.values():
            if other.uid != pod.uid and other.grant is not None and not other.finished:
                had = other.uid in given or has_started_share(other)
                for part in granted_devices(other.grant):
                    yield Rival(other.title, part, other.grant.epoch, had)
        # Pods that went from the API may still run here; their files say what they were given.
        for share in self._files.given.values():
            if share.pod_uid not in pods and share.pod_uid != pod.uid:
                for part in share.parts:
                    yield Rival(share.pod, part, share.epoch, given=True)

    async def _listen(self) -> None:
        async for _ in any_change(self._world.pods, self._world.holders):
            self._news.set()

    async def _keep(self) -> None:
        while True:
            self._news.clear()
            await self.sweep()
            # In a thread, because a disk may hang and the kubelet's calls must go on.
            await asyncio.to_thread(self._checkpoint.save, State(self.open_calls))
            with contextlib.suppress(TimeoutError):
                # Open calls and owners in doubt are settled by time too, so they are looked at more often.
                left = self._suspects() or self._calls
                async with asyncio.timeout(LEFT_SWEEP_EVERY_S if left else SWEEP_EVERY_S):
                    await self._news.wait()


def _lives(given: ShareGiven, pods: NodePods) -> bool:
    pod = pods.get(given.pod_uid)
    return pod is not None and not pod.finished


def _is_held(given: ShareGiven, holders: Holders) -> bool:
    """By the kubelet, which may not know the pod's UID any more, or where a pod that went may run on."""
    return any(
        held.resource == keys.GPU_SHARE
        and (
            held.pod_uid == given.pod_uid
            or (not held.pod_uid and f"{held.namespace}/{held.pod}" == given.pod)
        )
        for held in holders
    )


def _living(owners: Iterable[Owner], pods: NodePods) -> tuple[Owner, ...]:
    return tuple(one for one in owners if one.pod_uid in pods and not pods[one.pod_uid].finished)
