"""Makes claims ready for containers and takes that back, as the kubelet asks: each claim by itself, and once.

A claim is read from the API server and must be the very one that the kubelet means. A device that another
prepared claim holds, or a container by the device plugin, is refused: two schedulers may have given it twice,
and this is the last place where that is seen. What was prepared is remembered first and made usable then, so
that a process that is killed in between is gone on with by the next one. A claim that holds a device is
believed as long as the API server has it with that device, and for a while after.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from gpufleet.agent.device_plugin.cdi import CdiEdits
from gpufleet.agent.dra.claim_configuration import check_configuration
from gpufleet.agent.dra.claim_files import ClaimFiles
from gpufleet.agent.dra.device_pools import DevicePool, by_name, pool_name
from gpufleet.agent.dra.prepared_claims import (
    ClaimRecord,
    Prepared,
    PreparedClaim,
    PreparedDevice,
    is_uid,
)
from gpufleet.agent.dra.slice_publisher import Pools
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import MigFacts
from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject, WrittenAllocation, WrittenResult
from gpufleet.kube.resources import RESOURCE_CLAIMS
from gpufleet.kube.status import NotFound
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
POLL_EVERY_S = 15.0
"""How often to see whether the files are there: another program may have emptied the folder."""

KNOWN_READ_S = 5.0
"""For how long a prepared claim waits to be compared with the API server: the kubelet gives up after 45 s."""

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
    """

    node: str
    boot_id: str
    gpus: Topic[NodeGpus]
    pools: Topic[Pools]
    prepared: Prepared
    edits: Callable[[Gpu, str], CdiEdits | None]
    held: Callable[[], Mapping[DeviceId, str]]


