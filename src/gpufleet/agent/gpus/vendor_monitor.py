"""Watches the GPUs of one vendor: opens its library, listens to its events, and looks at each GPU in turn.

A session lasts from opening the library to the first failure that concerns all of it; then it is closed
and opened anew, after pauses that grow. Within a session each GPU has a loop of its own, so that one
that hangs keeps no other waiting, and the events have theirs, so that an Xid is judged at once. An error
that names no GPU makes none sick: every GPU is sampled at once instead.

``monitored_gpu`` judges, ``gpu_monitor`` puts the vendors together.
"""

import asyncio
import functools
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from gpufleet.agent.gpus.health_record import GpuRecord
from gpufleet.agent.gpus.monitored_gpu import MonitoredGpu
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.backend import Event, XidEvent
from gpufleet.devices.device_errors import DriverError, GpuLostError, NoAnswerError
from gpufleet.devices.facts import Driver, Fleet, Link
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.devices.xid import XidAction, xid
from gpufleet.kube.backoff import Backoff, RetryLimits
from gpufleet.kube.clock import Clock
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import printable

LOG = logging.getLogger(__name__)

# A library that cannot be opened is tried ever more seldom: a driver is installed within minutes.
PAUSES = RetryLimits(first_s=1.0, longest_s=30.0)
# A wait occupies the backend's thread for events, so it is short enough to end with the agent.
EVENT_WAIT_S = 5.0
HARDWARE_EVERY_S = 30.0
"""How often to look whether a machine without this vendor's hardware has some now."""

LIST_EVERY_S = 60.0
"""How often the GPUs are listed though no change was reported."""

POLL_GAP_S = 0.2
"""A GPU that reports a thousand errors a second is looked at no more often than so."""

# A GPU may repeat an error a thousand times a second; Events and the log get one.
SAME_XID_TOLD_AFTER_S = 60.0


class AsyncBackend(Protocol):
    """``devices.threaded_backend.ThreadedBackend``: each question is answered or fails in time."""

    async def open(self) -> None:
        """As Backend."""
        ...

    async def close(self) -> None:
        """As Backend; may be opened again."""
        ...

    async def fleet(self) -> Fleet:
        """As Backend."""
        ...

    async def sample(self, uuid: DeviceId) -> Sample:
        """As Backend."""
        ...

    async def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """As Backend."""
        ...

    async def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """As Backend."""
        ...

    async def wait_event(self, limit_s: float) -> Event | None:
        """As Backend."""
        ...

    def leave(self) -> None:
        """Nothing is asked for now: let the threads go."""
        ...


class Pace(msgspec.Struct, frozen=True):
    """How often a GPU is looked at: one that is well, and one that is not.

    ``processes`` asks for the processes on it too.
    """

    sample_every_s: float = 10.0
    attentive_every_s: float = 1.0
    processes: bool = False

    @property
    def stale_after_s(self) -> float:
        """The age at which readings are no longer shown."""
        return 3 * self.sample_every_s


class Doubts(msgspec.Struct, frozen=True):
    """Why it is not known what was against the GPUs, and the errors that the node's report has."""

    problem: str = ""
    codes: Mapping[DeviceId, Sequence[int]] = {}


