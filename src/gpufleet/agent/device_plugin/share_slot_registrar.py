"""Offers the slots of shares to the kubelet while some GPU of the node is shared by fractions."""

import asyncio

from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.share_allocator import ShareAllocator
from gpufleet.agent.state.node_state import Holders, NodeGpus
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.agent.units.share_slots import share_slots


class ShareSlotRegistrar:
    """Keeps the offer equal to the node's plans, and the allocator at work, while ``run`` runs."""

    def __init__(
        self,
        allocator: ShareAllocator,
        registration: KubeletRegistration,
        gpus: Topic[NodeGpus],
        holders: Topic[Holders],
    ) -> None:
        self._allocator = allocator
        self._registration = registration
        self._gpus = gpus
        self._holders = holders

    @property
    def problem(self) -> str:
        """What keeps shares from being as safe as they should be; empty while nothing does."""
        return self._allocator.problem

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._allocator.run())

    async def _follow(self) -> None:
        async for _ in any_change(self._gpus, self._holders):
            slots = share_slots(self._gpus.value, self._holders.value)
            if slots:
                await self._registration.offer(self._allocator, slots)
            else:
                await self._registration.withdraw(self._allocator.resource)
