"""Makes claims ready for containers and takes that back, as the kubelet asks: each claim by itself, and once.

A claim is read from the API server and must be the very one that the kubelet means. A device that another
prepared claim holds, or a container by the device plugin, is refused: two schedulers may have given it twice,
and this is the last place where that is seen. What was prepared is remembered first and made usable then, so
that a process that is killed in between is gone on with by the next one. A claim that holds a device is
believed as long as the API server has it with that device, and for a while after.

An instance that is made for a claim is made after the claim is remembered, and gone before it is forgotten.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from gpufleet.agent.device_plugin.cdi import CdiEdits
from gpufleet.agent.dra.card_cutter import CardCutter
from gpufleet.agent.dra.claim_configuration import check_configuration
from gpufleet.agent.dra.claim_devices import as_it_is, device_of, holders, is_of, is_there
from gpufleet.agent.dra.claim_files import ClaimFiles
from gpufleet.agent.dra.device_pools import DRIVERS, DevicePool, by_name, pool_name
from gpufleet.agent.dra.lost_claims import InUse, LostClaim, LostClaims
from gpufleet.agent.dra.prepared_claims import (
    ClaimRecord,
    Prepared,
    PreparedClaim,
    PreparedDevice,
    Stage,
    is_uid,
)
from gpufleet.agent.dra.slice_publisher import Pools
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.state_errors import NoFilesError, RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject, WrittenAllocation, WrittenResult
from gpufleet.kube.resources import RESOURCE_CLAIMS
from gpufleet.kube.status import NotFound
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
POLL_EVERY_S = 15.0
"""How often to see whether the files are there: another program may have emptied the folder."""

KNOWN_READ_S = 5.0
"""For how long a prepared claim waits to be compared with the API server: the kubelet gives up after 45 s."""

LOST_FOUND_S = 20.0
"""For how long a new claim waits until the kubelet said what pods have: it gives up after 45 s."""

GONE_AFTER_S = 90.0
"""How long the kubelet has to take back a claim that is gone: it looks for such claims every minute."""

GONE = f", which is gone from the API server; the device is free {GONE_AFTER_S:.0f} s after that was seen"
Result = TypeVar("Result")
_CLAIM = msgspec.json.Decoder(ResourceClaimObject)


class ClaimName(msgspec.Struct, frozen=True):
    """A claim as the kubelet names it."""

    namespace: str
    uid: str
    name: str

    @property
    def title(self) -> str:
        """How it is named in sentences: namespace/name."""
        return f"{self.namespace}/{self.name}"


class ClaimWorld(msgspec.Struct, frozen=True):
    """What the preparer knows of its node.

    ``prepared`` is kept by the preparer. ``edits`` is what a container gets for a card or a part of it;
    None where the files of the card's driver are not there.
    ``held`` has the cards that containers hold by the device plugin, with the title of one of the pods.
    ``in_use`` asks the kubelet which claims pods have. ``tell_made`` tells the pods of a claim what was made
    for it, and how long that took.
    """

    node: str
    boot_id: str
    gpus: Topic[NodeGpus]
    pools: Topic[Pools]
    prepared: Prepared
    edits: Callable[[Gpu, str], CdiEdits | None]
    held: Callable[[], Mapping[DeviceId, str]]
    cutter: CardCutter
    tell_made: Callable[[ClaimName, str], Coroutine[Any, Any, None]]
    in_use: InUse


class ClaimPreparer:
    """All prepared claims of the node. ``problem`` says what keeps containers with claims from starting.

    ``lost`` finds claims again whose records were lost.
    """

    def __init__(self, client: Client, world: ClaimWorld, record: ClaimRecord, files: ClaimFiles) -> None:
        self._client = client
        self._world = world
        self._record = record
        self._files = files
        self._turn = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._gone_since_s: dict[tuple[str, str], float] = {}
        self.prepared = world.prepared
        self.loaded = asyncio.Event()
        """Set once it is known what earlier processes prepared."""
        self.problem = ""
        self._mending = ""
        self.lost = LostClaims(client, world.in_use, DRIVERS.values(), self._remember_again)

    def take(self, found: Iterable[PreparedClaim]) -> None:
        """Go on with what earlier processes prepared; called on the loop of those that follow it."""
        self.prepared.publish({(one.uid, one.driver): one for one in found})
        self.loaded.set()
        if self._record.is_whole:
            self.lost.are_known.set()

    async def run(self) -> None:
        """Keep prepared claims usable until cancelled. Raises OSError."""
        if not self.loaded.is_set():
            self.take(await asyncio.to_thread(self._record.load))
        while True:
            changed = self._world.gpus.changed
            await self.find_lost()
            # Files first: a driver may take its time to cut a card.
            await self.restore()
            # Before it is known what pods have, an instance of one of them may seem to be of none.
            if self.lost.are_known.is_set():
                await self.mend()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.lost.pause_s or POLL_EVERY_S):
                    await changed.wait()

    async def prepare(self, driver: str, claim: ClaimName) -> PreparedClaim:
        """The claim with its devices of this driver, usable by containers. Raises RefusedError."""
        if not is_uid(claim.uid):
            raise RefusedError(f"claim {claim.title} has a UID that is none")
        try:
            # Read before the turn: one slow answer must not keep other claims waiting.
            found = await self._allocation(driver, claim)
            if found is not None:
                await self.lost.try_again()
                await self._look_at_holders(self._made(driver, claim, found))
            return await self._whole(self._settled(driver, claim, found))
        except (KubeError, InputError, OSError) as error:
            raise RefusedError(f"claim {claim.title} is not prepared: {error}") from error

    async def unprepare(self, driver: str, uid: str) -> None:
        """Take a claim back; one that is not known is none of ours any more. Raises RefusedError."""
        if not is_uid(uid):
            return
        self.lost.forget(driver, uid)
        try:
            await self._whole(self._taken_back(driver, uid))
        except OSError as error:
            raise RefusedError(f"the claim of UID {uid} is not taken back: {error}") from error

    async def find_lost(self) -> None:
        """Remember claims again that pods have and whose records were lost, where any may be lost."""
        if self._world.pools.value is not None:
            await self.lost.find(self.prepared.value.values())

    async def _remember_again(self, one: LostClaim) -> None:
        """Remember a claim that a pod has. Raises RefusedError, InputError, OSError."""
        if (one.uid, one.driver) not in self.prepared.value:
            made = self._made(one.driver, ClaimName(one.namespace, one.uid, one.name), one.allocation)
            await self._whole(self._kept(msgspec.structs.replace(made, stage=Stage.READY)))

    async def _kept(self, claim: PreparedClaim) -> None:
        async with self._turn:
            await self._keep(claim)

    async def _whole(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Finish what was begun also where the caller gives up: records and what is known stay equal."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _settled(self, driver: str, claim: ClaimName, found: WrittenAllocation | None) -> PreparedClaim:
        """The claim, prepared and usable. Raises RefusedError, KubeError, InputError, OSError."""
        key = (claim.uid, driver)
        async with self._turn:
            # A pod asks for it again, so it is not gone, whatever was read a while ago.
            self._gone_since_s.pop(key, None)
            known = self.prepared.value.get(key)
            if known is not None and known.stage is Stage.ENDING:
                raise RefusedError(f"claim {claim.title} is being taken back")
            if known is None or (found is not None and not is_of(known, found)):
                # Another call may have taken it back while this one waited.
                known = await self._prepare(self._made(driver, claim, found or await self._read(claim)))
            if not self._unmade(known):
                return await self._usable(known)
        # A driver takes seconds to cut a card, in which other claims do not wait.
        made = await self._make(known)
        if made:
            self._behind(self._world.tell_made(claim, made))
        async with self._turn:
            current = self.prepared.value.get(key)
            if current is None or current.stage is Stage.ENDING:
                raise RefusedError(f"claim {claim.title} was taken back meanwhile")
            return await self._usable(current)

    def _behind(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what nothing waits for."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _make(self, claim: PreparedClaim) -> str:
        """Have what is made for a claim; says what, and how long it took, "" where another call made it.

        Raises RefusedError, KubeError.
        """
        made = []
        for device in self._unmade(claim):
            took = await self._world.cutter.make(device.gpu, device.place)
            if took.is_change:
                made.append(f"{device.device} in {took.total_s:.1f} s ({took.words})")
        return f"made for claim {claim.title}: {'; '.join(made)}" if made else ""

    def _unmade(self, claim: PreparedClaim) -> list[PreparedDevice]:
        """What is made for a claim and is not there. Raises RefusedError where a card is not known."""
        found = []
        for device in claim.made:
            gpu = self._world.gpus.value.gpu(device.gpu)
            if gpu is None:
                raise RefusedError(f"card {device.gpu} of claim {claim.title} is not known")
            if not is_there(device, gpu):
                found.append(device)
        return found

    async def _taken_back(self, driver: str, uid: str) -> None:
        """Take a claim back, and what was made for it. Raises RefusedError, OSError."""
        async with self._turn:
            known = self.prepared.value.get((uid, driver))
            if known is None or not known.made:
                await self._forget(driver, uid)
                return
            # Remembered first: a process that is killed goes on, and gives no container the claim any more.
            await self._keep(msgspec.structs.replace(known, stage=Stage.ENDING))
            await asyncio.to_thread(self._files.remove, uid, driver)
        try:
            for device in known.made:
                await self._world.cutter.remove(device.gpu, device.place)
        except RefusedError:
            async with self._turn:
                # The kubelet counts it as prepared until it is told otherwise, and so do its devices.
                await self._keep(known)
                if known.stage is Stage.READY:
                    await self._usable(known)
            raise
        async with self._turn:
            await self._forget(driver, uid)

    async def mend(self) -> None:
        """End what was begun to be taken back, make anew what a reset took, and leave no card cut for none.

        What was begun to be made is left to the kubelet, which asks again, until the claim is gone.
        """
        problems = []
        for claim in list(self.prepared.value.values()):
            try:
                await self._whole(self._mended(claim))
            except (RefusedError, KubeError, InputError, OSError) as error:
                problems.append(f"claim {claim.title}: {error}")
        for card in self._cut_for_none():
            try:
                await self._world.cutter.tidy(card)
            except RefusedError as error:
                problems.append(str(error))
        self._mending = "; ".join(problems)

    async def _mended(self, claim: PreparedClaim) -> None:
        """Raises RefusedError, KubeError, InputError, OSError."""
        match claim.stage:
            case Stage.ENDING:
                await self._taken_back(claim.driver, claim.uid)
            case Stage.READY:
                await self._make(claim)
            case Stage.MAKING:
                key, now_s = (claim.uid, claim.driver), self._client.clock.monotonic_s()
                if not all([await self._has_lost(claim, one) for one in claim.devices]):
                    self._gone_since_s.pop(key, None)
                elif now_s - self._gone_since_s.setdefault(key, now_s) >= GONE_AFTER_S:
                    await self._taken_back(claim.driver, claim.uid)

    def _cut_for_none(self) -> list[DeviceId]:
        """Cards with more instances than claims have, and cards in MIG mode without any."""
        pools = self._world.pools.value or ()
        offered = {one.gpu for pool in pools for one in pool.devices if one.made is not None}
        claimed = {
            (one.gpu, one.place)
            for claim in self.prepared.value.values()
            for one in claim.devices
            if not one.by_admin
        }
        found = []
        for gpu in self._world.gpus.value.gpus:
            there = {(gpu.uuid, MigInstance(one.start or 0, one.profile)) for one in gpu.facts.mig}
            if gpu.uuid in offered and gpu.facts.mig_enabled and (not there or there - claimed):
                found.append(gpu.uuid)
        return found

    async def _keep(self, claim: PreparedClaim) -> None:
        """Remember a claim as it is now, on the disk before it is known to others. Raises OSError."""
        await asyncio.to_thread(self._record.keep, claim)
        self.prepared.publish({**self.prepared.value, (claim.uid, claim.driver): claim})

    async def _forget(self, driver: str, uid: str) -> None:
        """Take a claim back in this turn. Raises OSError."""
        # The file first: if that fails, its devices still count as held.
        await asyncio.to_thread(self._files.remove, uid, driver)
        await asyncio.to_thread(self._record.forget, uid, driver)
        self._gone_since_s.pop((uid, driver), None)
        left = {key: one for key, one in self.prepared.value.items() if key != (uid, driver)}
        self.prepared.publish(left)

    async def _allocation(self, driver: str, claim: ClaimName) -> WrittenAllocation | None:
        """What a claim to be prepared has; None where it is prepared. Raises KubeError, RefusedError."""
        if (claim.uid, driver) not in self.prepared.value:
            await self._wait_for_lost()
        known = self.prepared.value.get((claim.uid, driver))
        if known is None:
            return await self._read(claim)
        try:
            async with asyncio.timeout(KNOWN_READ_S):
                found = await self._read(claim)
        except (KubeError, InputError, RefusedError, TimeoutError):
            # Containers of a prepared claim start also while the API server is away.
            return None
        return None if is_of(known, found) else found

    async def _wait_for_lost(self) -> None:
        """Wait until it is known what pods have. Raises RefusedError."""
        try:
            async with asyncio.timeout(LOST_FOUND_S):
                await self.lost.are_known.wait()
        except TimeoutError:
            words = self.lost.problem or "which claims pods have is not known yet"
            raise RefusedError(f"records of prepared claims were lost, and {words}") from None

    async def _look_at_holders(self, made: PreparedClaim) -> None:
        """See whether claims that hold its devices still have them in the API server."""
        for device in made.devices:
            for holder in list(holders(self.prepared.value.values(), made, device)):
                key = (holder.uid, holder.driver)
                if await self._has_lost(holder, device):
                    self._gone_since_s.setdefault(key, self._client.clock.monotonic_s())
                else:
                    self._gone_since_s.pop(key, None)

    async def _has_lost(self, holder: PreparedClaim, wanted: PreparedDevice) -> bool:
        """Whether a prepared claim has a device no more; not where the API server does not say."""
        try:
            found = await self._read(ClaimName(holder.namespace, holder.uid, holder.name))
        except RefusedError:
            return True
        except (KubeError, InputError):
            return False
        names = {(one.pool, one.device) for one in found.devices.results if one.driver == holder.driver}
        return any((one.pool, one.device) not in names for one in holder.devices if one.overlaps(wanted))

    async def _read(self, claim: ClaimName) -> WrittenAllocation:
        """What the claim has. Raises KubeError, RefusedError."""
        try:
            answer = await self._client.get(
                RESOURCE_CLAIMS, claim.name, namespace=claim.namespace, retry_limits=ONE_TRY
            )
        except NotFound as error:
            raise RefusedError(f"claim {claim.title} does not exist") from error
        found = decode(answer, _CLAIM)
        if found.metadata.uid != claim.uid:
            raise RefusedError(
                f"claim {claim.title} is another one now: its UID is {found.metadata.uid}, not {claim.uid}"
            )
        if found.status.allocation is None:
            raise RefusedError(f"claim {claim.title} has no devices: it was not allocated")
        return found.status.allocation

    def _made(self, driver: str, claim: ClaimName, found: WrittenAllocation) -> PreparedClaim:
        """The claim with its devices on this node. Raises RefusedError, InputError."""
        pools = self._world.pools.value
        if pools is None:
            raise RefusedError("the cards of this node are not known yet")
        devices = []
        for result in found.devices.results:
            if result.driver == driver:
                check_configuration(driver, result, found.devices.config)
                devices.append(self._device(by_name(pools), result))
        made = PreparedClaim(
            claim.uid, claim.namespace, claim.name, driver, self._world.boot_id, tuple(devices)
        )
        return msgspec.structs.replace(made, stage=Stage.MAKING) if made.made else made

    async def _prepare(self, made: PreparedClaim) -> PreparedClaim:
        """Remember a claim. Raises RefusedError, OSError."""
        await self._forget_gone(made)
        self._refuse_taken(made)
        await self._keep(made)
        return made

    async def _forget_gone(self, made: PreparedClaim) -> None:
        """Take back claims that hold its devices and lost them in the API server long ago. Raises OSError."""
        now_s = self._client.clock.monotonic_s()
        for device in made.devices:
            for holder in list(holders(self.prepared.value.values(), made, device)):
                since_s = self._gone_since_s.get((holder.uid, holder.driver))
                if since_s is not None and now_s - since_s >= GONE_AFTER_S:
                    LOG.warning("a claim that is gone is taken back", extra={"claim": holder.title})
                    await self._forget(holder.driver, holder.uid)

    def _device(self, pools: Mapping[str, DevicePool], result: WrittenResult) -> PreparedDevice:
        """A device of an allocation as it is on this node. Raises RefusedError."""
        own = pool_name(self._world.node, result.driver)
        # A pool of another node, as after a node was renamed: its device names mean other cards here.
        if result.pool != own:
            raise RefusedError(f"pool {result.pool} is not of this node, whose pool is {own}")
        pool = pools.get(own)
        offered = None if pool is None else pool.device(result.device)
        gpu = None if offered is None else self._world.gpus.value.gpu(offered.gpu)
        if offered is None or gpu is None:
            raise RefusedError(f"device {result.device} of pool {own} is not offered to claims any more")
        edits = self._world.edits(gpu, offered.instance)
        if edits is None:
            # Its programs would find no library: while a driver is replaced this lasts a minute.
            raise NoFilesError(f"no files of the driver of device {result.device} are found on this node")
        device = device_of(result, offered, gpu, edits)
        if device.by_admin and device.slices and not is_there(device, gpu):
            raise RefusedError(
                f"device {device.device} is not there, and access by an administrator makes none"
            )
        return device

    def _refuse_taken(self, made: PreparedClaim) -> None:
        """Refuse a device that another claim or the device plugin gave away. Raises RefusedError."""
        held = self._world.held()
        for device in made.devices:
            if device.by_admin:
                continue
            if device.gpu in held:
                raise RefusedError(
                    f"device {device.device} is held by pod {held[device.gpu]}, by the device plugin"
                )
            holder = next(holders(self.prepared.value.values(), made, device), None)
            if holder is not None:
                gone = (holder.uid, holder.driver) in self._gone_since_s
                raise RefusedError(
                    f"device {device.device} is held by claim {holder.title}{GONE if gone else ''}"
                )

    async def restore(self) -> None:
        """Make the files of all prepared claims be there, as they are right for this boot."""
        async with self._turn:
            problems = [one for one in (self._record.problem, self.lost.problem, self._mending) if one]
            for claim in list(self.prepared.value.values()):
                if claim.stage is not Stage.READY:
                    continue
                try:
                    await self._usable(claim)
                except (RefusedError, OSError) as error:
                    problems.append(f"claim {claim.title}: {error}")
            self.problem = "; ".join(problems)

    async def _usable(self, claim: PreparedClaim) -> PreparedClaim:
        """The claim as it is now, with its file in place. Raises RefusedError, OSError."""
        current = as_it_is(claim, self._world.boot_id, self._world.gpus.value, self._world.edits)
        if current is None:
            # A card may have another number since the reboot, and the old number may be another card's.
            await asyncio.to_thread(self._files.remove, claim.uid, claim.driver)
            raise RefusedError("a device of it was not found again since the node was booted")
        if current != claim:
            await self._keep(current)
        await asyncio.to_thread(self._files.ensure, current)
        return current
