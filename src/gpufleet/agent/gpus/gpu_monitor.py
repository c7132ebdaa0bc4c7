"""The health monitor: publishes the node's GPUs, with plan and health, and their readings.

A ``VendorMonitor`` watches the GPUs of each vendor that may have hardware here; this module joins what they
find. Nothing is published before every vendor was asked once, so that a follower never takes half of the GPUs
for all of them. Until then ``problems`` says that the GPUs are being looked for.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from gpufleet.agent.gpus.health_record import HealthRecord
from gpufleet.agent.gpus.monitored_gpu import MonitoredGpu
from gpufleet.agent.gpus.plans import Planner, Plans, no_sharing
from gpufleet.agent.gpus.vendor_monitor import AsyncBackend, Doubts, Pace, VendorMonitor
from gpufleet.agent.state.node_state import NodeGpus, Readings
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.backend import XidEvent
from gpufleet.devices.facts import GpuFacts, Link
from gpufleet.files.regular import read_kernel_file
from gpufleet.kube.clock import Clock
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import printable

LOG = logging.getLogger(__name__)

LOOKING = "the GPUs of this node are being looked for"

NEW_S = 5.0
"""Readings that are not older are new enough where new ones are asked for."""

RENEWED_WITHIN_S = 1.0
"""A look takes milliseconds, and waits for the one before it. A GPU that hangs is not waited for."""

LISTED_WITHIN_S = 30.0
"""A cold driver takes 10 s to find its MIG instances."""

# Errors of another boot are over: drivers and GPUs began anew.
BOOT_ID = "sys/kernel/random/boot_id"

Codes = Mapping[DeviceId, Sequence[int]]
"""Xids that keep GPUs out of service."""


async def nothing_remembered() -> Codes:
    """No errors are known besides those in the record."""
    return {}


class GpuMonitor:
    """All GPUs of one node. ``gpus`` and ``readings`` are followed by all other parts of the agent.

    ``present`` says whether a vendor's hardware is there; its library is left alone where not. A value
    without a boot id is one from before the GPUs were known. ``record`` keeps the health of the GPUs over a
    restart; where it cannot be believed, ``remembered`` gives the errors that the node's report in the API
    has. ``is_for_claims`` says which cards are not shared, because resource claims get them.
    """

    def __init__(
        self,
        node: str,
        backends: Mapping[Vendor, Callable[[], AsyncBackend]],
        clock: Clock,
        jitter: random.Random,
        *,
        pace: Pace,
        boot_id: str = "",
        planner: Topic[Planner] | None = None,
        present: Callable[[Vendor], bool] = lambda _: True,
        record: HealthRecord | None = None,
        remembered: Callable[[], Awaitable[Codes]] = nothing_remembered,
        is_for_claims: Callable[[GpuFacts], bool] = lambda _: False,
    ) -> None:
        self.gpus = Topic(NodeGpus(node, problems=(LOOKING,)))
        self.readings: Topic[Readings] = Topic({})
        self.planner: Topic[Planner] = planner or Topic(no_sharing)
        self.on_xid: Callable[[XidEvent], None] = lambda _: None
        """Called for each error that a driver reports."""
        self._plans = Plans()
        self._boot_id = boot_id
        self._clock = clock
        self._record = record
        self._remembered = remembered
        self.is_for_claims = is_for_claims
        self._codes: Codes = {}
        before = () if record is None else record.load()
        self._vendors = [
            VendorMonitor(
                vendor,
                make,
                clock,
                jitter,
                pace,
                self._publish,
                _asking(present, vendor),
                self._tell_xid,
                [one for one in before if one.facts.vendor is vendor],
            )
            for vendor, make in backends.items()
        ]

    async def run(self) -> None:
        """Watch until cancelled."""
        if self._record is not None and self._record.doubt:
            self._codes = await self._remembered()
            for vendor in self._vendors:
                vendor.doubts = Doubts(self._record.doubt, self._codes)
        async with asyncio.TaskGroup() as group:
            for vendor in self._vendors:
                group.create_task(vendor.run())
            group.create_task(self._follow_plans())

    async def renew(self) -> None:
        """Have all readings read anew that are older than ``NEW_S``; returns within ``RENEWED_WITHIN_S``."""
        before_s = self._clock.monotonic_s() - NEW_S
        for vendor in self._vendors:
            vendor.look_at_old(before_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RENEWED_WITHIN_S):
                async for readings in self.readings.follow():
                    if not any(one.is_from_before(before_s) for one in readings.values()):
                        return

    async def list_anew(self) -> None:
        """Wait until ``gpus`` is as the drivers say after this call. Raises TimeoutError."""
        async with asyncio.timeout(LISTED_WITHIN_S):
            await asyncio.gather(*(vendor.list_anew() for vendor in self._vendors if vendor.gpus))

    def _tell_xid(self, event: XidEvent) -> None:
        self.on_xid(event)

    async def _follow_plans(self) -> None:
        async for _ in self.planner.follow():
            self._publish()

    def _plan(self, gpus: Sequence[GpuFacts]) -> Plans:
        """What the planner says; where it fails, what it said last, with that problem."""
        try:
            self._plans = self.planner.value([self._as_planned(one) for one in gpus])
        except Exception as error:  # a bug there must not hide which GPUs are sick
            LOG.exception("GPUs cannot be planned")
            problem = f"the sharing plan could not be made: {printable(str(error), 200)}"
            return msgspec.structs.replace(self._plans, problems=(*self._plans.problems, problem))
        return self._plans

    def _as_planned(self, gpu: GpuFacts) -> GpuFacts:
        """A card of claims is whole for the plan: how it is cut changes with the claims, and not its plan."""
        if not gpu.mig_enabled or not self.is_for_claims(gpu):
            return gpu
        return msgspec.structs.replace(gpu, mig_enabled=False, mig=())

    def _publish(self) -> None:
        """Publish what is known now."""
        # GPUs of a vendor that was not asked yet would look as if they were gone.
        if not all(vendor.settled for vendor in self._vendors):
            return
        gpus = [gpu for vendor in self._vendors for gpu in _in_order(vendor)]
        problems = self._keep(gpus)
        plans = self._plan([gpu.facts for gpu in gpus])
        links: dict[tuple[DeviceId, DeviceId], Link] = {}
        for vendor in self._vendors:
            links |= vendor.links
        self.gpus.publish(
            NodeGpus(
                self.gpus.value.node,
                self._boot_id,
                drivers=tuple(vendor.driver for vendor in self._vendors if vendor.driver is not None),
                gpus=tuple(gpu.as_gpu(plans.plan(gpu.facts)) for gpu in gpus),
                links=links,
                problems=(
                    *(one for vendor in self._vendors for one in vendor.problems),
                    *problems,
                    *plans.problems,
                ),
            )
        )
        self.readings.publish({gpu.uuid: gpu.reading for gpu in gpus})

    def _keep(self, gpus: Sequence[MonitoredGpu]) -> tuple[str, ...]:
        """Write their health to the disk before it is published; returns the problems of that."""
        if self._record is None:
            return ()
        self._record.save([gpu.record for gpu in gpus], self._clock.monotonic_s())
        gone = sorted(self._codes.keys() - {gpu.uuid for gpu in gpus})
        stories = (f"{uuid} had Xid {_listed(self._codes[uuid])} and is not found any more" for uuid in gone)
        return (*stories, *filter(None, (self._record.problem,)))


def _listed(codes: Sequence[int]) -> str:
    return ", ".join(map(str, codes))


def read_boot_id(proc: Path = Path("/proc")) -> str:
    """The id of this boot; empty where the machine does not tell."""
    try:
        return read_kernel_file(proc / BOOT_ID).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _asking(present: Callable[[Vendor], bool], vendor: Vendor) -> Callable[[], bool]:
    return lambda: present(vendor)


def _in_order(vendor: VendorMonitor) -> list[MonitoredGpu]:
    return sorted(vendor.gpus.values(), key=lambda gpu: gpu.facts.index)
