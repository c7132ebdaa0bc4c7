"""Keeps the node's ResourceSlices in the API server equal to its pools, and touches no other slice.

Ours are those of our pools' names; slices of other drivers and of other pools stay as they are. Where
another program offers cards of a vendor on this node under the same driver's name, ours are taken away and
the problem is told: one card must not be offered twice. The kubelet deletes the slices of its node when it
starts; they are seen to be missing, and written again. Each slice belongs to the Node and goes with it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.agent.dra.device_pools import (
    DRIVERS,
    DevicePool,
    pool_name,
    without_counters,
    without_tainted,
)
from gpufleet.agent.dra.slice_plan import slice_plan
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY, Backoff, RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror, Pace
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects.metadata import Metadata, OwnerReference, PartialObject
from gpufleet.kube.objects.resource_slices import ResourceSliceObject, ResourceSliceSpec
from gpufleet.kube.resources import NODES, RESOURCE_SLICES
from gpufleet.kube.status import NotFound, StatusError

LOG = logging.getLogger(__name__)
# A card that goes out of service changes several devices at once: one write tells all.
GATHERING_S = 0.05
# Two writes of a pool a second at most, so that a card that flaps costs the API server little.
SPACING_S = 0.5
COMPARED_EVERY_S = 600.0
"""A watch may miss what it was told of; a look costs little."""

# Between tries to write, ever longer while the API server is away; claims wait for these slices.
PAUSES = RetryLimits(first_s=0.2, longest_s=10.0)
# Where the server does not serve resource.k8s.io/v1, before 1.34.
PACE = Pace(absent_pause_s=15.0)
NO_TAINTS = "the API server keeps no taints of devices: devices that are out of service are not offered"
NO_COUNTERS = "the API server keeps no counters of devices: cards are offered as a whole, and not in parts"
_NODE = msgspec.json.Decoder(PartialObject)
_SLICE = msgspec.json.Decoder(ResourceSliceObject)

Pools = tuple[DevicePool, ...] | None
"""The pools of the node; None as long as its cards are not known."""


class SlicePublisher:
    """Writes slices while ``run`` runs.

    ``problem`` says why they may not be what they should be; empty while they are.
    """

    def __init__(self, client: Client, node: str, pools: Topic[Pools]) -> None:
        self._client = client
        self._node = node
        self._pools = pools
        self._own = Selection(fields=f"spec.nodeName={node}")
        self._news = asyncio.Event()
        self._backoff = Backoff(PAUSES, client.jitter)
        self._kept: dict[str, tuple[ResourceSliceSpec, ResourceSliceSpec]] = {}
        """What was sent last and what the server made of it, by the names of slices where these differ."""

        self._knows_taints = True
        self._knows_counters = True
        self.problem = ""

    @property
    def remembered(self) -> int:
        """The number of slices that the server keeps otherwise than they were sent."""
        return len(self._kept)

    async def run(self) -> None:
        """Write until cancelled; failures of the world are tried again."""
        mirror = Mirror(
            self._client, RESOURCE_SLICES, _SLICE, self._hear, selection=self._own, optional=True, pace=PACE
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(mirror.run())
            group.create_task(self._listen())
            await mirror.wait_listed()
            group.create_task(self._keep())

    def _hear(self, _: Change[ResourceSliceObject]) -> None:
        self._news.set()

    async def _listen(self) -> None:
        async for _ in self._pools.follow():
            self._news.set()

    async def _keep(self) -> None:
        clock = self._client.clock
        while True:
            await clock.sleep(GATHERING_S)
            self._news.clear()
            try:
                problems = await self.settle()
            except KubeError as problem:
                await clock.sleep(max(SPACING_S, self._failed(problem)))
                continue
            self._backoff.reset()
            self._tell("; ".join(problems))
            await clock.sleep(SPACING_S - GATHERING_S)
            limit_s = COMPARED_EVERY_S * self._client.jitter.uniform(0.5, 1.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._news.wait()

    def _failed(self, problem: KubeError) -> float:
        """Remember why; how long to wait before the next try, in seconds."""
        self._tell(str(problem))
        return self._backoff.next_s(problem.retry_after_s if isinstance(problem, StatusError) else None)

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            LOG.warning("resource slices are not as they should be", extra={"problem": problem})
        self.problem = problem

    async def settle(self) -> list[str]:
        """Make the slices what the pools say now; what stands in the way, in sentences. Raises KubeError."""
        pools = self._pools.value
        if pools is None:
            # The cards are not known yet; slices of an earlier agent serve the claims that come.
            return []
        there = await self._listed()
        problems = []
        for pool in pools:
            rivals = sorted(one.metadata.name for one in there if _is_rival(one, pool))
            if rivals:
                problems.append(
                    f"another program offers devices of {pool.driver} on this node ({rivals[0]}); ours wait"
                )
            else:
                await self.settle_pool(pool, _of_pool(there, pool.driver, pool.name))
        served = {pool.driver for pool in pools if not any(_is_rival(one, pool) for one in there)}
        for driver in DRIVERS.values():
            if driver not in served:
                await self._delete(_of_pool(there, driver, pool_name(self._node, driver)))
        if not self._knows_taints:
            problems.append(NO_TAINTS)
        if not self._knows_counters:
            problems.append(NO_COUNTERS)
        return problems

    async def _listed(self) -> list[ResourceSliceObject]:
        """The slices of this node, ours and those of other programs."""
        found: list[ResourceSliceObject] = []
        try:
            async for page in self._client.list_pages(
                RESOURCE_SLICES, selection=self._own, retry_limits=ONE_TRY
            ):
                found += [decode(bytes(item), _SLICE) for item in page.items or ()]
        except NotFound as error:
            raise KubeError("the API server does not serve resource.k8s.io/v1, which 1.34 brought") from error
        return found

    async def settle_pool(self, pool: DevicePool, there: Sequence[ResourceSliceObject]) -> None:
        """Make the slices of a pool, seen like this, what they should be. Raises KubeError."""
        known = pool if self._knows_taints else without_tainted(pool)
        if not self._knows_counters:
            known = without_counters(known)
        plan = slice_plan(known, there, self._alike)
        for name, spec in plan.created:
            metadata = Metadata(name, owner_references=(await self._owner(),))
            body = msgspec.json.encode(ResourceSliceObject(metadata, spec))
            answer = await self._client.create(RESOURCE_SLICES, body, name=name, retry_limits=ONE_TRY)
            self._remember(name, spec, answer)
        for before, spec in plan.changed:
            # With the version that it was compared in, so that no other change is written over.
            body = msgspec.json.encode(ResourceSliceObject(before.metadata, spec))
            name = before.metadata.name
            answer = await self._client.replace(RESOURCE_SLICES, name, body, retry_limits=ONE_TRY)
            self._remember(name, spec, answer)
        await self._delete(plan.deleted)

    async def _delete(self, slices: Iterable[ResourceSliceObject]) -> None:
        for one in slices:
            self._kept.pop(one.metadata.name, None)
            with contextlib.suppress(NotFound):
                await self._client.delete(
                    RESOURCE_SLICES, one.metadata.name, uid=one.metadata.uid, retry_limits=ONE_TRY
                )

    def _remember(self, name: str, sent: ResourceSliceSpec, answer: bytes) -> None:
        """What the server made of a slice: it drops fields of features that are off, and says nothing.

        Raises KubeError where it drops counters, so that no device is written that would draw from them.
        """
        kept = decode(answer, _SLICE).spec
        if sent.shared_counters and not kept.shared_counters:
            self._knows_counters = False
            raise KubeError(NO_COUNTERS)
        self._kept.pop(name, None)
        if kept == sent:
            return
        self._kept[name] = (sent, kept)
        sent_taints = [one.taints for one in sent.devices]
        if self._knows_taints and sent_taints != [one.taints for one in kept.devices]:
            self._knows_taints = False
            self._news.set()
        LOG.warning("the API server keeps a resource slice otherwise than it was sent")

    def _alike(self, there: ResourceSliceSpec, wanted: ResourceSliceSpec) -> bool:
        return there == wanted or (wanted, there) in self._kept.values()

    async def _owner(self) -> OwnerReference:
        answer = await self._client.get(NODES, self._node, retry_limits=ONE_TRY)
        return OwnerReference("v1", "Node", self._node, decode(answer, _NODE).metadata.uid)


def _of_pool(there: Iterable[ResourceSliceObject], driver: str, name: str) -> list[ResourceSliceObject]:
    return [one for one in there if (one.spec.driver, one.spec.pool.name) == (driver, name)]


def _is_rival(one: ResourceSliceObject, pool: DevicePool) -> bool:
    """Whether a slice of this node is of the same driver and another pool, which is not ours."""
    return one.spec.driver == pool.driver and one.spec.pool.name != pool.name
