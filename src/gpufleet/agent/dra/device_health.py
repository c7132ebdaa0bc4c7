"""The health of devices as the kubelet shows it in the status of pods that hold them."""

import asyncio
from collections.abc import Iterator

import msgspec

from gpufleet.agent.dra.offered_device import OfferedDevice
from gpufleet.agent.dra.slice_publisher import Pools
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.health import Verdict

MESSAGE_LONGEST = 1024
"""What the kubelet takes of a message."""

STATUSES = {Verdict.HEALTHY: "HEALTHY", Verdict.UNHEALTHY: "UNHEALTHY", Verdict.UNKNOWN: "UNKNOWN"}
"""The kubelet's words."""


class DeviceHealth(msgspec.Struct, frozen=True):
    """A device with its status in the kubelet's words, and why."""

    pool: str
    device: str
    status: str
    message: str = ""


class HealthSource:
    """The health of all devices that are offered to claims, from the cards and the pools."""

    def __init__(self, gpus: Topic[NodeGpus], pools: Topic[Pools]) -> None:
        self._gpus = gpus
        self._pools = pools

    @property
    def changed(self) -> asyncio.Event:
        """Set once a card is not as it was."""
        return self._gpus.changed

    def of(self, driver: str) -> Iterator[DeviceHealth]:
        """All devices of a driver."""
        for pool in self._pools.value or ():
            if pool.driver == driver:
                for one in pool.devices:
                    verdict, reason = self._verdict(one)
                    message = reason.encode()[:MESSAGE_LONGEST].decode(errors="ignore")
                    yield DeviceHealth(pool.name, one.name, STATUSES[verdict], message)

    def _verdict(self, device: OfferedDevice) -> tuple[Verdict, str]:
        gpu = self._gpus.value.gpu(device.gpu)
        if gpu is None:
            return Verdict.UNKNOWN, "the card is not known at the moment"
        instance = device.instance
        if device.made is not None and device.made.place is not None:
            there = gpu.instance_at(device.made.place)
            instance = "" if there is None else there.uuid
        if gpu.health is Verdict.HEALTHY and instance in gpu.sick_instances:
            return Verdict.UNHEALTHY, gpu.sick_instances[instance]
        return gpu.health, gpu.reason