class ClaimPreparer:
    """All prepared claims of the node. ``problem`` says what keeps containers with claims from starting."""

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

    def take(self, found: Iterable[PreparedClaim]) -> None:
        """Go on with what earlier processes prepared; called on the loop of those that follow it."""
        self.prepared.publish({(one.uid, one.driver): one for one in found})
        self.loaded.set()

    async def run(self) -> None:
        """Keep the files of prepared claims in place until cancelled. Raises OSError."""
        if not self.loaded.is_set():
            self.take(await asyncio.to_thread(self._record.load))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            while True:
                await self._client.clock.sleep(POLL_EVERY_S)
                await self.restore()

    async def prepare(self, driver: str, claim: ClaimName) -> PreparedClaim:
        """The claim with its devices of this driver, usable by containers. Raises RefusedError."""
        if not is_uid(claim.uid):
            raise RefusedError(f"claim {claim.title} has a UID that is none")
        try:
            # Read before the turn: one slow answer must not keep other claims waiting.
            found = await self._allocation(driver, claim)
            if found is not None:
                await self._look_at_holders(self._made(driver, claim, found))
            return await self._whole(self._settled(driver, claim, found))
        except (KubeError, InputError, OSError) as error:
            raise RefusedError(f"claim {claim.title} is not prepared: {error}") from error

    async def unprepare(self, driver: str, uid: str) -> None:
        """Take a claim back; one that is not known is none of ours any more. Raises RefusedError."""
        if not is_uid(uid):
            return
        try:
            await self._whole(self._taken_back(driver, uid))
        except OSError as error:
            raise RefusedError(f"the claim of UID {uid} is not taken back: {error}") from error

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
            if known is None or (found is not None and not _is_of(known, found)):
                # Another call may have taken it back while this one waited.
                known = await self._prepare(self._made(driver, claim, found or await self._read(claim)))
            return await self._usable(known)

    async def _taken_back(self, driver: str, uid: str) -> None:
        async with self._turn:
            await self._forget(driver, uid)

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
        known = self.prepared.value.get((claim.uid, driver))
        if known is None:
            return await self._read(claim)
        try:
            async with asyncio.timeout(KNOWN_READ_S):
                found = await self._read(claim)
        except (KubeError, InputError, RefusedError, TimeoutError):
            # Containers of a prepared claim start also while the API server is away.
            return None
        return None if _is_of(known, found) else found

    async def _look_at_holders(self, made: PreparedClaim) -> None:
        """See whether claims that hold its devices still have them in the API server."""
        for device in made.devices:
            for holder in list(_holders(self.prepared.value.values(), made, device)):
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
        return PreparedClaim(
            claim.uid, claim.namespace, claim.name, driver, self._world.boot_id, tuple(devices)
        )

    async def _prepare(self, made: PreparedClaim) -> PreparedClaim:
        """Remember a claim. Raises RefusedError, OSError."""
        await self._forget_gone(made)
        self._refuse_taken(made)
        # On disk before it is known to others: a death in between must not free the devices.
        await asyncio.to_thread(self._record.keep, made)
        self.prepared.publish({**self.prepared.value, (made.uid, made.driver): made})
        return made

    async def _forget_gone(self, made: PreparedClaim) -> None:
        """Take back claims that hold its devices and lost them in the API server long ago. Raises OSError."""
        now_s = self._client.clock.monotonic_s()
        for device in made.devices:
            for holder in list(_holders(self.prepared.value.values(), made, device)):
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
            raise RefusedError(f"no files of the driver of device {result.device} are found on this node")
        part = gpu.instance(offered.instance)
        return PreparedDevice(
            result.request,
            result.pool,
            result.device,
            gpu.uuid,
            offered.instance,
            "" if part is None else part.profile,
            None if part is None else part.start,
            edits,
            result.share_id,
            bool(result.admin_access),
        )

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
            holder = next(_holders(self.prepared.value.values(), made, device), None)
            if holder is not None:
                gone = (holder.uid, holder.driver) in self._gone_since_s
                raise RefusedError(
                    f"device {device.device} is held by claim {holder.title}{GONE if gone else ''}"
                )

    async def _follow(self) -> None:
        async for _ in self._world.gpus.follow():
            await self.restore()

    async def restore(self) -> None:
        """Make the files of all prepared claims be there, as they are right for this boot."""
        async with self._turn:
            problems = [self._record.problem] if self._record.problem else []
            for claim in list(self.prepared.value.values()):
                try:
                    await self._usable(claim)
                except (RefusedError, OSError) as error:
                    problems.append(f"claim {claim.title}: {error}")
            self.problem = "; ".join(problems)

    async def _usable(self, claim: PreparedClaim) -> PreparedClaim:
        """The claim as it is now, with its file in place. Raises RefusedError, OSError."""
        current = self._current(claim)
        if current is None:
            # A card may have another number since the reboot, and the old number may be another card's.
            await asyncio.to_thread(self._files.remove, claim.uid, claim.driver)
            raise RefusedError("a device of it was not found again since the node was booted")
        if current != claim:
            await asyncio.to_thread(self._record.keep, current)
            self.prepared.publish({**self.prepared.value, (claim.uid, claim.driver): current})
        await asyncio.to_thread(self._files.ensure, current)
        return current

    def _current(self, claim: PreparedClaim) -> PreparedClaim | None:
        """The claim as it is now; None where a device of it was not found since the node was booted.

        After a reboot a card may have another number, and an instance at the same place another UUID. After
        an update of the driver its files have other names. A device that is not seen for a while stays as it
        was in this boot.
        """
        is_of_this_boot = claim.boot_id == self._world.boot_id
        found = [self._found_again(one, by_uuid=is_of_this_boot) for one in claim.devices]
        if not is_of_this_boot and None in found:
            return None
        devices = tuple(now or before for now, before in zip(found, claim.devices, strict=True))
        return msgspec.structs.replace(claim, boot_id=self._world.boot_id, devices=devices)

    def _found_again(self, device: PreparedDevice, *, by_uuid: bool) -> PreparedDevice | None:
        gpu = self._world.gpus.value.gpu(device.gpu)
        if gpu is None:
            return None
        instance = device.instance
        if instance:
            place = (device.profile, device.start)
            part = gpu.instance(instance) if by_uuid else _at_place(gpu, place)
            if part is None:
                return None
            instance = part.uuid
        edits = self._world.edits(gpu, instance)
        # Files of a driver that is being replaced are missing for a while.
        if edits is None or (device.edits.mounts and not edits.mounts):
            return None
        return msgspec.structs.replace(device, instance=instance, edits=edits)


def _at_place(gpu: Gpu, place: tuple[str, int | None]) -> MigFacts | None:
    return next((one for one in gpu.facts.mig if (one.profile, one.start) == place), None)


def _is_of(claim: PreparedClaim, found: WrittenAllocation) -> bool:
    """Whether a claim was prepared for the devices that it has now."""
    prepared = {(one.request, one.pool, one.device, one.share_id, one.by_admin) for one in claim.devices}
    return prepared == {
        (one.request, one.pool, one.device, one.share_id, bool(one.admin_access))
        for one in found.devices.results
        if one.driver == claim.driver
    }


def _holders(
    prepared: Iterable[PreparedClaim], made: PreparedClaim, device: PreparedDevice
) -> Iterator[PreparedClaim]:
    """Other claims that hold a device for themselves."""
    return (
        claim
        for claim in prepared
        if claim.uid != made.uid and any(one.overlaps(device) for one in claim.devices if not one.by_admin)
    )
