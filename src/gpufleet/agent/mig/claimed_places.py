"""Cards are cut for claims: an instance is made when its claim is prepared, and goes with the claim.

The prepared claims are the record. What a card shall have follows from them and from the card as its driver
shows it, so a process that was killed after any call or write goes on where it was. An instance in use stays,
whatever made it. A card with nothing on it is made whole, unless a reset switches its mode.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from gpufleet.agent.dra.mig_partitions import geometry_to_cut, is_switched_by_reset
from gpufleet.agent.dra.prepared_claims import Prepared, PreparedDevice, Stage
from gpufleet.agent.mig.layout_changer import HeldOnCard, LayoutChanger, Outcome
from gpufleet.agent.mig.timed_driver import TimedDriver
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.kube.clock import Clock
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import LayoutChange, layout_of
from gpufleet.mig.step_times import StepTimes
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry, MigInstance
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)

RETRY_S = 300.0
"""After a card that stayed in MIG mode: a program that holds it mostly goes on holding it."""


class CutWorld(msgspec.Struct, frozen=True):
    """What a change asks of the other parts of the agent.

    ``list_anew`` returns once the GPUs are told as their driver has them now; it raises TimeoutError.
    ``obstacle`` says why no card of this node may be cut, "" where they may; it raises WorldError.
    """

    gpus: Topic[NodeGpus]
    prepared: Prepared
    list_anew: Callable[[], Awaitable[None]]
    obstacle: Callable[[], Awaitable[str]]


class _NoRecords:
    """The claims are the record of each change, so that none is written."""

    async def write(self, change: LayoutChange) -> None:
        """As ChangeRecords."""


class ClaimedPlaces:
    """The calls of ``dra.card_cutter``. Cards change beside each other, each by one change at a time."""

    def __init__(self, driver: TimedDriver, world: CutWorld, clock: Clock) -> None:
        self._driver = driver
        self._world = world
        self._clock = clock
        self._turns: dict[DeviceId, asyncio.Lock] = {}
        self._stays_cut_since_s: dict[DeviceId, float] = {}

    async def make(self, card: DeviceId, place: MigInstance | None) -> StepTimes:
        """Have the instance there, or the whole card; the GPUs are listed anew then. Raises RefusedError."""
        refusal = await self._world.obstacle()
        if refusal:
            raise RefusedError(f"card {card} is not cut: {refusal}")
        async with self._turn(card):
            gpu, geometry = self._card(card)
            if place not in {one.place for one in self._of_claims(card, Stage.MAKING, Stage.READY)}:
                raise RefusedError(f"{_name(place)} of card {card} was taken back meanwhile")
            self._driver.begin(card)
            try:
                await self._make(gpu, geometry, place)
            except (DriverError, InputError, TimeoutError) as error:
                raise RefusedError(f"{_name(place)} of card {card} is not made: {error}") from error
            return self._driver.of(card)

    async def remove(self, card: DeviceId, place: MigInstance | None) -> None:
        """Have the instance gone, and the card whole where nothing else is on it. Raises RefusedError."""
        if place is None:
            # A card that was given as a whole is whole.
            return
        async with self._turn(card):
            gpu = self._world.gpus.value.gpu(card)
            if gpu is None and not self._world.gpus.value.boot_id:
                raise RefusedError("the cards of this node are not known yet")
            geometry = None if gpu is None else geometry_to_cut(gpu)
            if gpu is None or geometry is None:
                # A card that is gone, or out of MIG mode since a reset, has no instance.
                return
            try:
                await self._clear(gpu, geometry, place)
            except GpuLostError as error:
                # No instance outlives the loss of its card, and the pod is to end.
                LOG.warning("an instance went with its card", extra={"gpu": card, "problem": str(error)})
            except (DriverError, TimeoutError) as error:
                raise RefusedError(f"{_name(place)} of card {card} is not removed: {error}") from error

    async def tidy(self, card: DeviceId) -> None:
        """Remove what no claim has and nothing uses. Raises RefusedError."""
        since_s = self._stays_cut_since_s.get(card)
        if since_s is not None and self._clock.monotonic_s() - since_s < RETRY_S:
            return
        async with self._turn(card):
            gpu, geometry = self._card(card)
            try:
                await self._clear(gpu, geometry)
            except (DriverError, TimeoutError) as error:
                raise RefusedError(f"card {card} is not cleared: {error}") from error

    def _turn(self, card: DeviceId) -> asyncio.Lock:
        return self._turns.setdefault(card, asyncio.Lock())

    def _card(self, card: DeviceId) -> tuple[Gpu, MigGeometry]:
        """A card that can be cut. Raises RefusedError."""
        gpu = self._world.gpus.value.gpu(card)
        geometry = None if gpu is None else geometry_to_cut(gpu)
        if gpu is None or geometry is None:
            raise RefusedError(f"card {card} is not known, or cannot be cut as it is")
        return gpu, geometry

    async def _make(self, gpu: Gpu, geometry: MigGeometry, place: MigInstance | None) -> None:
        """Raises RefusedError, DriverError, InputError, TimeoutError."""
        state = await self._driver.card_state(gpu.uuid)
        if place is None:
            before, wanted = layout_of(state), None
        else:
            kept = self._kept(gpu.uuid, state, but=place)
            wanted = tuple(sorted((*kept, place)))
            geometry.taken(wanted)
            before = kept or self._empty(gpu)
        change = LayoutChange(gpu.uuid, before, wanted)
        outcome = await self._carried_out(change, geometry, place)
        # Also where it failed: an instance that was made anew has another UUID.
        await self._driver.listing(gpu.uuid, self._world.list_anew)
        if not outcome.reached:
            raise RefusedError(f"{_name(place)} of card {gpu.uuid} is not made: {outcome.problem}")

    async def _clear(self, gpu: Gpu, geometry: MigGeometry, place: MigInstance | None = None) -> None:
        """Have a place free, where one is given, and all that nothing has. Raises as ``remove``."""
        card = gpu.uuid
        state = await self._driver.card_state(card)
        if not state.mig_enabled:
            return
        kept = self._kept(card, state, but=place)
        if place is not None and any(one.place == place and one.in_use for one in state.gpu_instances):
            raise RefusedError(f"{_name(place)} of card {card} is in use")
        there = [one.place for one in state.gpu_instances if one.compute_instances]
        is_clear = sorted(there) == sorted(kept) and len(there) == len(state.gpu_instances)
        if not is_clear:
            before = tuple(sorted(there))
            outcome = await self._carried_out(LayoutChange(card, before, kept), geometry, place)
            if not outcome.reached:
                await self._driver.listing(card, self._world.list_anew)
                raise RefusedError(f"card {card} is not cleared: {outcome.problem}")
        if not kept and self._empty(gpu) is None:
            # A change of its own: its way back must not make the instance again.
            await self._make_whole(card, geometry)
        elif is_clear:
            return
        await self._driver.listing(card, self._world.list_anew)

    async def _make_whole(self, card: DeviceId, geometry: MigGeometry) -> None:
        """Switch the MIG mode of an empty card off, if nothing holds the card. Raises DriverError."""
        self._stays_cut_since_s.pop(card, None)
        outcome = await self._carried_out(LayoutChange(card, (), None), geometry, None)
        if not outcome.reached:
            self._stays_cut_since_s[card] = self._clock.monotonic_s()
            LOG.warning("a card stays in MIG mode", extra={"gpu": card, "problem": outcome.problem})

    async def _carried_out(
        self, change: LayoutChange, geometry: MigGeometry, place: MigInstance | None
    ) -> Outcome:
        async def held(card: DeviceId) -> HeldOnCard:
            return self._held(card, place)

        changer = LayoutChanger(self._driver, _NoRecords(), self._clock, held)
        return await changer.carry_out(change, geometry)

    def _kept(self, card: DeviceId, state: CardState, *, but: MigInstance | None) -> Layout:
        """The instances that stay beside a place: those of claims, and those that anything uses."""
        held = self._held(card, but)
        # A half made one is made anew by the claim that it was begun for.
        begun = {one.place for one in self._of_claims(card, Stage.MAKING)}
        return tuple(
            sorted(
                one.place
                for one in state.with_held(held.places, card=held.card).gpu_instances
                if one.place != but and (one.in_use or (one.place in begun and one.compute_instances))
            )
        )

    def _held(self, card: DeviceId, but: MigInstance | None) -> HeldOnCard:
        """What containers may have by claims on a card, without the place that changes."""
        others = [
            one
            for one in self._of_claims(card, Stage.READY, Stage.ENDING)
            if one.place is None or one.place != but
        ]
        if but is not None and any(one.place is None for one in others):
            return HeldOnCard(card=True)
        return HeldOnCard(frozenset(one.place for one in others if one.place is not None))

    def _of_claims(self, card: DeviceId, *stages: Stage) -> Iterator[PreparedDevice]:
        """The devices on a card of claims in these stages."""
        for claim in self._world.prepared.value.values():
            if claim.stage in stages:
                for one in claim.devices:
                    if one.gpu == card and not one.by_admin:
                        yield one

    @staticmethod
    def _empty(gpu: Gpu) -> Layout | None:
        """The layout of a card with nothing on it."""
        return () if is_switched_by_reset(gpu) else None


def _name(place: MigInstance | None) -> str:
    return "the whole" if place is None else f"{place.profile}@{place.start}"
