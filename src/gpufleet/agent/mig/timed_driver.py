"""The driver's calls for MIG with the time that each step of a change takes.

``layout_changer`` makes the calls. The counts of all changes are the exporter's; the times of the change of
one card go into what its Node and its pods are told.
"""

from collections.abc import Awaitable, Callable

from gpufleet.agent.mig.layout_changer import CardDriver
from gpufleet.kube.clock import Clock
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import Call
from gpufleet.mig.step_times import Step, StepTimes, step_of
from gpufleet.model.identifiers import DeviceId


class StepCounts:
    """How often each step was taken since the agent began, and how many seconds that took together."""

    def __init__(self) -> None:
        self.steps: dict[Step, tuple[int, float]] = dict.fromkeys(Step, (0, 0.0))

    def told(self) -> dict[str, tuple[int, float]]:
        """Both by the name of the step."""
        return {step.value: counted for step, counted in self.steps.items()}

    def add(self, step: Step, took_s: float) -> None:
        """Count one step."""
        times, before_s = self.steps[step]
        self.steps[step] = times + 1, before_s + took_s


class TimedDriver:
    """The calls of ``CardDriver``. A change of a card begins with ``begin``, and ``of`` has its times."""

    def __init__(self, driver: CardDriver, clock: Clock, counts: StepCounts) -> None:
        self._driver = driver
        self._clock = clock
        self._counts = counts
        self._times: dict[DeviceId, StepTimes] = {}

    def begin(self, card: DeviceId) -> None:
        """Measure from here on for one card."""
        self._times[card] = StepTimes()

    def of(self, card: DeviceId) -> StepTimes:
        """How long the steps took since the change began."""
        return self._times.get(card, StepTimes())

    async def card_state(self, uuid: DeviceId) -> CardState:
        """The card as it is. Raises DriverError."""
        return await self._driver.card_state(uuid)

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """Make a call. Raises DriverError where the driver refuses it; that takes time too."""
        await self._timed(uuid, step_of(call), lambda: self._driver.make_call(uuid, call))

    async def listing(self, card: DeviceId, list_anew: Callable[[], Awaitable[None]]) -> None:
        """Have the devices listed anew after a change. Raises what that raises."""
        await self._timed(card, Step.LIST, list_anew)

    async def _timed(self, card: DeviceId, step: Step, work: Callable[[], Awaitable[None]]) -> None:
        began_s = self._clock.monotonic_s()
        try:
            await work()
        finally:
            took_s = self._clock.monotonic_s() - began_s
            self._counts.add(step, took_s)
            self._times[card] = self.of(card).plus(step, took_s)
