"""Gangs that are bound in part and cannot be completed: what is taken back, and when.

A bound pod cannot be unbound. So when a gang still lacks members at its deadline, those that have a
controller are evicted, which also gives them the condition DisruptionTarget: the controller makes
them anew and the gang starts again, whole. A bare pod would be lost for good, so it stays, with the reason,
unless its group asks for deletion. For a gang that a new leader finds short, the deadline counts from the
time at which the API server noted the first member as scheduled; one that becomes short later (a kubelet
rejected a member, or a member failed) has its whole time from then on, however long it has run. The deadline
is turned into our own monotonic time once, when the gang is first seen short, so that a jump of the wall
clock moves no deadline.
"""

import asyncio
import datetime as dt
import logging

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.errors import KubeError
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import Conflict, NotFound, TooManyRequests
from gpufleet.model.identifiers import GangName
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.reporting import Reporter
from gpufleet.scheduler.wire_text import PodName

LOG = logging.getLogger(__name__)
REASON = "GangIncomplete"
TRY_AGAIN_S = 15.0


class BoundMember(msgspec.Struct, frozen=True):
    """A member that has a node, and what may be done with it."""

    pod: PodName
    controlled: bool
    may_be_deleted: bool = False


class HalfBound(msgspec.Struct, frozen=True):
    """A gang of which some members have a node, but fewer than it needs.

    ``since`` is as early as the API lets us say; the gang may have been whole in between. None where the
    API says nothing that makes sense: then for now.
    """

    gang: GangName
    min_members: int
    members: tuple[BoundMember, ...]
    since: dt.datetime | None
    deadline_s: float


class _Watch(msgspec.Struct):
    due_s: float
    told: bool = False


class GangDeadlines:
    """Watches gangs that are half bound and takes them back past their deadline."""

    def __init__(self, client: Client, reporter: Reporter, metrics: Metrics) -> None:
        self.client = client
        self.reporter = reporter
        self.metrics = metrics
        self._watches: dict[GangName, _Watch] = {}
        self._taken_over = False
        self._tasks: asyncio.Queue[tuple[HalfBound, BoundMember]] = asyncio.Queue()

    def regard(self, gangs: list[HalfBound]) -> None:
        """These gangs, and no others, are half bound now."""
        now_s, now = self.client.clock.monotonic_s(), self.client.clock.now()
        names = {gang.gang for gang in gangs}
        for name in [name for name in self._watches if name not in names]:
            del self._watches[name]
        for gang in gangs:
            watch = self._watches.get(gang.gang)
            if watch is None:
                # Once we lead we see a gang become short in the moment in which it does.
                since = now if self._taken_over or gang.since is None else gang.since
                elapsed_s = (now - since).total_seconds()
                left_s = min(gang.deadline_s, max(0.0, gang.deadline_s - elapsed_s))
                watch = self._watches[gang.gang] = _Watch(now_s + left_s)
            if watch.due_s <= now_s:
                self._take_back(gang, first=not watch.told)
                watch.told = True
                watch.due_s = now_s + TRY_AGAIN_S
        self._taken_over = True

    def next_due_s(self) -> float | None:
        """When the next deadline passes."""
        return min((watch.due_s for watch in self._watches.values()), default=None)

    def _take_back(self, gang: HalfBound, *, first: bool) -> None:
        bound = len(gang.members)
        note = f"gang {gang.gang} has {bound} of {gang.min_members} members placed past its deadline"
        for member in gang.members:
            if member.controlled or member.may_be_deleted:
                self._tasks.put_nowait((gang, member))
                if first:
                    self.reporter.warns(member.pod, REASON, f"{note}; it is taken back to start again")
            elif first:
                way_out = "it stays, because no controller would replace it; delete it to free its room"
                self.reporter.warns(member.pod, REASON, f"{note}; {way_out}")

    async def run(self) -> None:
        """Carry out evictions until cancelled."""
        while True:
            gang, member = await self._tasks.get()
            outcome = await self._evict(member)
            self.metrics.evictions.labels("gang-incomplete", outcome).inc()
            LOG.info(
                "a member of an incomplete gang was taken back",
                extra={"pod": str(member.pod), "gang": gang.gang, "outcome": outcome},
            )

    async def _evict(self, member: BoundMember) -> str:
        pod = member.pod
        try:
            if not member.controlled:
                await self.client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
                return "deleted"
            await self.client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
        except (NotFound, Conflict):
            return "gone"
        except TooManyRequests:
            return "budget-forbids"
        except KubeError as problem:
            LOG.warning("an eviction failed", extra={"pod": str(pod), "problem": str(problem)})
            return "failed"
        return "evicted"
