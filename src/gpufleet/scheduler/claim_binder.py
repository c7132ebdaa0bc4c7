"""Claims before their pod's Binding: written, seen again, and given back if the pod is not bound.

Between a write and the Binding our own copy of the claims has to show that write. So the engine has heard of
it before it can hear that the pod left, and all that other schedulers wrote before it is known: if a claim of
theirs has the same device, ours is given back. The API server itself compares no claims.

Devices that are made ready before their pod is bound are waited for here, as Kubernetes' scheduler does.
Those that fail, or are not ready in time, are given back.
"""

import asyncio
import logging

import msgspec

from gpufleet.cluster.claims.claim_tracker import ClaimTracker
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.device_preparation import preparation_of
from gpufleet.kube.codec.resource_claims import ShareIds
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.claim_writer import ClaimProblemError, ClaimTask, ClaimWriter

LOG = logging.getLogger(__name__)
SEEN_WITHIN_S = 30.0
"""A watch tells of a write within moments; one that lags so far is no ground to bind pods on."""

POLL_EVERY_S = 0.05
"""A look reads our own copy and costs nothing."""

READY_WITHIN_S = 600.0
"""For so long Kubernetes' scheduler waits for devices that are made ready (its setting bindingTimeout)."""

READY_POLL_S = 1.0
"""Devices take seconds to minutes to be made ready."""

# Pauses before claims are given back again where that failed; they double.
PAUSE_FIRST_S = 0.5
PAUSE_MOST_S = 15.0


class ClaimBinder:
    """Gets claims ready for Bindings. ``tracker`` has the claims as the watch tells of them.

    ``share_id`` makes ids for shares of devices.
    """

    def __init__(
        self, writer: ClaimWriter, tracker: ClaimTracker, clock: Clock, *, share_id: ShareIds, at_once: int
    ) -> None:
        self.writer = writer
        self.tracker = tracker
        self.clock = clock
        self.share_id = share_id
        self._turns = asyncio.Semaphore(at_once)
        self._releases: asyncio.Queue[tuple[PodName, tuple[ClaimTask, ...]]] = asyncio.Queue()
        self._being_released: set[str] = set()

    async def prepare(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Return once the pod may use each claim, alone. Raises ClaimProblemError where it cannot."""
        # A pod that was just told to wait may have found a place since.
        if not self._being_released.isdisjoint(task.uid for task in tasks if task.uid):
            raise ClaimProblemError("devices of its claims are just given back")
        async with self._turns:
            await self.writer.prepare(pod, tasks)
        give_up_at_s = self.clock.monotonic_s() + SEEN_WITHIN_S
        while not all(self._is_seen(pod, task) for task in tasks):
            if self.clock.monotonic_s() > give_up_at_s:
                raise ClaimProblemError(f"what was written into claims was not seen in {SEEN_WITHIN_S:.0f} s")
            await self.clock.sleep(POLL_EVERY_S)
        for task in tasks:
            others = self.tracker.others_with_devices_of(f"{pod.namespace}/{task.name}")
            if others:
                raise ClaimProblemError(f"claim {others[0]} has a device of claim {task.name} as well")
        await self._wait_until_ready(pod, tasks)

    async def _wait_until_ready(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Return once all devices are ready that are made ready before their pod is bound."""
        began_s = self.clock.monotonic_s()
        while True:
            awaited = [self._awaited(pod, task, self.clock.monotonic_s() - began_s) for task in tasks]
            if not any(awaited):
                return
            await self.clock.sleep(READY_POLL_S)

    def _awaited(self, pod: PodName, task: ClaimTask, waited_s: float) -> str:
        """What a claim's devices lack, "" for nothing. Raises ClaimProblemError where that is for good."""
        claim = self.writer.known(pod.namespace, task.name)
        if claim is None or claim.status.allocation is None or not self._is_seen(pod, task):
            raise ClaimProblemError(f"claim {task.name} gave back its devices before they were ready")
        found = preparation_of(claim)
        if found.failed:
            raise ClaimProblemError(
                f"devices of claim {task.name} failed to be made ready: {found.failed[0]}"
            )
        # A scheduler that ended may have waited before.
        written_at = claim.status.allocation.allocation_timestamp
        if written_at is not None:
            waited_s = max(waited_s, self.clock.now().timestamp() - microseconds(written_at) / 1_000_000)
        if found.awaited and waited_s > READY_WITHIN_S:
            problem = f"devices of claim {task.name} were not ready in {READY_WITHIN_S:.0f} s"
            raise ClaimProblemError(f"{problem}: {found.awaited[0]}")
        return next(iter(found.awaited), "")

    async def give_back(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Return once nothing of the pod is left in its claims: until then their devices count as held."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                async with self._turns:
                    await self.writer.give_back(pod, tasks)
            except LeadershipLost:
                raise
            except (KubeError, msgspec.DecodeError) as problem:
                LOG.warning("claims are not given back yet", extra={"pod": str(pod), "problem": str(problem)})
                await self.clock.sleep(pause_s)
                pause_s = min(PAUSE_MOST_S, 2 * pause_s)
            else:
                return

    def release(self, pod: PodName, tasks: tuple[ClaimTask, ...]) -> None:
        """Have devices given back with which a pod that waits cannot start, so that it may get others."""
        fresh = tuple(task for task in tasks if task.uid not in self._being_released)
        if fresh:
            # A claim that was just made has no uid here yet.
            self._being_released.update(task.uid for task in fresh if task.uid)
            self._releases.put_nowait((pod, fresh))

    async def run(self) -> None:
        """Give back what ``release`` was told, until cancelled."""
        while True:
            pod, tasks = await self._releases.get()
            await self.give_back(pod, tasks)
            self._being_released.difference_update(task.uid for task in tasks)

    def _is_seen(self, pod: PodName, task: ClaimTask) -> bool:
        seen = self.tracker.claims.get(f"{pod.namespace}/{task.name}")
        # The uid of a claim that was just made is not known here, and its name is that of no other claim.
        if seen is None or (task.uid and seen.uid != task.uid):
            return False
        return seen.allocation is not None and pod.uid in seen.reserved_for
