"""Offers the slots of shares to the kubelet while some GPU of the node is shared by fractions."""

import asyncio

from gpufleet.agent.known import Holders, NodeGpus
from gpufleet.agent.plugin.registration import Registration
from gpufleet.agent.plugin.share_slots import share_slots
from gpufleet.agent.plugin.share_steward import ShareSteward
from gpufleet.agent.topic import Topic, any_change


class ShareKeeper:
    """Keeps the offer equal to the node's plans, and the steward at work, while ``run`` runs."""

    def __init__(
        self,
        steward: ShareSteward,
        registration: Registration,
        gpus: Topic[NodeGpus],
        holders: Topic[Holders],
    ) -> None:
        self._steward = steward
        self._registration = registration
        self._gpus = gpus
        self._holders = holders

    @property
    def problem(self) -> str:
        """What keeps shares from being as safe as they should be; empty while nothing does."""
        return self._steward.problem

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._steward.run())

    async def _follow(self) -> None:
        async for _ in any_change(self._gpus, self._holders):
            slots = share_slots(self._gpus.value, self._holders.value)
            if slots:
                await self._registration.offer(self._steward, slots)
            else:
                await self._registration.withdraw(self._steward.resource)
