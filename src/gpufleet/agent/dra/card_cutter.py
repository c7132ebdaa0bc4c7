"""What cuts cards for claims, as the preparer of claims asks for it; ``agent.mig`` has it."""

from typing import Protocol

from gpufleet.mig.step_times import StepTimes
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance


class CardCutter(Protocol):
    """Makes what claims have, and nothing else stays on their cards but what is in use.

    Which places claims have is read from the prepared claims, so that a claim is remembered before anything
    is made for it, and forgotten after that is gone. A place of None is the whole card.
    """

    async def make(self, card: DeviceId, place: MigInstance | None) -> StepTimes:
        """Have the instance there, or the whole card; the GPUs are listed anew then. Raises RefusedError.

        Says how long each step took.
        """
        ...

    async def remove(self, card: DeviceId, place: MigInstance | None) -> None:
        """Have the instance gone, and the card whole where nothing else is on it. Raises RefusedError."""
        ...

    async def tidy(self, card: DeviceId) -> None:
        """Remove what no claim has and nothing uses. Raises RefusedError."""
        ...
