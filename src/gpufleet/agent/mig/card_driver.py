"""The driver's calls for MIG from the event loop: each card has a thread, and each call a time limit."""

from gpufleet.devices.partitioner import Partitioner, make_call
from gpufleet.devices.threaded_backend import CallThread
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import Call
from gpufleet.model.identifiers import DeviceId

CALL_LIMIT_S = 60.0
"""A cold driver takes 10 s to find its instances, and a reset longer."""


class ThreadedCardDriver:
    """The calls of ``layout_changer.CardDriver``, made of a partitioner."""

    def __init__(self, partitioner: Partitioner) -> None:
        self._partitioner = partitioner
        self._threads: dict[DeviceId, CallThread] = {}

    async def card_state(self, uuid: DeviceId) -> CardState:
        """The card as it is. Raises DriverError."""
        thread = self._thread(uuid)
        return await thread.ask("MIG layout", lambda: self._partitioner.card_state(uuid), CALL_LIMIT_S)

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """Make a call. Raises DriverError where the driver refuses it."""
        thread = self._thread(uuid)
        await thread.ask(type(call).__name__, lambda: make_call(self._partitioner, uuid, call), CALL_LIMIT_S)

    def _thread(self, uuid: DeviceId) -> CallThread:
        return self._threads.setdefault(uuid, CallThread(f"MIG {uuid}"))
