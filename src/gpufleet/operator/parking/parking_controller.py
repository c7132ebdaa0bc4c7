"""The controller of parking: once a minute it observes, decides, and writes what follows.

Beside that it hears at once of a parked workload that is to come back. Where Prometheus does not answer
nothing is known, so nothing is parked, and what is parked still wakes. No state is in memory alone.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import PodsWatchedByAsker, Victim
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects.metadata import Metadata, PartialObject
from gpufleet.kube.resources import EVENTS, Kind
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import WorldError
from gpufleet.model.pod_name import PodName
from gpufleet.operator.events import event_of
from gpufleet.operator.parking.events import ACTION, REFUSED, sentence_of
from gpufleet.operator.parking.hub_sessions import SessionSource
from gpufleet.operator.parking.observation import FoundWorkload, Observation, observe
from gpufleet.operator.parking.parking_keys import PARKED, PARKED_VALUE
from gpufleet.operator.parking.parking_step import ParkingAction, ParkingWrite, parking_step
from gpufleet.operator.parking.patches import patch_of
from gpufleet.operator.parking.tally import ParkingFigures, ParkingTally
from gpufleet.operator.parking.workloads import SERVERS, UNINSTALLED, WAYS
from gpufleet.usage.prometheus.client import Source

LOG = logging.getLogger(__name__)
ROUND_S = 60.0
"""How often it looks: as often as the finest step of measurements."""

GATHER_S = 0.5
"""How long changes of parked work are gathered before a round."""

US_PER_S = 10**6
IDLE = "idle"
"""The reason for which pods end here, in the log."""

WARNINGS = frozenset({ParkingAction.WARN, ParkingAction.PARK})
_PARTIAL = msgspec.json.Decoder(PartialObject)


class ParkingController:
    """A leader's rounds.

    ``may_write`` is asked before each write: whether this process still leads. ``hub`` knows of sessions in
    servers of JupyterHub.
    """

    def __init__(
        self,
        client: Client,
        source: Source | None,
        may_write: Callable[[], bool],
        hub: SessionSource | None = None,
    ) -> None:
        self._client = client
        self._source = source
        self._hub = hub
        self._may_write = may_write
        self._changed = asyncio.Event()
        self._told: set[tuple[str, str]] = set()
        self._evictions = Evictions(
            client, PodsWatchedByAsker(), epoch=None, at_once=1, may_write=may_write, ends=lambda _: False
        )
        self._tally = ParkingTally()
        self.figures: ParkingFigures | None = None
        self.rounds = 0
        selection = Selection(labels=f"{PARKED}={PARKED_VALUE}")
        self._mirrors = [
            Mirror(client, kind, _PARTIAL, self._heard, selection=selection, optional=kind in UNINSTALLED)
            for kind in WAYS
        ]

    async def run(self) -> None:
        """Follow what is parked, and take rounds, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in self._mirrors:
                group.create_task(mirror.run())
            group.create_task(self._rounds())

    async def _rounds(self) -> None:
        while True:
            try:
                await self.turn()
            except KubeError as error:
                LOG.warning("work was not looked at", extra={"problem": str(error)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND_S):
                    await self._changed.wait()
                    await self._client.clock.sleep(GATHER_S)
            # Before the round and not after it: what changes while the round is under way makes another
            # one.
            self._changed.clear()

    async def turn(self) -> int:
        """One round; the number of writes. Raises KubeError where the cluster cannot be read."""
        now_us = int(self._client.clock.now().timestamp() * US_PER_S)
        try:
            found = await observe(self._client, self._source, now_us, hub=self._hub)
        except KubeError:
            # A KubeError is a WorldError too, and no fault of the measurements.
            raise
        except WorldError as error:
            # Without measurements nothing is known to be idle; waking needs none.
            LOG.warning("nothing was measured", extra={"problem": str(error)})
            found = await observe(self._client, None, now_us)
        self.figures = self._tally.count(found.seen, len(found.problems), now_us)
        await self._tell_problems(found)
        written = 0
        for write in parking_step(found.seen, now_us).writes:
            written += await self._write(write, found.found[write.key])
        self.rounds += 1
        return written

    async def _write(self, write: ParkingWrite, one: FoundWorkload) -> bool:
        if not self._may_write():
            return False
        kind, metadata = one.kind, one.workload.metadata
        try:
            if kind is SERVERS and write.action is ParkingAction.PARK:
                if not await self._end(metadata):
                    return False
            else:
                patch = patch_of(write, kind, metadata)
                await self._client.patch(kind, metadata.name, patch, namespace=metadata.namespace)
        except (Conflict, NotFound, LeadershipLost):
            # It is another by now, which the next round sees, or another process leads.
            return False
        except KubeError as error:
            LOG.warning("work is not written", extra={"work": str(write.key), "problem": str(error)})
            return False
        LOG.info("parking", extra={"work": str(write.key), "action": write.action.value})
        await self._event(
            kind, metadata, write.action.value, sentence_of(write), warns=write.action in WARNINGS
        )
        return True

    async def _end(self, metadata: Metadata) -> bool:
        """A server of JupyterHub ends, if its disruption budgets allow. Its hub can start it anew."""
        pod = PodName(metadata.namespace, metadata.name, PodUid(metadata.uid))
        if await self._evictions.evict(Victim(pod, IDLE)) is not None:
            # Its deadline is over, so that the next round asks again.
            return False
        self._tally.server_ended()
        return True

    async def _event(self, kind: Kind, metadata: Metadata, reason: str, note: str, *, warns: bool) -> None:
        event = event_of(kind, metadata, reason, note, self._client.clock.now(), action=ACTION, warns=warns)
        try:
            await self._client.create(EVENTS, event, namespace=metadata.namespace)
        except KubeError as error:
            LOG.warning("an Event could not be written", extra={"problem": str(error)})

    async def _tell_problems(self, found: Observation) -> None:
        """An Event for each problem that is new: for as long as this process leads, each is told once."""
        problems = {(metadata.uid, problem): (kind, metadata) for kind, metadata, problem in found.problems}
        for (uid, problem), (kind, metadata) in problems.items():
            if (uid, problem) not in self._told and self._may_write():
                await self._event(kind, metadata, REFUSED, f"It is not parked: {problem}", warns=True)
        # What has been mended is forgotten, so that it is told again if it comes back.
        self._told = set(problems)

    def _heard(self, _: Change[PartialObject]) -> None:
        self._changed.set()