class VendorMonitor:
    """One vendor's GPUs. ``changed`` is called whenever there is something new to be told.

    ``make`` gives the backend, when ``present`` first says that there is something for it. ``on_xid`` is
    called for each error that the driver reports. ``before`` is what an earlier process knew of its GPUs.
    """

    def __init__(
        self,
        vendor: Vendor,
        make: Callable[[], AsyncBackend],
        clock: Clock,
        jitter: random.Random,
        pace: Pace,
        changed: Callable[[], None],
        present: Callable[[], bool] = lambda: True,
        on_xid: Callable[[XidEvent], None] = lambda _: None,
        before: Sequence[GpuRecord] = (),
    ) -> None:
        self.vendor = vendor
        self.driver: Driver | None = None
        now_s = clock.monotonic_s()
        self.gpus = {one.facts.uuid: MonitoredGpu(one.facts, one, now_s) for one in before}
        self.doubts = Doubts()
        self.links: dict[tuple[DeviceId, DeviceId], Link] = {}
        self.settled = False
        """Whether all that could be learned at first has been."""
        self._make = make
        self._clock = clock
        self._pace = pace
        self._changed = changed
        self._present = present
        self._on_xid = on_xid
        self._backoff = Backoff(PAUSES, jitter)
        self._unusable = self._unlisted = self._deaf = ""
        self._session_driver: Driver | None = None
        self._loops: dict[DeviceId, asyncio.Task[None]] = {}
        self._list_again = asyncio.Event()
        self._lists_begun = 0
        self._lists_done = Topic(0)
        self._wake = {uuid: asyncio.Event() for uuid in self.gpus}
        self._unasked = set(self.gpus)
        self._told: dict[tuple[DeviceId | None, int], float] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps us from knowing more, as sentences."""
        found = dict.fromkeys((self._unusable, self._unlisted, self._deaf))
        return tuple(f"{self.vendor.value}: {problem}" for problem in found if problem)

    @functools.cached_property
    def _backend(self) -> AsyncBackend:
        return self._make()

    async def list_anew(self) -> None:
        """Wait until the GPUs were listed by a question to the driver that began after this call."""
        wanted = self._lists_begun + 1
        self._list_again.set()
        async for done in self._lists_done.follow():
            if done >= wanted:
                return

    def look_at_old(self, before_s: float) -> None:
        """Look soon at each GPU whose readings are from before this time."""
        for gpu in self.gpus.values():
            if gpu.reading.is_from_before(before_s):
                self._wake[gpu.uuid].set()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                while not self._present():
                    self._settle()
                    await self._clock.sleep(HARDWARE_EVERY_S)
                await self._session()
                await self._clock.sleep(self._backoff.next_s())
        finally:
            # A cached property: a library that was never opened has no threads, and is not to be opened now.
            if "_backend" in vars(self):
                self._backend.leave()

    async def _session(self) -> None:
        """Open the library and use it until it fails."""
        try:
            await self._backend.open()
            await self._watch()
        except* DriverError as group:
            self._fail(str(_first(group)))
        except* Exception as group:  # a backend's bug must not end the other vendors
            LOG.exception("a backend failed", extra={"vendor": self.vendor.value})
            self._fail(f"a bug of ours: {printable(str(_first(group)), 200)}")
        finally:
            self._loops.clear()
            await self._close()

    async def _watch(self) -> None:
        self._session_driver = None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            while True:
                await self._list(group)
                self._unusable = ""
                if not self._unlisted:
                    self._backoff.reset()
                self._settle()
                await self._wait_to_list()

    async def _close(self) -> None:
        try:
            await self._backend.close()
        except Exception as error:  # noqa: BLE001  whatever it is, the next session begins by opening
            LOG.info("a library was left open", extra={"vendor": self.vendor.value, "problem": str(error)})

    def _fail(self, problem: str) -> None:
        """The library cannot be used, so the health of its GPUs is unknown."""
        if problem != self._unusable:
            extra = {"vendor": self.vendor.value, "problem": problem}
            LOG.warning("the library of the GPUs cannot be used", extra=extra)
        self._unusable, self._unlisted, self._deaf = problem, "", ""
        for gpu in self.gpus.values():
            self._silent(gpu, problem)
        self._settle()

    def _settle(self) -> None:
        self.settled = True
        self._changed()

    async def _list(self, group: asyncio.TaskGroup) -> None:
        """See which GPUs there are; look at new ones, and give each a loop."""
        self._lists_begun += 1
        number = self._lists_begun
        try:
            fleet = await self._backend.fleet()
        # Only the listing is late: GPUs that answer are looked at as before.
        except NoAnswerError as error:
            self._unlisted = str(error)
            return
        self._unlisted = ""
        self._check_driver(fleet.driver)
        self.driver, self.links = fleet.driver, fleet.links
        new = self._listed(fleet)
        # New GPUs are asked before they are told of, so that none is told as well unseen.
        await asyncio.gather(*(self._look(gpu) for gpu in new))
        self._changed()
        self._lists_done.publish(number)
        for gpu in self.gpus.values():
            if gpu.uuid not in self._loops:
                self._loops[gpu.uuid] = group.create_task(self._keep_looking(gpu))

    def _check_driver(self, driver: Driver) -> None:
        """Raises DriverError where it is another one than this session began with."""
        before, self._session_driver = self._session_driver, driver
        if before is not None and before != driver:
            raise DriverError(f"the driver changed from {before.version} to {driver.version}")

    def _listed(self, fleet: Fleet) -> list[MonitoredGpu]:
        """Take the facts over; the GPUs that were not known."""
        new = []
        for facts in fleet.gpus:
            gpu = self.gpus.get(facts.uuid)
            if gpu is None:
                gpu = self.gpus[facts.uuid] = MonitoredGpu(facts)
                self._wake[facts.uuid] = asyncio.Event()
                self._unasked.add(facts.uuid)
                # What was against this GPU may be forgotten: it has to prove itself first.
                if self.doubts.problem:
                    codes = self.doubts.codes.get(facts.uuid, ())
                    gpu.unremembered(self.doubts.problem, codes, self._clock.monotonic_s())
            if facts.uuid in self._unasked:
                new.append(gpu)
                self._unasked.discard(facts.uuid)
            if facts != gpu.facts:
                self._wake[facts.uuid].set()
            gpu.listed(facts)
        there = {facts.uuid for facts in fleet.gpus}
        for gpu in self.gpus.values():
            if gpu.uuid not in there:
                gpu.missing(self._clock.monotonic_s())
        return new

    async def _wait_to_list(self) -> None:
        """Until something changed, or it is time anyway."""
        await self._clock.sleep(POLL_GAP_S)
        every_s = self._pace.attentive_every_s if self._unlisted else LIST_EVERY_S
        await _set_within(self._list_again, every_s)
        self._list_again.clear()

    async def _keep_looking(self, gpu: MonitoredGpu) -> None:
        wake = self._wake[gpu.uuid]
        while True:
            await self._clock.sleep(POLL_GAP_S)
            # Without events only a look shows a fault, so looks are as frequent as for a GPU in doubt.
            calm = gpu.well and not self._deaf
            every_s = self._pace.sample_every_s if calm else self._pace.attentive_every_s
            await _set_within(wake, every_s - POLL_GAP_S)
            wake.clear()
            await self._look(gpu)

    async def _look(self, gpu: MonitoredGpu) -> None:
        """Ask a GPU how it is."""
        try:
            sample = await self._backend.sample(gpu.uuid)
            instances = await self._instances(gpu)
            processes = await self._processes(gpu) if self._pace.processes else None
        except GpuLostError as error:
            if not gpu.lost:
                LOG.warning("a GPU is lost", extra={"gpu": gpu.uuid, "problem": str(error)})
                self._list_again.set()
            gpu.missing(self._clock.monotonic_s())
        except DriverError as error:
            if not gpu.health.silent:
                LOG.warning("a GPU does not answer", extra={"gpu": gpu.uuid, "problem": str(error)})
                self._list_again.set()
            self._silent(gpu, str(error))
        else:
            # It is back: the driver may have given it another index or other MIG instances.
            if gpu.lost:
                self._list_again.set()
            gpu.answered(sample, instances, processes, self._clock.monotonic_s())
        self._changed()

    async def _instances(self, gpu: MonitoredGpu) -> dict[str, Sample]:
        """Readings of its MIG instances, as far as the driver gives them."""
        found = {}
        for instance in gpu.facts.mig:
            try:
                found[instance.uuid] = await self._backend.sample_instance(gpu.uuid, instance.uuid)
            except GpuLostError:
                # Only the instance: the GPU itself answered.
                self._list_again.set()
            # A call that hangs concerns the whole GPU: no further call is put behind it.
            except NoAnswerError:
                raise
            except DriverError:
                continue
        return found

    async def _processes(self, gpu: MonitoredGpu) -> tuple[ProcessUse, ...] | None:
        try:
            return await self._backend.processes(gpu.uuid)
        except NoAnswerError:
            raise
        except DriverError:
            return None

    def _silent(self, gpu: MonitoredGpu, problem: str) -> None:
        now_s = self._clock.monotonic_s()
        gpu.silent(problem, now_s, forget_before_s=now_s - self._pace.stale_after_s)

    async def _listen(self) -> None:
        """Take in what the driver reports by itself."""
        while True:
            began_s = self._clock.monotonic_s()
            try:
                event = await self._backend.wait_event(EVENT_WAIT_S)
            except DriverError as error:
                await self._stop_events(error)
                continue
            self._deaf = ""
            if event is not None:
                self._heard(event)
            elif self._clock.monotonic_s() - began_s < POLL_GAP_S:
                # A library that is being closed does not wait, so the wait is here.
                await self._clock.sleep(POLL_GAP_S)

    async def _stop_events(self, error: DriverError) -> None:
        """No events for now: GPUs are looked at more often; the list shows whether all of it is gone."""
        if not self._deaf:
            LOG.warning("no events of GPUs", extra={"vendor": self.vendor.value, "problem": str(error)})
            self._list_again.set()
        self._deaf = f"no events: {error}"
        self._changed()
        await self._clock.sleep(self._pace.attentive_every_s)

    def _heard(self, event: Event) -> None:
        gpu = None if event.uuid is None else self.gpus.get(event.uuid)
        if isinstance(event, XidEvent):
            self._tell(event)
            self._on_xid(event)
            if gpu is not None:
                gpu.xid_seen(event.code, event.mig_uuid, self._clock.monotonic_s())
                self._changed()
            # An error that concerns a program alone does not say that a GPU may be gone.
            elif xid(event.code).action in (XidAction.NOTHING, XidAction.POD):
                return
        # An error that names no GPU, or a change of hardware: any GPU may be gone.
        if gpu is None or not isinstance(event, XidEvent):
            self._list_again.set()
        for uuid, wake in self._wake.items():
            if gpu is None or uuid == gpu.uuid:
                wake.set()

    def _tell(self, event: XidEvent) -> None:
        """Log an error, the same one of a GPU no more than once a minute."""
        now_s, which = self._clock.monotonic_s(), (event.uuid, event.code)
        if now_s - self._told.get(which, -SAME_XID_TOLD_AFTER_S) < SAME_XID_TOLD_AFTER_S:
            return
        self._told[which] = now_s
        row = xid(event.code)
        extra = {"gpu": event.uuid, "instance": event.mig_uuid, "xid": event.code, "meaning": row.meaning}
        LOG.warning("the driver reported an error", extra={**extra, "action": row.action.value})


async def _set_within(event: asyncio.Event, limit_s: float) -> None:
    """Return when the event is set, or after so long."""
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure in a group, however deep."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
