"""One card is brought to another layout: each call is made of the driver, and the record says how far it is.

The record is written before the first call and whenever the direction changes. It is removed by the one who
asked, after the outcome was told: a process that is killed before that finds the record and goes on.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from gpufleet.devices.device_errors import DriverError
from gpufleet.kube.clock import Clock
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import Call, InTheWay, LayoutChange, Reached, failed, next_call, turned_back
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry, MigInstance

LOG = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Between a refused call and the next: destroying an instance takes the driver about as long."""


class CardDriver(Protocol):
    """The driver's calls for MIG, each answered or failed in time."""

    async def card_state(self, uuid: DeviceId) -> CardState:
        """The card as it is. Raises DriverError."""
        ...

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """Make a call. Raises DriverError where the driver refuses it."""
        ...


class ChangeRecords(Protocol):
    """Where the records of changes are kept."""

    async def write(self, change: LayoutChange) -> None:
        """Keep the record of a card's change."""
        ...


class HeldOnCard(msgspec.Struct, frozen=True):
    """What is held on a card, whether programs run or not; ``card`` is all of it, with its instances."""

    places: frozenset[MigInstance] = frozenset()
    card: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """How a change ended: with the wanted layout, or with ``layout`` and why."""

    reached: bool
    layout: Layout | None
    problem: str = ""


class LayoutChanger:
    """Changes layouts. ``held`` says what is held on a card, and is asked before every call."""

    def __init__(
        self,
        driver: CardDriver,
        records: ChangeRecords,
        clock: Clock,
        held: Callable[[DeviceId], Awaitable[HeldOnCard]],
    ) -> None:
        self.driver = driver
        self.records = records
        self.clock = clock
        self.held = held

    async def carry_out(self, change: LayoutChange, geometry: MigGeometry) -> Outcome:
        """Bring the card to the layout, or back.

        Raises DriverError where the driver does not answer, and what ``held`` raises; the record stays then.
        """
        await self.records.write(change)
        while True:
            card = await self.driver.card_state(change.card)
            # Asked last, so that nothing is waited for between its answer and the call.
            held = await self.held(change.card)
            found = next_call(change, card.with_held(held.places, card=held.card), geometry)
            if isinstance(found, Reached):
                return Outcome(not change.going_back, change.target, change.problem)
            if isinstance(found, InTheWay):
                after = turned_back(change, found.problem)
            else:
                after = await self._made(change, found)
            if after is None:
                return _given_up(change, card)
            if after.going_back != change.going_back:
                await self.records.write(after)
            change = after

    async def _made(self, change: LayoutChange, call: Call) -> LayoutChange | None:
        """The change after a call; None where it is given up."""
        try:
            await self.driver.make_call(change.card, call)
        except DriverError as error:
            extra = {"gpu": change.card, "call": type(call).__name__, "problem": str(error)}
            LOG.warning("the driver refused a change of a MIG layout", extra=extra)
            await self.clock.sleep(PAUSE_S)
            return failed(change, str(error))
        LOG.info("a MIG layout changes", extra={"gpu": change.card, "call": type(call).__name__})
        return change if not change.failures else msgspec.structs.replace(change, failures=0)


def _given_up(change: LayoutChange, card: CardState) -> Outcome:
    layout = tuple(sorted(one.place for one in card.gpu_instances)) if card.mig_enabled else None
    return Outcome(reached=False, layout=layout, problem=change.problem)
